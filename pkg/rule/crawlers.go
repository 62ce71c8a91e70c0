package rule

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"weir/internal/nearest"
	"weir/internal/yamlfile"
)

// knownCrawlers are the domains of crawlers: each operator documents that the names of its crawler's addresses are under
// them. Google also names those of user-triggered fetchers, under google.com and googleusercontent.com, and some of these
// serve customers, so they are not in it.
var knownCrawlers = map[string][]string{
	"applebot":  {"applebot.apple.com"},
	"baidu":     {"crawl.baidu.com", "crawl.baidu.jp"},
	"bingbot":   {"search.msn.com"},
	"googlebot": {"googlebot.com"},
	"seznambot": {"seznam.cz"},
	"yandex":    {"yandex.com", "yandex.net", "yandex.ru"},
}

// rented are domains under which everyone who rents a machine has a name.
var rented = []string{"amazonaws.com", "azure.com", "contaboserver.net", "digitalocean.com", "googleusercontent.com", "hetzner.com", "linode.com",
	"linodeusercontent.com", "oraclecloud.com", "ovh.net", "vultrusercontent.com", "your-server.de"}

// A Crawler is a crawler that allow names: its addresses have names under one of the domains.
type Crawler struct {
	Name    string
	Domains []string // in lower case, without dots at their ends
}

// Is reports whether another crawler has the same name and domains.
func (c Crawler) Is(other Crawler) bool {
	return c.Name == other.Name && slices.Equal(c.Domains, other.Domains)
}

// CrawlerOf returns the name of the crawler that allow names and under whose domain a host's name is; empty for none. The
// name has lower case and no dot at its end. Anyone can give an address such a name: only if that name leads to the
// address, it is the crawler's.
func (s *Set) CrawlerOf(host string) string {
	for _, crawler := range s.Crawlers {
		if slices.ContainsFunc(crawler.Domains, func(domain string) bool { return host == domain || strings.HasSuffix(host, "."+domain) }) {
			return crawler.Name
		}
	}
	return ""
}

// decidingCrawlers are the crawlers in the form that is hashed.
func (s *Set) decidingCrawlers() (all []string) {
	for _, crawler := range s.Crawlers {
		all = append(all, crawler.Name+" "+strings.Join(crawler.Domains, " "))
	}
	return all
}

// A crawlersSpec is the crawlers of one's own: {monitor: [probes.example]}.
type crawlersSpec map[string]crawlerSpec

type crawlerSpec struct {
	domains []string
	place   yamlfile.Fault
}

var (
	crawlerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	domainName  = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// FromYAML reads names with one domain each, or a list.
func (c *crawlersSpec) FromYAML(v yamlfile.Value) {
	pairs, isMap := v.Map()
	if v.Null() {
		return
	}
	if !isMap {
		v.Faultf("write it as {monitor: [probes.example]}", "%s where crawlers with their domains are expected", v.Found())
		return
	}
	*c = crawlersSpec{}
	for _, pair := range pairs {
		place := v.Key(pair.Name)
		switch {
		case !crawlerName.MatchString(pair.Name):
			place.Faultf("use up to 64 letters, digits and . _ -", "%q is no name of a crawler", pair.Name)
		case knownCrawlers[pair.Name] != nil:
			place.Faultf("leave it out, or choose another name", "%s is known, with its domains", pair.Name)
		}
		var domains oneOrMore
		domains.FromYAML(pair.Value)
		for i, word := range domains.words {
			domains.words[i] = checkDomain(domains.places[i], word)
		}
		(*c)[pair.Name] = crawlerSpec{sorted(domains.words), place.Place()}
	}
}

// checkDomain returns a domain in its one form.
func checkDomain(v yamlfile.Value, word string) string {
	domain := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(strings.ToLower(word), "."), "*"), ".")
	of := func(wide string) bool { return domain == wide || strings.HasSuffix(domain, "."+wide) }
	switch i := slices.IndexFunc(rented, of); {
	case v.Faulty():
	case len(domain) > 253 || !domainName.MatchString(domain):
		v.Faultf("write it as crawl.example.com", "%q is no domain", word)
	case i >= 0:
		v.Warnf("name addresses with ip", "everyone who rents a machine there has a name under %s", rented[i])
	}
	return domain
}

// checkCrawler checks an allow entry that names crawlers.
func (a *allowSpec) checkCrawler(v yamlfile.Value) {
	for _, key := range []string{"ip", "user", "host", "match", "until", "rules"} {
		if v.Given(key) {
			v.Key(key).Faultf("leave it out, or write an entry of its own", "crawler and %s do not go together: it lets the crawler's addresses through whatever they ask for", key)
		}
	}
}

// addCrawlers keeps the crawlers of a file.
func (l *loader) addCrawlers(own crawlersSpec) {
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if other, twice := l.crawlers[name]; twice && !slices.Equal(other.domains, own[name].domains) {
			fault := own[name].place
			fault.What, fault.Remedy = fmt.Sprintf("the crawler %s has other domains at %s:%d", name, other.place.File, other.place.Line), "write it once, or give it another name"
			l.faults = append(l.faults, fault)
		}
		if l.crawlers == nil {
			l.crawlers = crawlersSpec{}
		}
		l.crawlers[name] = own[name]
	}
}

// findCrawlers returns the crawlers that allow names, by their names.
func (l *loader) findCrawlers() (all []Crawler) {
	known := slices.AppendSeq(slices.Collect(maps.Keys(knownCrawlers)), maps.Keys(l.crawlers))
	slices.Sort(known)
	known = slices.Compact(known)
	named := map[string]bool{}
	for _, allow := range l.crawling {
		for i, name := range allow.Crawler.words {
			domains := knownCrawlers[name]
			if own, is := l.crawlers[name]; is {
				domains = own.domains
			}
			if domains == nil && name != "" {
				fault := allow.Crawler.places[i].Place()
				fault.What, fault.Remedy = fmt.Sprintf("the crawler %s is not known", name), nearest.Suggest(name, known, "write its domain under crawlers, or one of ")
				l.faults = append(l.faults, fault)
			}
			if !named[name] {
				named[name] = true
				all = append(all, Crawler{name, domains})
			}
		}
	}
	slices.SortFunc(all, func(a, b Crawler) int { return strings.Compare(a.Name, b.Name) })
	return all
}

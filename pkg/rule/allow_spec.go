package rule

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir/internal/network"
	"weir/internal/yamlfile"
)

type allowSpec struct {
	IP    network.List `yaml:"ip"`
	User  oneOrMore    `yaml:"user"`
	Host  oneOrMore    `yaml:"host"`
	Match matchSpec    `yaml:"match"`
	Note  string       `yaml:"note"`
	Until untilSpec    `yaml:"until"`
	Rules oneOrMore    `yaml:"rules"`

	Crawler oneOrMore `yaml:"crawler"`

	place yamlfile.Fault
}

// FromYAML reads one allow entry.
func (a *allowSpec) FromYAML(v yamlfile.Value) {
	type plain allowSpec
	v.Decode((*plain)(a))
	a.place = v.Place()
	if _, isMap := v.Map(); !isMap {
		return
	}
	if v.Given("crawler") {
		a.checkCrawler(v)
		return
	}
	if !v.Given("ip") && !v.Given("user") && !v.Given("host") && !v.Given("match") {
		v.Faultf("write ip, user, host, match or crawler", "the entry would allow everything")
	}
	// Without addresses the entry would allow them all.
	if v.Given("ip") && len(a.IP.Prefixes)+len(a.IP.Files) == 0 && !v.Key("ip").Faulty() {
		v.Key("ip").Faultf("write at least one address, or leave the key out", "the list is empty")
	}

	// A warning and not an error: one may want to allow everything for a time.
	for _, prefix := range a.IP.Prefixes {
		if what, remedy := tooWide(prefix); what != "" {
			v.Key("ip").Warnf(remedy, "%s", what)
		}
	}

	// Requests are compared in this form, so an entry in any other one would never apply.
	for i, host := range a.Host.words {
		canonical := PlainHost(host)
		if canonical == "" {
			a.Host.places[i].Faultf("write a host's name", "%q is no host", host)
		}
		a.Host.words[i] = canonical
	}
}

// tooWide says what is wrong with a prefix that allows much of the internet. It is empty for others.
func tooWide(p netip.Prefix) (what, remedy string) {
	switch {
	case p.Bits() == 0:
		return p.String() + " allows every address", "write a smaller prefix"
	case network.IsWide(p):
		return p.String() + " allows a large part of all addresses", "write smaller prefixes"
	default:
		return "", ""
	}
}

// allow is the entry of a spec without mistakes; the files' prefixes are added to it.
func (a *allowSpec) allow(prefixes []netip.Prefix) *Allow {
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	return &Allow{
		Prefixes: slices.Compact(prefixes), Users: a.User.words, Hosts: a.Host.words, Match: a.Match.written, Note: a.Note,
		Until: time.Time(a.Until), Rules: a.Rules.words, match: a.Match.compiled, place: a.place,
	}
}

// oneOrMore is a word or a list of words.
type oneOrMore struct {
	words  []string
	places []yamlfile.Value
}

// FromYAML reads a word or a list of words.
func (o *oneOrMore) FromYAML(v yamlfile.Value) {
	elements := v.OneOrMore()
	if len(elements) == 0 {
		v.Faultf("write at least one element, or leave the key out", "the list is empty")
	}

	for _, element := range elements {
		text := element.Text()
		if text == "" && !element.Faulty() {
			element.Faultf("write a word", "an empty text stands here")
		}
		o.words, o.places = append(o.words, text), append(o.places, element)
	}
}

type untilSpec time.Time

// FromYAML reads a day, which means its beginning in UTC, or an instant.
func (u *untilSpec) FromYAML(v yamlfile.Value) {
	text, ok := v.Scalar()
	if !ok {
		v.Faultf("write a day, such as 2027-03-01", "%s where a time is expected", v.Found())
		return
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, strings.TrimSpace(text)); err == nil {
			*u = untilSpec(at.UTC())
			return
		}
	}
	v.Faultf("write a day, such as 2027-03-01, or an instant with its zone, such as 2027-03-01T12:00:00Z", "%q is no time", text)
}

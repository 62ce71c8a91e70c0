package enforcer

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/geoip"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// A Ruling determines the keys of a request: the rules, the client, and the headers that edges set.
type Ruling struct {
	Rules  *rule.Set
	Client *request.Client
	// Header is the header with the client's address behind proxies, in any case.
	Header string
	// Fields are headers that edges set themselves, by the fields of rules for which they are the source. A further
	// field of a rule's key that is missing here is read from the header of its name.
	Fields map[string]string
	// RequestID is the header in which edges name each request by an id that they make themselves; empty where they do not.
	// Checks with one id count once at inline limits.
	RequestID string
	// Shadow refuses nothing, for any list and rules.
	Shadow bool
}

// A ruling is an active Ruling.
type ruling struct {
	Ruling
	forwarded  string // the header, canonical
	userHeader string // canonical; empty when users are not known
	requestID  string // the same
	fields     []fieldHeader
	headers    []headerName // all that a check reads of a request's header
	counts     []ruleCounts // by the rules' indexes
	limits     []limits     // of inline rules, by the rules' indexes
	inline     bool         // there are inline rules
	elsewhere  *rule.Set    // the rules for lists that are enforced elsewhere
	askings    sync.Pool    // of *asking
}

// thisMachine are addresses that no firewall may block: loopback.
var thisMachine = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// forIPv4 are networks of IPv6 in which edges also find clients of IPv4. The key of ::1 is ::/64, and there HAProxy looks
// up every client of IPv4, as ::ffff:0:0/96. The key of a private address behind NAT64 is the network of all clients
// behind it.
var forIPv4 = []netip.Prefix{netip.MustParsePrefix("::/64"), netip.MustParsePrefix("64:ff9b::/64")}

// A fieldHeader is the header of a further field.
type fieldHeader struct{ field, header string }

func newRuling(of Ruling, m *metrics, enforcers int, before *ruling) (*ruling, error) {
	r := &ruling{Ruling: of, forwarded: http.CanonicalHeaderKey(of.Header), requestID: http.CanonicalHeaderKey(of.RequestID)}
	r.askings.New = func() any { return newAsking(r) }
	r.elsewhere = of.Rules.Sparing(slices.Concat(of.Client.Trusted(), thisMachine, forIPv4))
	for field, header := range of.Fields {
		r.addField(field, header)
	}

	for _, one := range of.Rules.Rules {
		r.counts = append(r.counts, m.ruleCounts(one.Name))
		limits, err := newLimits(one, m, enforcers, before)
		if err != nil {
			return nil, err
		}
		r.limits = append(r.limits, limits)
		r.inline = r.inline || one.Inline
		for _, word := range one.Key.Words() {
			r.addField(word, headerOf(word))
		}
	}

	r.nameHeaders()
	return r, nil
}

// ofRequest are the words of keys that every request has, and those of responses.
var ofRequest = []string{"ip", "method", "host", "path", "raw_path", "query", "agent", "referrer", "status", "bytes"}

func (r *ruling) addField(field, header string) {
	name, _, _ := strings.Cut(field, "/")
	known := func(f fieldHeader) bool { return f.field == field }
	place, isPlace := geoip.FieldOf(field)
	switch {
	case isPlace && r.Rules.Databases().Has(place): // found by the address
	case field == "user" && r.Fields[field] != "":
		r.userHeader = http.CanonicalHeaderKey(r.Fields[field])
	case field == "user", header == "", slices.Contains(ofRequest, name), slices.ContainsFunc(r.fields, known):
	default:
		r.fields = append(r.fields, fieldHeader{field, http.CanonicalHeaderKey(header)})
	}
}

// headerOf returns the default header of a further field: http_x_tenant and x_tenant are X-Tenant. A name with a dot is
// a member of a log's record, and has no header.
func headerOf(field string) string {
	if strings.ContainsAny(field, ".@$ ") {
		return ""
	}
	return strings.ReplaceAll(strings.TrimPrefix(field, "http_"), "_", "-")
}

// An asking is the memory of one check. One goroutine uses it at a time.
type asking struct {
	ruling  *ruling
	judge   *rule.Judge
	request request.Request
	asked   blocklist.Asked
	keys    []byte
	rules   []int // of asked.Keys, by index
	attempt attempt
	parts   []partWant // of a request that is asked about in parts
}

func newAsking(r *ruling) *asking {
	a := &asking{ruling: r, judge: r.Rules.NewJudge()}
	a.asked.Covered = a.covered
	return a
}

// read reads the request of a check. It returns false when a proxy of ours names no client, although its checks are
// about clients.
func (a *asking) read(r *http.Request, read func(*request.Request, *http.Request), now time.Time) (known bool, edge netip.Addr) {
	q := &a.request
	q.Reset()
	read(q, r)
	q.UnixMilli, q.Agent, q.Referrer = now.UnixMilli(), plain(header(r, "User-Agent")), plain(header(r, "Referer"))
	q.Host = plain(q.Host)
	q.Forwarded = joined(r, a.ruling.forwarded)
	if a.ruling.userHeader != "" {
		q.User = named(r, a.ruling.userHeader)
	}

	for _, f := range a.ruling.fields {
		if value := named(r, f.header); value != "" {
			q.Fields = append(q.Fields, request.Field{Name: f.field, Value: value})
		}
	}

	edge = peer(r)
	q.IP = edge
	if q.Forwarded != "" && edge.IsLoopback() {
		q.IP = netip.Addr{} // an edge on this machine: its client headers are trusted
	}

	// A proxy that passes a client on names it; without a name the check would be about the proxy.
	if proxy := a.ruling.Client.Resolve(q); proxy && q.Forwarded == "" {
		return false, edge
	}

	return q.IP.IsValid(), edge
}

// plain is the value of a header as logs and applications have it: without the spaces around it, which gRPC and HTTP/2
// keep, and empty for the dash that logs, and some edges, write for none.
func plain(value string) string {
	value = strings.Trim(value, " \t")
	if value == "-" {
		return ""
	}
	return value
}

// named returns the header of a user or another field. Caddy leaves a placeholder in it as it is when nothing stands for it:
// then the request has no authenticated user, or no client certificate.
func named(r *http.Request, name string) string {
	value := plain(header(r, name))
	placeholder := strings.HasPrefix(value, "{http.") && strings.HasSuffix(value, "}")
	if placeholder && r.URL != nil && r.URL.Path == checkPath+"/caddy" { // over gRPC there is no URL
		return ""
	}
	return value
}

// prepare makes the question for the list: the request's keys for the rules that may refuse it.
func (a *asking) prepare() *blocklist.Asked {
	q := &a.request
	a.asked.Fields, a.asked.Keys, a.keys, a.rules = a.asked.Fields[:0], a.asked.Keys[:0], a.keys[:0], a.rules[:0]
	a.asked.IP, a.asked.User = q.IP, a.hidden("user", q.User)
	a.addField("host", rule.PlainHost(q.Host))
	a.addField("path", a.judge.Path(q))
	a.addField("method", rule.PlainMethod(q.Method))
	a.addField("agent", q.Agent)
	for _, f := range q.Fields {
		a.addField(f.Name, f.Value)
	}

	for i, one := range a.ruling.Rules.Rules {
		// All keys share one buffer; if it grows, earlier keys keep the old one.
		start := len(a.keys)
		keys, ok := a.judge.AppendKey(a.keys, i, q)
		if !ok {
			continue
		}
		a.keys = keys
		a.asked.Keys = append(a.asked.Keys, blocklist.RuleKey{Rule: one.Name, Key: keys[start:len(keys):len(keys)]})
		a.rules = append(a.rules, i)
	}

	return &a.asked
}

// covered reports whether a block by the rule of an asked key is about the request.
func (a *asking) covered(i int) bool {
	return !a.judge.Allowed(a.rules[i], &a.request) && a.judge.Covers(a.rules[i], &a.request)
}

// addField adds a field that orders may name.
func (a *asking) addField(name, value string) {
	if value != "" {
		a.asked.Fields = append(a.asked.Fields, blocklist.Field{Name: name, Value: a.hidden(name, value)})
	}
}

// hidden returns the form in which entries have a value of a field, valid until the next check.
func (a *asking) hidden(name, value string) string {
	if a.ruling.Rules.Hides(name) {
		a.keys, value = a.judge.Hide(a.keys, value)
	}
	return value
}

package backtest

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/address"
	"weir/internal/duration"
	"weir/internal/yamlfile"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// The contents of a file of tests, as written.

type testFile struct {
	Rules rule.Source `yaml:"rules"`
	Start instantSpec `yaml:"start"`
	Tests []testSpec  `yaml:"tests"`
	GeoIP geoipSpec   `yaml:"geoip"`

	path string
	set  *rule.Set
}

type testSpec struct {
	Name     string        `yaml:"name"`
	Start    instantSpec   `yaml:"start"`
	Requests []requestSpec `yaml:"requests"`
	Log      string        `yaml:"log"`
	Format   string        `yaml:"format"`
	Blocked  []blockedSpec `yaml:"blocked"`
	Never    neverSpec     `yaml:"never"`

	place yamlfile.Fault
}

type requestSpec struct {
	At       momentSpec        `yaml:"at"`
	After    duration.Duration `yaml:"after"`
	Repeat   repeatSpec        `yaml:"repeat"`
	IP       addressSpec       `yaml:"ip"`
	User     string            `yaml:"user"`
	Method   string            `yaml:"method"`
	Host     string            `yaml:"host"`
	Path     string            `yaml:"path"`
	Query    string            `yaml:"query"`
	Status   int               `yaml:"status"`
	Bytes    int64             `yaml:"bytes"`
	Agent    string            `yaml:"agent"`
	Referrer string            `yaml:"referrer"`
	Fields   map[string]string `yaml:"fields"`
}

// A geoipSpec names databases of addresses, as weir.yaml does.
type geoipSpec struct {
	Databases []string `yaml:"databases"`
}

// A blockedSpec is a key that must be blocked. Its empty fields are not checked.
type blockedSpec struct {
	who
	At      momentSpec `yaml:"at"`
	Limit   rule.Limit `yaml:"limit"`
	Refused *int64     `yaml:"refused"`
}

// A who is a key, and the rule that counts it; an empty rule means any.
type who struct {
	Rule string `yaml:"rule"`
	Key  string `yaml:"key"`

	place yamlfile.Fault
}

// A neverSpec lists the keys that no rule may block, or is all that are not in blocked.
type neverSpec struct {
	others bool
	whom   []who
}

func (n *neverSpec) isEmpty() bool { return !n.others && len(n.whom) == 0 }

// Validate requires rules and tests.
func (f *testFile) Validate(v yamlfile.Value) {
	if !v.Has("rules") {
		v.Faultf("write rules: and a path, or the rules themselves", "the tests have no rules")
	}
	if tests, isList := v.Key("tests").List(); !v.Has("tests") || isList && len(tests) == 0 {
		v.Faultf("write tests: with at least one test under it", "there are no tests")
	}
}

// FromYAML reads one test.
func (t *testSpec) FromYAML(v yamlfile.Value) {
	type plain testSpec
	v.Decode((*plain)(t))
	t.place = v.Place()
	switch {
	case !v.Has("name"):
		v.Faultf("write name: and what the test shows", "the test has no name")
	case v.Has("log") == v.Has("requests"):
		v.Faultf("write one of them", "a test has either requests or a log")
	case v.Has("format") && !v.Has("log"):
		v.Key("format").Faultf("leave it out", "only a log has a format")
	case v.Has("requests") && len(t.Requests) == 0 && !v.Key("requests").Faulty():
		v.Key("requests").Faultf("write at least one, such as {ip: 203.0.113.7, repeat: 11}", "the test has no requests")
	case !v.Has("blocked") && !v.Has("never"), len(t.Blocked) == 0 && t.Never.isEmpty() && !v.Faulty():
		v.Faultf("write blocked or never", "the test expects nothing")
	}
}

// FromYAML reads requests of one kind.
func (r *requestSpec) FromYAML(v yamlfile.Value) {
	type plain requestSpec
	*r = requestSpec{Repeat: repeatSpec{count: 1}, Method: "GET", Path: "/", Status: 200}
	v.Decode((*plain)(r))
	if v.Has("at") && v.Has("after") {
		v.Key("after").Faultf("at counts from the start of the test, after from the requests before", "a request has either at or after")
	}
}

// FromYAML reads a key that must be blocked.
func (b *blockedSpec) FromYAML(v yamlfile.Value) {
	type plain blockedSpec
	v.Decode((*plain)(b))
	b.place = v.Place()
	if !v.Has("key") {
		v.Faultf("write key: and the key that must be blocked", "the key is missing")
	}
}

// FromYAML reads the word others, or a list of keys, each alone or with its rule.
func (n *neverSpec) FromYAML(v yamlfile.Value) {
	elements, ok := v.List()
	if !ok {
		if n.others = v.Text() == "others"; !n.others && !v.Faulty() {
			v.Faultf("write a list of keys, or the word others", "%s where keys are expected", v.Found())
		}
		return
	}

	for _, element := range elements {
		w := who{place: element.Place()}
		if _, isMap := element.Map(); isMap {
			element.Decode(&w)
		} else if w.Key = element.Text(); w.Key == "others" {
			element.Faultf("write never: others, or {key: others} for a user of that name", "others stands by itself, not in a list")
		}
		n.whom = append(n.whom, w)
	}
}

// An instantSpec is a time with its zone.
type instantSpec time.Time

// FromYAML reads 2026-03-01T12:00:00Z.
func (i *instantSpec) FromYAML(v yamlfile.Value) {
	text, _ := v.Scalar()
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		v.Faultf("write it as 2026-03-01T12:00:00Z", "%s where a time is expected", v.Found())
	}
	*i = instantSpec(t)
}

// A momentSpec is a time, or a duration after the start of the test.
type momentSpec struct {
	given   bool
	offset  time.Duration
	instant time.Time
}

// FromYAML reads 50s or 2026-03-01T12:00:50Z.
func (m *momentSpec) FromYAML(v yamlfile.Value) {
	text, _ := v.Scalar()
	m.given = true
	if instant, err := time.Parse(time.RFC3339Nano, text); err == nil {
		m.instant = instant
		return
	}
	offset, err := duration.Parse(text)
	if err != nil || offset == duration.Forever {
		v.Faultf("write 50s, counted from the start of the test, or 2026-03-01T12:00:50Z", "%s where a time is expected", v.Found())
	}
	m.offset = offset
}

func (m momentSpec) from(start time.Time) time.Time {
	if !m.instant.IsZero() {
		return m.instant
	}
	return start.Add(m.offset)
}

// A repeatSpec is a number of requests and the time between them.
type repeatSpec struct {
	count int
	every time.Duration
}

const mostRepeats = 1_000_000

// FromYAML reads 11 every 5s, or 11.
func (r *repeatSpec) FromYAML(v yamlfile.Value) {
	text, _ := v.Scalar()
	words := strings.Fields(text)
	var err error
	if len(words) == 3 && words[1] == "every" {
		r.every, err = duration.Parse(words[2])
		words = words[:1]
	}

	count, ok := 0, len(words) == 1 && err == nil && r.every != duration.Forever
	if ok {
		count, err = strconv.Atoi(words[0])
	}
	if !ok || err != nil || count < 1 || count > mostRepeats {
		v.Faultf("write 11 every 5s, with at most 1000000 requests", "%s where a number of requests is expected", v.Found())
	}

	r.count = count
}

// An addressSpec is the address of a client.
type addressSpec netip.Addr

// FromYAML reads an address.
func (a *addressSpec) FromYAML(v yamlfile.Value) {
	ip, err := netip.ParseAddr(v.Text())
	if err != nil && !v.Faulty() {
		v.Faultf("write it as 203.0.113.7 or 2001:db8::7", "%s where an address is expected", v.Found())
	}
	*a = addressSpec(address.Plain(ip))
}

// expand returns all requests, in the order of time.
func (t *testSpec) expand(start time.Time) []request.Request {
	var all []request.Request
	at := start
	for i := range t.Requests {
		spec := &t.Requests[i]
		if at = at.Add(time.Duration(spec.After)); spec.At.given {
			at = spec.At.from(start)
		}

		for n := range spec.Repeat.count {
			if n > 0 {
				at = at.Add(spec.Repeat.every)
			}
			one := spec.request(n + 1)
			one.UnixMilli = at.UnixMilli()
			all = append(all, one)
		}
	}

	// Repetitions of different lines may overlap in time. Those of one instant keep the order of the file.
	slices.SortStableFunc(all, func(a, b request.Request) int { return cmp.Compare(a.UnixMilli, b.UnixMilli) })
	return all
}

// request is one of the requests, the n-th from 1 on.
func (r *requestSpec) request(n int) request.Request {
	text := func(written string) string {
		if !strings.Contains(written, numberMark) {
			return written
		}
		return strings.ReplaceAll(written, numberMark, strconv.Itoa(n))
	}
	one := request.Request{
		IP: netip.Addr(r.IP), User: text(r.User), Method: r.Method, Host: text(r.Host), Path: text(r.Path), Query: text(r.Query),
		Status: r.Status, Bytes: r.Bytes, Agent: text(r.Agent), Referrer: text(r.Referrer),
	}
	if path, query, ok := strings.Cut(one.Path, "?"); ok && r.Query == "" {
		one.Path, one.Query = path, query
	}
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		one.Fields = append(one.Fields, request.Field{Name: name, Value: text(r.Fields[name])})
	}
	return one
}

// numberMark stands for the number of a repeated request in its texts.
const numberMark = "{n}"

func (t *testSpec) whoBlocked() []who {
	whom := make([]who, len(t.Blocked))
	for i := range t.Blocked {
		whom[i] = t.Blocked[i].who
	}
	return whom
}

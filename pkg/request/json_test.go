package request

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"
)

func parseJSON(t *testing.T, format, record string, o Options) (Request, error) {
	t.Helper()
	p, err := NewParser(format, o)
	if err != nil {
		t.Fatal(err)
	}
	var r Request
	err = p.Parse(record, &r)
	return r, err
}

func TestJSONAllocatesNothing(t *testing.T) {
	for name, record := range benchRecords {
		for _, wanted := range [][]string{nil, {"request_time"}} {
			p := newJSONParser("json", Options{})
			p.Want(wanted)
			var r Request
			parse := func() {
				if err := p.Parse(record, &r); err != nil {
					t.Fatal(name, err)
				}
			}
			if n := testing.AllocsPerRun(100, parse); n != 0 {
				t.Errorf("%s, wanted %v: %v allocations", name, wanted, n)
			}
		}
	}
}

func TestJSONUnreadAllocatesNothing(t *testing.T) {
	p := newJSONParser("json", Options{})
	var r Request
	for _, record := range []string{`{"time":`, `{"time":1,"ip":"a.name"}`, `{"time":"when","user":"x"}`, `{"user":"x"}`, ""} {
		if n := testing.AllocsPerRun(100, func() { _ = p.Parse(record, &r) }); n != 0 {
			t.Errorf("%s: %v allocations", record, n)
		}
	}
}

// TestNoHeaderIsAnElement: Caddy logs {"X-Tenant":["a"]}, and a client can choose a header named X-Tenant.0.
func TestNoHeaderIsAnElement(t *testing.T) {
	for _, headers := range []string{`"X-Tenant":["a"],"X-Tenant.0":["b"]`, `"X-Tenant.0":["b"],"X-Tenant":["a"]`, `"X-Tenant":["a"],"X-Tenant.0":"b"`, `"X-Tenant.0":["b"]`} {
		record := `{"ts":1772524800,"request":{"client_ip":"203.0.113.7","method":"GET","uri":"/","headers":{` +
			strings.ReplaceAll(headers, "X-Tenant", "User-Agent") + "," + headers + `}},"status":200,"size":0}`
		r, err := parseJSON(t, "caddy", record, Options{Fields: map[string]string{"tenant": "request.headers.X-Tenant.0"}})
		if err != nil {
			t.Fatal(err)
		}
		if tenant, _ := r.Field("tenant"); tenant == "b" || r.Agent == "b" || strings.Contains(headers, `["a"]`) && (tenant != "a" || r.Agent != "a") {
			t.Errorf("%s: tenant %q, agent %q", headers, tenant, r.Agent)
		}
	}
	// In a record that was made flat, such a name is that of an element.
	r, err := parseJSON(t, "json", `{"time":1,"request.headers.X-Tenant.0":"a"}`, Options{Fields: map[string]string{"tenant": "request.headers.X-Tenant.0"}})
	if tenant, _ := r.Field("tenant"); err != nil || tenant != "a" {
		t.Errorf("flat: %q, %v", tenant, err)
	}
}

// TestJSONDepth: a client that fills a member of the record, as the body of its request, cannot make the record unreadable
// by nesting it. Values that are nested too deeply are left out.
func TestJSONDepth(t *testing.T) {
	for _, depth := range []int{maxDepth - 1, maxDepth, 100_000} {
		record := `{"time":1,"body":` + strings.Repeat(`{"a":["]",`, depth/2) + `"}"` + strings.Repeat("]}", depth/2) + `,"user":"x"}`
		r, err := parseJSON(t, "json", record, Options{})
		if err != nil || r.User != "x" {
			t.Errorf("%d: %+v %v", depth, r, err)
		}
		cut := `{"time":1,"ip":"192.0.2.1","path":"/` + strings.Repeat("x", minCut) + `","body":` + strings.Repeat(`[`, depth)
		if r, err = parseJSON(t, "json", cut, Options{}); err != nil || r.IP.String() != "192.0.2.1" {
			t.Errorf("%d, cut off: %+v %v", depth, r, err)
		}
	}
	for _, open := range []string{strings.Repeat("[", 2*maxDepth), strings.Repeat("[", 2*maxDepth) + `"`} {
		if _, err := parseJSON(t, "json", `{"time":1,"user":"x","body":`+open, Options{}); Reason(err) != "json" {
			t.Error(err)
		}
	}
}

// TestJSONBounds: a text that is too long is unread, with the reason json, wherever it stands.
func TestJSONBounds(t *testing.T) {
	const head = `{"time":1,"user":"x","rest":`
	long := func(bytes int) string {
		return head + `"` + strings.Repeat("a", bytes-len(head)-3) + `"}`
	}
	for name, c := range map[string]struct{ fits, not string }{
		"length": {long(maxRecordBytes), long(maxRecordBytes + 1)},
	} {
		if _, err := parseJSON(t, "json", c.fits, Options{}); err != nil {
			t.Errorf("%s: %v within the bound", name, err)
		}
		if _, err := parseJSON(t, "json", c.not, Options{}); Reason(err) != "json" {
			t.Errorf("%s: %v beyond the bound", name, err)
		}
	}
}

// TestJSONAllFieldsAreBounded: with nothing wanted in particular, a record gives up to 64 further fields, and a parser
// learns up to 1,024 paths and keeps reading the rest.
func TestJSONAllFieldsAreBounded(t *testing.T) {
	p := newJSONParser("json", Options{})
	var r Request
	for i := range 3 * maxPaths {
		record := fmt.Sprintf(`{"time":1,"user":"x","k%d":"v","first":"f"}`, i)
		if err := p.Parse(record, &r); err != nil {
			t.Fatal(err)
		}
		if v, _ := r.Field("first"); v != "f" {
			t.Fatal("a field that was learnt is lost")
		}
	}
	for i := range 3 * maxPaths {
		if err := p.Parse(fmt.Sprintf(`{"time":1,"user":"x","o%d":{}}`, i), &r); err != nil {
			t.Fatal(err)
		}
	}
	if known := newJSONParser("json", Options{}); places(&p.scan.root)-places(&known.scan.root) != maxPaths {
		t.Errorf("%d places are new, want %d", places(&p.scan.root)-places(&known.scan.root), maxPaths)
	}
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, `"k%d":1,`, i)
	}
	if err := p.Parse("{"+many.String()+`"time":1,"user":"x"}`, &r); err != nil || len(r.Fields) != maxFurther {
		t.Errorf("%d fields, %v", len(r.Fields), err)
	}
}

func places(node *jsonNode) int {
	count := 1
	for _, row := range node.kids {
		for _, kid := range row {
			count += places(kid)
		}
	}
	return count
}

// TestJSONNamesOutliveTheBuffer: names that a parser learns from a line do not change with the line's buffer.
func TestJSONNamesOutliveTheBuffer(t *testing.T) {
	p := newJSONParser("json", Options{})
	var r Request
	buffer := []byte(`{"time":1,"user":"x","color":"red","n\u0061me":"n"}`)
	if err := p.Parse(Text(buffer), &r); err != nil {
		t.Fatal(err)
	}
	for i := range buffer {
		buffer[i] = '*'
	}
	if err := p.Parse(`{"time":1,"user":"\u0061 b c d e","color":"blue","name":"m"}`, &r); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(r.Fields), "[{color blue} {name m}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestJSONKeepsOnlyWantedFields(t *testing.T) {
	const record = `{"time":1,"user":"x","request":"GET /","a":{"b":1,"c":2,"d":3},"d":true,"e":null,"f":{},"g":"-"}`
	p := newJSONParser("json", Options{Fields: map[string]string{"tenant": "a.b"}})
	p.Want([]string{"d", "a.c", "tenant", "user", "e", "f", "g", "missing"})
	var r Request
	err := p.Parse(record, &r)
	if got, want := fmt.Sprint(r.Fields), "[{tenant 1} {a.c 2} {d true}]"; got != want || err != nil {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

// TestJSONHeader: Options.Header names the header, however a shape writes headers.
func TestJSONHeader(t *testing.T) {
	for format, record := range map[string]string{
		"nginx-json":   `{"msec":1,"remote_addr":"192.0.2.1","request":"GET / HTTP/1.1","http_cf_connecting_ip":"198.51.100.1"}`,
		"caddy":        `{"ts":1,"request":{"remote_ip":"192.0.2.1","uri":"/","headers":{"Cf-Connecting-Ip":["198.51.100.1"]}}}`,
		"traefik-json": `{"StartUTC":"2026-03-01T10:15:30Z","RequestMethod":"GET","request_Cf-Connecting-Ip":"198.51.100.1"}`,
		"envoy-json":   `{"start_time":"2026-03-01T10:15:30Z","method":"GET","response_code":200,"cf-connecting-ip":"198.51.100.1"}`,
		"json":         `{"time":1,"user":"x","cf_connecting_ip":"198.51.100.1"}`,
	} {
		r, err := parseJSON(t, format, record, Options{Header: "CF-Connecting-IP"})
		if err != nil || r.Forwarded != "198.51.100.1" {
			t.Errorf("%s: %q, %v", format, r.Forwarded, err)
		}
	}
}

// TestJSONForwardedTwice: a header that was sent twice is one list; its last entry is the nearest proxy's.
func TestJSONForwardedTwice(t *testing.T) {
	r, err := parseJSON(t, "caddy", `{"ts":1,"request":{"client_ip":"10.0.0.1","uri":"/","headers":{"X-Forwarded-For":["6.6.6.6","203.0.113.7"]}}}`, Options{})
	if err != nil || r.Forwarded != "6.6.6.6, 203.0.113.7" {
		t.Errorf("%q, %v", r.Forwarded, err)
	}
}

// TestJSONPresetNeedsItsFields: a preset reads no record that its writer cannot have written.
func TestJSONPresetNeedsItsFields(t *testing.T) {
	const nginx = `{"time_iso8601":"2026-03-01T10:15:30Z","remote_addr":"192.0.2.1","request":"GET / HTTP/1.1","status":200}`
	for _, format := range []string{"caddy", "traefik-json", "envoy-json", "ecs", "logstash-json", "fluentbit-json", "vector-json"} {
		if _, err := parseJSON(t, format, nginx, Options{}); Reason(err) != "format" {
			t.Errorf("%s: %v", format, err)
		}
	}
	// Fields that the options take from elsewhere are not needed.
	const renamed = `{"when":"2026-03-01T10:15:30Z","client":"192.0.2.1","request":"GET / HTTP/1.1","status":200}`
	r, err := parseJSON(t, "nginx-json", renamed, Options{Fields: map[string]string{"time": "when", "ip": "client"}})
	if err != nil || r.IP.String() != "192.0.2.1" || r.Path != "/" {
		t.Error(r, err)
	}
}

// TestJSONTimes: a Unix time, as a number or in quotes, is read where the writer may write one; no other time is used
// instead of one that cannot be read.
func TestJSONTimes(t *testing.T) {
	const at = 1772360130123
	for text, want := range map[string]int64{
		`1772360130`: 1772360130000, `1772360130.123`: at, `1772360130.1239`: at, `1772360130123`: at, `1772360130123456`: at,
		`1772360130123456789`: at, `"1772360130.123"`: at, `1.772360130123e9`: at, `1.7723601301239996e+09`: at,
		`"2026-03-01T10:15:30.123Z"`: at, `"2026-03-01T11:15:30.123456+01:00"`: at, `"2026-03-01 10:15:30,123"`: at,
		`"01/Mar/2026:11:15:30 +0100"`: 1772360130000, `"-"`: -1, `""`: -1, `null`: -1, `true`: -1, `-5`: -1, `"soon"`: -1, `1e99`: -1,
		`{"a":1}`: -1, `[]`: -1, `"17723601301234567890123"`: -1,
	} {
		r, err := parseJSON(t, "json", `{"user":"x","time":`+text+`}`, Options{})
		if want < 0 && Reason(err) != "time" || want >= 0 && (err != nil || r.UnixMilli != want) {
			t.Errorf("%s: %d, %v; want %d", text, r.UnixMilli, err, want)
		}
	}
	for _, text := range []string{`1772360130`, `"1772360130"`, `"1772360130.123"`} {
		record := `{"remote_addr":"192.0.2.1","request":"GET / HTTP/1.1","msec":1772360130.123,"time_iso8601":` + text + `}`
		if _, err := parseJSON(t, "json", record, Options{}); Reason(err) != "time" {
			t.Errorf("time_iso8601 %s: %v", text, err)
		}
	}
}

// TestJSONHost: a host is used for the client only when no other field is there.
func TestJSONHost(t *testing.T) {
	const app = `{"timestamp":"2026-03-01T10:15:30Z","host":"web-1","client_ip":"192.0.2.1","method":"GET","path":"/","protocol":"HTTP/1.1","status":200,"message":"done","user":"bob"}`
	r, err := parseJSON(t, "json", app, Options{})
	if err != nil || r.IP.String() != "192.0.2.1" || r.User != "bob" {
		t.Error(describe(&r, err))
	}
}

// TestJSONZone: a time without a zone has the zone of the options.
func TestJSONZone(t *testing.T) {
	zone := time.FixedZone("", 3600)
	for _, text := range []string{"2026-03-01T11:15:30", "2026-03-01 11:15:30.0", "01/Mar/2026:11:15:30", "2026-03-01T10:15:30Z"} {
		r, err := parseJSON(t, "json", `{"user":"x","time":"`+text+`"}`, Options{Zone: zone})
		if err != nil || r.UnixMilli != 1772360130000 {
			t.Error(text, r.UnixMilli, err)
		}
	}
}

// TestJSONPitfalls are the ways in which real records differ from the expected ones.
func TestJSONPitfalls(t *testing.T) {
	for name, c := range map[string]struct{ record, want string }{
		"address with a port":      {`"ip":"203.0.113.7:4711"`, `ip="203.0.113.7"`},
		"IPv6 with a port":         {`"ip":"[2001:db8::1]:4711"`, `ip="2001:db8::1"`},
		"IPv4 mapped into IPv6":    {`"ip":"::ffff:203.0.113.7"`, `ip="203.0.113.7"`},
		"a zone":                   {`"ip":"fe80::1%eth0"`, `ip="fe80::1"`},
		"a dash for the user":      {`"user":"-","ip":"203.0.113.7"`, `ip="203.0.113.7"`},
		"a dash for the address":   {`"user":"x","ip":"-"`, `user="x"`},
		"two quotes for the user":  {`"user":"\"\"","ip":"203.0.113.7"`, `ip="203.0.113.7"`},
		"a name for the address":   {`"ip":"client.example"`, "unread: address"},
		"numbers in quotes":        {`"status":"404","bytes":"17"`, `status="404" bytes="17"`},
		"numbers that are floats":  {`"status":404.0,"bytes":17.000`, `status="404" bytes="17"`},
		"no number":                {`"status":"OK"`, "unread: format"},
		"half a byte":              {`"user":"x","bytes":1.5`, "unread: format"},
		"negative bytes":           {`"user":"x","bytes":-1`, "unread: format"},
		"dashes for numbers":       {`"user":"x","status":"-","bytes":"-"`, `user="x"`},
		"no UTF-8":                 {"\"user\":\"a\xffb\"", `user="a\xffb"`},
		"escapes":                  {`"user":"\u00e4\ud83d\ude00\/\"\\"`, "user=\"ä😀/\\\"\\\\\""},
		"half a pair":              {`"user":"\ud83dx"`, `user="�x"`},
		"escapes of nginx":         {`"agent":"\x22hi\x22 \xC3\xA4","user":"x"`, `user="x" agent="\"hi\" ä"`},
		"a request line":           {`"request":"POST /a?b HTTP/2.0"`, `method="POST" path="/a" query="b"`},
		"no request line":          {`"request":"\u0016\u0003\u0001","status":400`, `status="400"`},
		"no target":                {`"request":"-","ip":"203.0.113.7"`, `ip="203.0.113.7"`},
		"pseudo-headers of HTTP/2": {`"request":"PRI * HTTP/2.0"`, `method="PRI" path="*"`},
		"a whole URL":              {`"uri":"https://Shop.example:8443/a?b","method":"GET"`, `method="GET" host="Shop.example" path="/a" query="b"`},
		"CONNECT":                  {`"uri":"shop.example:443","method":"CONNECT"`, `method="CONNECT" host="shop.example"`},
		"keys twice":               {`"user":"x","user":"y"`, `user="y"`},
		"an object, then a value":  {`"user":{"a":1},"user":"y"`, `user="y"`},
		"a value, then an object":  {`"user":"x","ip":"203.0.113.7","user":{"a":1}`, `ip="203.0.113.7"`},
		"another case":             {`"USER":"x","ip":"203.0.113.7"`, `ip="203.0.113.7"`},
	} {
		p := newJSONParser("json", Options{})
		p.Want([]string{})
		var r Request
		err := p.Parse(`{"time":0,`+c.record+`}`, &r)
		got := strings.TrimSpace(strings.TrimPrefix(describe(&r, err), "  1970-01-01T00:00:00.000Z"))
		if got, _, _ = strings.Cut(got, " ("); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// Caddy serves /#/../signin as /signin. It passes it on, and asks an enforcer, as /%23/../signin.
func TestAHashIsAPartOfCaddysPath(t *testing.T) {
	for _, name := range []string{"caddy", "json"} {
		var r Request
		err := mustParser(t, name, Options{}).Parse(`{"ts":1.5,"request":{"remote_ip":"203.0.113.7","method":"GET","host":"h","uri":"/#/../signin?a#b"},"status":200}`, &r)
		if path, _ := (PathForm{}).Normal(r.Path, r.PathDecoded, nil); err != nil || path != "/signin" || r.Path != "/%23/../signin" || r.Query != "a#b" {
			t.Errorf("%s: %v, %s: %+v", name, err, path, r)
		}
	}
}

// Behind a CDN that Traefik trusts, ClientHost is the unchanged header.
func TestClientHostIsAHeader(t *testing.T) {
	parser := mustParser(t, "traefik-json", Options{})
	cdn := []netip.Prefix{netip.MustParsePrefix("172.64.0.0/13")}
	for _, test := range []struct {
		host    string
		trusted []netip.Prefix
		want    string
		proxy   bool
	}{
		{"1.2.3.4, 203.0.113.7", nil, "203.0.113.7", false},
		{"1.2.3.4, 203.0.113.7", cdn, "203.0.113.7", false},
		{"1.2.3.4, 203.0.113.7, 172.68.0.1", cdn, "203.0.113.7", false},
		{"172.68.0.2,172.68.0.1", cdn, "172.68.0.2", true},
		{"1.2.3.4, 2001:db8::7", nil, "2001:db8::7", false},
		{"203.0.113.7", cdn, "203.0.113.7", false},
		{"x, y", nil, "172.71.122.85", false},
		{"172.71.122.85", cdn, "172.71.122.85", true},
	} {
		r := parsed(t, parser, `{"ClientAddr":"172.71.122.85:11029","ClientHost":"`+test.host+`","RequestMethod":"GET","RequestPath":"/","StartUTC":"2026-05-04T06:25:06Z","DownstreamStatus":200}`)
		if proxy := NewClient(test.trusted).Resolve(&r); r.IP.String() != test.want || proxy != test.proxy {
			t.Errorf("%s with %v: %s, a proxy: %v; want %s", test.host, test.trusted, r.IP, proxy, test.want)
		}
	}
}

// A member with one of our names is that field, whatever the rest of the record looks like.
func TestMembersOfOurNames(t *testing.T) {
	own := `"user":"alice","path":"/a","query":"q=1","agent":"curl","referrer":"r"`
	o := Options{Fields: map[string]string{"time": "ts", "ip": "client.ip"}}
	for _, format := range []string{"json", "ecs"} {
		for _, record := range []string{
			`{"ts":"2026-05-04T06:25:06Z","client":{"ip":"203.0.113.7"},"http":{"method":"POST"},` + own + `}`,
			`{"ts":"2026-05-04T06:25:06Z",` + own + `,"client":{"ip":"203.0.113.7"},"http":{"method":"POST"}}`,
		} {
			r, err := parseJSON(t, format, record, o)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, record, r, Request{UnixMilli: milli("2026-05-04T06:25:06Z"), IP: netip.MustParseAddr("203.0.113.7"), User: "alice", Method: "POST",
				Path: "/a", Query: "q=1", Agent: "curl", Referrer: "r", Bytes: -1})
		}
	}
	// The writer's own name for a field comes first.
	r, err := parseJSON(t, "ecs", `{"@timestamp":"2026-05-04T06:25:06Z","user":{"name":"alice"},"method":"GET","http":{"request":{"method":"POST"}},"agent":{"type":"filebeat"}}`, Options{})
	if err != nil || r.User != "alice" || r.Method != http.MethodPost || r.Agent != "" {
		t.Errorf("%+v, %v", r, err)
	}
	// Caddy's log_append.
	if r, err := parseJSON(t, "caddy", `{"ts":1.5,"request":{"method":"GET","uri":"/"},"user_id":"","user":"bob"}`, Options{}); err != nil || r.User != "bob" {
		t.Errorf("%+v, %v", r, err)
	}
}

// Where Caddy writes all of its log to one place, a request that fails has a record of the error and one in the access log.
func TestErrorsOfCaddyAreNoRequests(t *testing.T) {
	for logger, want := range map[string]error{"http.log.access": nil, "http.log.access.log0": nil, "http.log.access.shop": nil, "": nil, "shop": nil,
		"http.log.error": ErrNoRequest, "http.log.error.log0": ErrNoRequest, "http.handlers.reverse_proxy": ErrNoRequest} {
		line := `{"level":"error","ts":1795874145.8,"logger":"` + logger + `","msg":"dial tcp","request":{"remote_ip":"203.0.113.7","method":"GET","uri":"/x"},"duration":0.1,"status":502}`
		for _, format := range []string{"caddy", "json"} {
			for _, envelope := range []string{"none", "docker"} {
				record := line
				if envelope == "docker" {
					record = `{"log":` + strconv.Quote(line+"\n") + `,"stream":"stderr","time":"2026-11-28T13:55:45Z"}`
				}
				var r Request
				if err := newDecoder(t, envelope, format, Options{}).Decode(record, &r); err != want {
					t.Errorf("%s in %s, %s: %v, want %v", format, envelope, logger, err, want)
				}
			}
		}
	}
}

// nginx writes numbers of requests that it answers itself, or that two servers were asked for, so that a line is not
// JSON where its log_format has no quotes around them.
func TestValuesOfNginxWithoutQuotes(t *testing.T) {
	for _, line := range []string{
		`{"time_iso8601":"2026-05-04T06:25:06Z","rt":,"us": ,"remote_addr":"203.0.113.7","request":"GET /a HTTP/1.1","status":404,"ut":}`,
		`{"time_iso8601":"2026-05-04T06:25:06Z","rt":-,"us":-,"remote_addr":"203.0.113.7","request":"GET /a HTTP/1.1","status":404,"ut":-}`,
		`{"rt":0.001, 0.002 : 0.003,"us":502, 404,"n":{"a":-,"b":},"time_iso8601":"2026-05-04T06:25:06Z","remote_addr":"203.0.113.7","request":"GET /a HTTP/1.1","status":404}`,
	} {
		for _, format := range []string{"nginx-json", "json"} {
			r := parsed(t, mustParser(t, format, Options{}), line)
			if r.IP != netip.MustParseAddr("203.0.113.7") || r.Path != "/a" || r.Status != 404 || r.UnixMilli != milli("2026-05-04T06:25:06Z") {
				t.Errorf("%s: %s is %+v", format, line, r)
			}
		}
	}
	r := parsed(t, mustParser(t, "nginx-json", Options{}), `{"time_iso8601":"2026-05-04T06:25:06Z","remote_addr":"203.0.113.7","request":"","status":000}`)
	if r.IP != netip.MustParseAddr("203.0.113.7") {
		t.Errorf("a status of zeros: %+v", r)
	}
	for _, line := range []string{
		`{"time_iso8601":"2026-05-04T06:25:06Z","remote_addr":"203.0.113.7","request":"GET / HTTP/1.1",}`,
		`{"time_iso8601":"2026-05-04T06:25:06Z","remote_addr":"203.0.113.7","rt":x,"request":"GET / HTTP/1.1"}`,
		`{"time_iso8601":"2026-05-04T06:25:06Z","remote_addr":"203.0.113.7","rt":-"request":"GET / HTTP/1.1"}`,
	} {
		if got := reasonOf(mustParser(t, "nginx-json", Options{}), line); got != "json" {
			t.Errorf("%s: %q", line, got)
		}
	}

	// A user that was cut off is not known, also behind such a value.
	long := `{"time_iso8601":"2026-05-04T06:25:06Z","rt":0.1, 0.2,"remote_addr":"203.0.113.7","request":"GET /` + strings.Repeat("a", minCut) + `","remote_user":"ali`
	if r := parsed(t, mustParser(t, "nginx-json", Options{}), long); r.User != "" || r.IP != netip.MustParseAddr("203.0.113.7") {
		t.Errorf("cut off: %+v", r)
	}
}

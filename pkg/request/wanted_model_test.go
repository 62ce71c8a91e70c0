package request

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// A wantedCase is a format and records of it. It compares a decoder for some of the fields with a twin for all of them.
type wantedCase struct {
	envelope, format string
	options          Options
	records          []string
}

// wantedCases are records of every preset, of formats with all endings, and those of the golden files.
func wantedCases(t testing.TB) []wantedCase {
	traffic := newBenchTraffic()
	cases := []wantedCase{
		{format: "combined", records: []string{traffic.combined(), `1.2.3.4 - a [b [17/Apr/2018:06:25:06 +0000] "GET /\x22?a=b HTTP/1.1" 200 30 "-" "say \"hi\""`}},
		{format: "common", records: []string{`127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "CONNECT h:80 HTTP/1.0" 200 -`}},
		{format: "vhost_combined", records: []string{`www.example.com:443 ::ffff:192.0.2.9 - - [04/May/2026:12:00:00 +0200] "GET http://h/?q HTTP/1.1" 200 5 "-" "a\\"`}},
		{format: "main", records: []string{`10.0.0.1 - "" [04/May/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl/8.5.0" "192.0.2.1, 10.9.9.9"`}},
		{format: "ingress-nginx", records: []string{traffic.ingress()}},
		{format: "haproxy", records: []string{`<150>Feb  6 12:14:14 l haproxy[1]: 10.0.1.2:333 [06/Feb/2009:12:14:14.655] f b/s 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {x} "GET /#22 HTTP/1.1"`}},
		{format: "alb", records: []string{traffic.alb()}},
		{format: "cloudfront", records: []string{"2013-10-07\t23:35:30\tLHR3\t828\t192.0.2.100\tGET\td1.cloudfront.net\t/i%2520\t200\t-\tMozilla/5.0%2520(compatible)\ta=%2522"}},
		{format: "iis", records: []string{`2022-01-22 00:00:01 10.0.0.2 POST /a pid=1 443 CORP\d 172.69.69.207 a+b https://example.com/a+b 200 0 0 31`,
			"#Fields: date time c-ip cs-username cs(Host) x-a sc-status", "2022-01-22 00:00:01 192.0.2.1 u h:80 x 200"}},
		{format: `[$time_iso8601] $remote_addr $scheme://$host:$server_port$request_uri$is_args$args "$request" $upstream_addr "$sent_http_x_weir" $status $http_x`,
			records: []string{`[2026-05-04T06:25:06Z] 192.0.2.1 https://[::1]:443/a?b=c "GET /d?e HTTP/1.1" 10.0.0.1:80, 10.0.0.2:80 "refused" 429 x`}},
		{format: `%{%d/%b/%Y:%T}t.%{msec_frac}t %{%z}t %a %U%q "%r" %>s %u`, records: []string{`04/May/2026:08:25:06.789 +0200 192.0.2.1 /a?b "GET /c?d HTTP/1.1" 200 u`}},
		{format: `$remote_addr [$time_iso8601] "$request" "$http_x_user" $cookie_tenant $status`, options: Options{Fields: map[string]string{"user": "http_x_user", "tenant": "cookie_tenant", "host": "status"}},
			records: []string{`10.0.0.1 [2026-05-04T06:25:06+00:00] "GET / HTTP/1.1" "alice" acme 200`}},
	}
	for _, s := range vendorSamples {
		cases = append(cases, wantedCase{format: s.format, records: []string{s.line}})
	}
	for _, file := range caseFiles(t) {
		c := readCase(t, file)
		o := Options{Fields: c.Fields}
		cases = append(cases, wantedCase{c.Envelope, c.Format, o, c.records})
	}
	return cases
}

func (c wantedCase) decoder(t testing.TB) *Decoder {
	return newDecoder(t, c.envelope, c.format, c.options)
}

// wantable are names of fields of all cases; no format has some of them.
var wantable = []string{"ip", "user", "method", "host", "path", "query", "status", "bytes", "agent", "referrer", "weir", "tenant", "remote_logname",
	"server_port", "http_x", "upstream_addr", "req_id", "captured_request_cookie", "cs(Host)", "x-a", "x-edge-location", "scheme", "server_name",
	"level", "request_time", "kubernetes.labels.app", "duration", "stream", "tags.0", "missing"}

func someOf(random *rand.Rand, names []string) []string {
	some := []string{}
	for range random.IntN(4) {
		some = append(some, names[random.IntN(len(names))])
	}
	return some
}

// onlyOf is a request with only the fields that are wanted.
func onlyOf(r *Request, names []string) Request {
	left := *r
	for _, name := range []string{"user", "method", "host", "path", "query", "agent", "referrer"} {
		if !slices.Contains(names, name) {
			*left.text(name) = ""
		}
	}
	left.PathDecoded = left.PathDecoded && left.Path != ""
	left.Fields = nil
	for _, field := range r.Fields {
		if slices.Contains(names, field.Name) {
			left.Fields = append(left.Fields, field)
		}
	}
	return left
}

// readOnly is the request of a record, reduced to the wanted fields, and the fields of its envelope.
func readOnly(d *Decoder, record string, names []string) (all []string) {
	d.DecodeEach(record, func(r *Request, err error) {
		if err != nil {
			all = append(all, err.Error())
			return
		}
		label, _ := d.Envelope("kubernetes.labels.app")
		all = append(all, fmt.Sprintf("%+v %s", onlyOf(r, names), label))
	})
	return all
}

// compareWanted compares a decoder for some of the fields with one for all, and reports whether there was a request.
func compareWanted(t *testing.T, told, twin *Decoder, record string, names []string) bool {
	t.Helper()
	told.Want(names)
	got, want := readOnly(told, record, names), readOnly(twin, record, names)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%v of %q:\ngot  %s\ntwin %s", names, record, got, want)
	}
	return len(want) > 0 && want[0][0] == '{'
}

// TestWantedFieldsAreThoseOfATwin: a decoder for some of the fields, which change now and then, gives the same for
// every record as one for all: the same error, or the same wanted fields.
func TestWantedFieldsAreThoseOfATwin(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, c := range wantedCases(t) {
		told, twin := c.decoder(t), c.decoder(t)
		read := 0
		for range 4000 {
			record := mutated(random, c.records[random.IntN(len(c.records))])
			names := someOf(random, wantable)
			if compareWanted(t, told, twin, record, names) {
				read++
			}
		}
		if read < 100 {
			t.Errorf("%s in %q: only %d records were read", c.format, c.envelope, read)
		}
	}
}

// TestFieldsWithoutAReaderAreLeftOut: this is the purpose of Want.
func TestFieldsWithoutAReaderAreLeftOut(t *testing.T) {
	for _, c := range []wantedCase{
		{format: "combined", records: []string{`1.2.3.4 - alice [17/Apr/2018:06:25:06 +0000] "GET http://h/a?b HTTP/1.1" 200 30 "https://r/" "curl"`}},
		{format: "ingress-nginx", records: []string{newBenchTraffic().ingress()}},
		{format: "iis", records: []string{"#Fields: date time c-ip cs-username cs-method cs-uri-stem cs-host x-a sc-status", "2022-01-22 00:00:01 1.2.3.4 u GET /a h x 200"}},
	} {
		d := c.decoder(t)
		d.Want([]string{"ip"})
		var r Request
		for _, record := range c.records {
			_ = d.Decode(record, &r)
		}
		if left := onlyOf(&r, nil); r.UnixMilli == 0 || !r.IP.IsValid() || r.Status == 0 || len(r.Fields) > 0 || fmt.Sprint(left) != fmt.Sprint(r) {
			t.Errorf("%s: %+v", c.format, r)
		}
		d.Want(nil)
		if err := d.Decode(c.records[len(c.records)-1], &r); err != nil || r.Method == "" || r.Path == "" {
			t.Errorf("%s: %+v, %v", c.format, r, err)
		}
	}
}

// A scan of JSON learns only the paths under a name that is read, so that long records stay cheap.
func TestFurtherFieldsWithoutAReaderAreNotLearned(t *testing.T) {
	parser := newJSONParser("json", Options{})
	var r Request
	for _, names := range [][]string{{"b.c"}, {}, {"a", "b.c"}, {"a"}} {
		parser.Want(names)
		if err := parser.Parse(`{"time":1,"user":"x","a":1,"b":{"c":2,"d":3},"e":[4]}`, &r); err != nil || len(r.Fields) != len(names) {
			t.Errorf("%v: %+v, %v", names, r.Fields, err)
		}
	}
	if parser.scan.grown > 0 {
		t.Errorf("%d places were learned", parser.scan.grown)
	}
}

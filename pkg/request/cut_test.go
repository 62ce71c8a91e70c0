package request

import (
	"net/netip"
	"strings"
	"testing"
)

// A line that was cut off anywhere behind its time and its address is counted by these, and the rest of a field is the
// field's beginning.
func TestCutLines(t *testing.T) {
	path, agent := "/login"+strings.Repeat("/a", 300), strings.Repeat(`\x22 b`, 100)
	for _, test := range []struct{ format, known, rest string }{
		{"combined", `203.0.113.7 - - [04/May/2026:06:25:06 +0000] "`, `GET ` + path + `?q=1 HTTP/1.1" 404 5 "https://r/" "` + agent + `"`},
		{"common", `203.0.113.7 - - [04/May/2026:06:25:06 +0000] "`, `GET ` + path + `?q=1 HTTP/1.1" 404 5`},
		{"vhost_combined", `h:80 203.0.113.7 - a [b [04/May/2026:06:25:06 +0000] "`, `GET ` + path + `?q=1 HTTP/1.1" 404 5 "-" "` + agent + `"`},
		{"main", `203.0.113.7 - - [04/May/2026:06:25:06 +0000] "`, `GET ` + path + ` HTTP/1.1" 404 5 "-" "` + agent + `" "198.51.100.1, 10.0.0.1"`},
		{"weir", `203.0.113.7 - - [04/May/2026:06:25:06 +0000] "`, `GET ` + path + ` HTTP/1.1" 404 5 "-" "` + agent + `" weir="refused per-ip"`},
		{"ingress-nginx", `203.0.113.7 - - [04/May/2026:06:25:06 +0000] "`, `GET ` + path + ` HTTP/1.1" 404 5 "-" "` + agent + `" 1 0.001 [s] [] 10.0.0.1:80, 10.0.0.2:80 0 0.1 200 4a5e`},
		{"haproxy", `<150>May  4 06:25:06 l haproxy[1]: 203.0.113.7:333 [04/May/2026:06:25:06.000] `, `f b/s 1/0/3/6/10 404 27 - - ---- 1/1/1/1/0 0/0 "GET ` + path + ` HTTP/1.1"`},
		{`$remote_addr [$time_iso8601] $http_x_tenant $status "$request"`, `203.0.113.7 [2026-05-04T06:25:06+00:00] `, `a b c` + agent + ` 404 "GET ` + path + ` HTTP/1.1"`},
		{"caddy", `{"level":"info","ts":1777875906,"logger":"http.log.access","request":{"remote_ip":"203.0.113.7","method":"GET",`,
			`"host":"h","uri":"` + path + `","headers":{"User-Agent":["\u0022` + strings.Repeat(`\u0022`, 100) + `"],"X":{"a":[1,"2",{}]}}},"status":404,"size":17}`},
		{"json", `{"time":"2026-05-04T06:25:06Z","ip":"203.0.113.7",`, `"path":"` + path + `","status":404,"n":{"a":[{"b":null},true]}}`},
	} {
		d, whole := newDecoder(t, "none", test.format, Options{}), test.known+test.rest
		var full Request
		if err := d.Decode(whole, &full); err != nil || full.Status != 404 {
			t.Fatalf("%s: %v %+v", whole, err, full)
		}
		for size := minCut + 60; size < len(whole); size += 3 {
			var r Request
			if err := d.Decode(whole[:size], &r); err != nil {
				t.Fatalf("%s, cut off at %d: …%s: %v", test.format, size, whole[size-20:size], err)
			}
			if r.IP != netip.MustParseAddr("203.0.113.7") || r.Began() != milli("2026-05-04T06:25:06Z") || r.TookMilli != full.TookMilli || r.Status != 0 && r.Status != 404 ||
				!strings.HasPrefix(full.Path+" HTTP/1.1", r.Path) || !strings.HasSuffix(test.rest, `HTTP/1.1"`) && !strings.HasPrefix(full.Path, r.Path) || !strings.HasPrefix(full.Forwarded, r.Forwarded) {
				t.Fatalf("%s, cut off at %d: …%s: %+v", test.format, size, whole[size-20:size], r)
			}
		}
		// A shorter line was not cut off: it has another format.
		if reason := Reason(d.Decode((whole)[:len(test.known)], new(Request))); reason == "" && test.format != "haproxy" {
			t.Errorf("%s: %s is read", test.format, test.known)
		}
	}
}

// The end of a line distinguishes formats, so lines that were cut off identify none.
func TestCutLinesTellNoFormat(t *testing.T) {
	long := `203.0.113.7 - - [04/May/2026:06:25:06 +0000] "GET /` + strings.Repeat("a", minCut) + ` HTTP/1.1" 404 5`
	choice, err := Detect([]string{long, long, long}, Options{})
	if err != nil || choice.Format != "common" {
		t.Errorf("chose %s, %v", choice, err)
	}
	choice, err = Detect([]string{long[:minCut], long[:minCut], aliceLine}, Options{})
	if err != nil || choice.Format != "combined" || choice.Lines != 1 {
		t.Errorf("chose %s, %v", choice, err)
	}
}

// A client that has its line cut off within an address, a user or a header is not taken for another client or user: their
// beginning is another one's.
func TestTheBeginningOfANameIsNone(t *testing.T) {
	agent, proxies := strings.Repeat("a", 600), NewClient([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	for _, test := range []struct{ format, line string }{
		{"main", `10.0.0.1 - - [04/May/2026:06:25:06 +0000] "GET / HTTP/1.1" 404 5 "-" "AGENT" "198.51.100.1, 203.0.113.77"`},
		{"main", `10.0.0.1 - - [04/May/2026:06:25:06 +0000] "GET / HTTP/1.1" 404 5 "-" "AGENT" "203.0.113.77, 10.0.0.2"`},
		{"weir", `203.0.113.77 - alice2 [04/May/2026:06:25:06 +0000] "GET / HTTP/1.1" 404 5 "-" "AGENT" weir="refused per-ip"`},
		{"ingress-nginx", `203.0.113.77 - alice2 [04/May/2026:06:25:06 +0000] "GET / HTTP/1.1" 404 5 "-" "AGENT" 1 0.001 [s] [] 10.0.0.1:80 0 0.1 200 4a5e`},
		{"haproxy", `203.0.113.77:333 [04/May/2026:06:25:06.000] f b/s 1/0/3/6/10 404 27 - - ---- 1/1/1/1/0 0/0 "GET /AGENT HTTP/1.1"`},
		{"istio", `[2026-05-04T06:25:06.000Z] "GET /AGENT HTTP/1.1" 404 - via_upstream - "-" 0 5 3 2 "-" "curl" "id" "shop.example" "10.0.0.9:80" outbound|80||a 10.0.0.8:1 10.0.0.7:80 203.0.113.77:4711 - default`},
		{"npmplus", `[04/May/2026:06:25:06 +0000] shop.example 203.0.113.77 0.001 "GET /AGENT HTTP/1.1" 404 5 5 - -`},
		{`[$time_iso8601] "$request" "$http_user_agent" "$remote_addr"`, `[2026-05-04T06:25:06+00:00] "GET / HTTP/1.1" "AGENT" "203.0.113.77"`},
		{`$remote_addr [$time_iso8601] "$request" "$http_user_agent" "$remote_user" $status`, `203.0.113.77 [2026-05-04T06:25:06+00:00] "GET / HTTP/1.1" "AGENT" "alice2" 404`},
		{`$remote_addr [$time_iso8601] "$request" "$http_user_agent" "$remote_user"`, `203.0.113.77 [2026-05-04T06:25:06+00:00] "GET / HTTP/1.1" "AGENT" "alice2"`},
		{`$remote_addr [$time_iso8601] "$request" "$http_user_agent" "$tenant"`, `203.0.113.77 [2026-05-04T06:25:06+00:00] "GET / HTTP/1.1" "AGENT" "acme2"`},
		{"json", `{"time":"2026-05-04T06:25:06.5+02:00","path":"/AGENT","status":404,"user":"alice2","tenant":"acme2","ip":"203.0.113.77"}`},
		{"json", `{"path":"/AGENT","status":404,"ip":"203.0.113.77","user":"al\\ice2","tenant":"acme2","time":"2026-05-04T06:25:06.5+02:00"}`},
		{"caddy", `{"level":"info","ts":1777875906,"logger":"http.log.access","request":{"method":"GET","uri":"/AGENT","remote_ip":"203.0.113.77","host":"h"},"user_id":"alice2","status":404}`},
		{"traefik-json", `{"RequestPath":"/AGENT","ClientAddr":"203.0.113.77:1","ClientHost":"203.0.113.77","ClientUsername":"alice2","DownstreamStatus":404,"StartUTC":"2026-05-04T06:25:06Z","RequestMethod":"GET"}`},
		{"traefik-json", `{"RequestPath":"/AGENT","StartUTC":"2026-05-04T06:25:06Z","ClientHost":"198.51.100.1, 203.0.113.77","DownstreamStatus":404,"RequestMethod":"GET"}`},
		{"envoy-json", `{"start_time":"2026-05-04T06:25:06.000Z","method":"GET","path":"/AGENT","response_code":404,"downstream_remote_address":"203.0.113.77:4711","duration":1}`},
	} {
		d, whole := newDecoder(t, "none", test.format, Options{Fields: map[string]string{}}), strings.ReplaceAll(test.line, "AGENT", agent)
		var full Request
		if err := d.Decode(whole, &full); err != nil || full.Status != 404 && full.Status != 0 {
			t.Fatalf("%s: %v %+v", whole, err, full)
		}
		proxies.Resolve(&full)
		wantTenant, _ := full.Field("tenant")
		read := 0
		for size := range len(whole) {
			var r Request
			if err := d.Decode(whole[:size], &r); err != nil {
				continue
			}
			read++
			proxies.Resolve(&r)
			tenant, _ := r.Field("tenant")
			if r.IP.IsValid() && r.IP != full.IP || r.User != "" && r.User != full.User || tenant != "" && tenant != wantTenant || r.Began() != full.Began() {
				t.Errorf("%s, cut off at %d: …%s: %s, user %q, tenant %q, at %d", test.format, size, whole[max(0, size-20):size], r.IP, r.User, tenant, r.UnixMilli)
			}
		}
		if read == 0 && !strings.HasSuffix(test.format, `"$remote_addr"`) { // with the address at the end, none can be
			t.Errorf("%s: no line that was cut off is read", test.format)
		}
	}
}

// The address of a proxy does not take the place of the client's, which was cut off.
func TestACutRecordHasNoWorseAddress(t *testing.T) {
	d := newDecoder(t, "none", "json", Options{})
	for _, step := range []struct {
		record string
		want   string
	}{
		{`{"time":"2026-05-04T06:25:06Z","remote_ip":"10.0.0.1","path":"/` + strings.Repeat("a", 600), "10.0.0.1"}, // it may have no other
		{`{"time":"2026-05-04T06:25:06Z","remote_ip":"10.0.0.1","path":"/","client_ip":"203.0.113.7"}`, "203.0.113.7"},
		{`{"time":"2026-05-04T06:25:06Z","remote_ip":"10.0.0.1","path":"/` + strings.Repeat("a", 600), ""},
		{`{"time":"2026-05-04T06:25:06Z","client_ip":"203.0.113.7","path":"/` + strings.Repeat("a", 600), "203.0.113.7"},
		{`{"time":"2026-05-04T06:25:06Z","remote_ip":"10.0.0.1","path":"/"}`, "10.0.0.1"},
	} {
		var r Request
		if err := d.Decode(step.record, &r); (err == nil) != (step.want != "") || err == nil && r.IP.String() != step.want {
			t.Errorf("%.90s: %s, %v", step.record, r.IP, err)
		}
	}
}

// Wherever a record of JSON is cut off, closedJSON makes JSON of it, or nothing.
func FuzzClosedJSON(f *testing.F) {
	f.Add(`{"a":"b\u00e9","c":[1,{"d":null},"e\\"],"f":{"g":1.5e3,"h":true}}`)
	f.Add(`{"a":{"b":[["\x22"],[]]}, "c" : -0.1 }`)
	scan := newJSONScan()
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 500 || !scan.read(text) {
			return
		}
		for size := range text {
			if closed, _ := closedJSON(text[:size]); closed != "" && !scan.read(closed) {
				t.Fatalf("%s makes %s", text[:size], closed)
			}
		}
	})
}

// The end of a long line that a shipper sends as a line of its own is not read, whatever the client wrote there.
func TestEndOfLineIsNoRequest(t *testing.T) {
	forged := `198.51.100.7 - ` + strings.Repeat("a", minCut) + ` [04/May/2026:06:25:06 +0000] `
	for _, test := range []struct{ format, end string }{
		{"common", `" 404 5`},
		{"combined", `"`},
		{"combined", `" "` + ` 200 612 "`}, // HTTP/2 allows a header that begins with a space
		{"combined", `" "curl/8.5.0"`},
		{"combined", ` HTTP/1.1" 404 5 "-" "curl/8.5.0"`},
		{"main", `" "-"`},
		{"weir", `" weir="-"`},
		{"ingress-nginx", `" 512 0.003 [default-shop-80] [] 10.0.0.1:8080 12 0.002 200 4a5e`},
		{"combined-plus", `" 0.003 shop.example`},
		{"common-plus", `" 404 5 "-" "-" 0.003`},
		{`%a %l %u %t "%r" %>s %b`, `" 200 5`},
		{`$remote_addr - $remote_user [$time_local] "$request" $status "$http_x_tenant"`, `"`},
	} {
		var r Request
		if err := newDecoder(t, "none", test.format, Options{}).Decode(forged+test.end, &r); Reason(err) == "" {
			t.Errorf("%s: …%s: read as %+v", test.format, test.end, r)
		}
	}
}

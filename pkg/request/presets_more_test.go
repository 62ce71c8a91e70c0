package request

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

// A vendorSample is a line from its writer's documentation, or as its log_format makes it.
type vendorSample struct {
	format string
	line   string
	want   Request // without its further fields
	fields string  // some of them: name=value, with spaces between
}

var vendorSamples = []vendorSample{
	{"elb", `2015-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.38.0" - -`,
		Request{UnixMilli: milli("2015-05-13T23:39:43.945Z") + 1, TookMilli: 1, IP: netip.MustParseAddr("192.168.131.39"), Method: "GET", Host: "www.example.com", Path: "/",
			Status: 200, Bytes: 29, Agent: "curl/7.38.0"}, "elb=my-loadbalancer backend=10.0.0.1:80"},
	{"elb", `2015-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.000086 0.001048 0.001337 200 200 0 57 "GET https://www.example.com:443/ HTTP/1.1" "curl/7.38.0" DHE-RSA-AES128-SHA TLSv1.2`,
		Request{UnixMilli: milli("2015-05-13T23:39:43.945Z") + 2, TookMilli: 2, IP: netip.MustParseAddr("192.168.131.39"), Method: "GET", Host: "www.example.com", Path: "/",
			Status: 200, Bytes: 57, Agent: "curl/7.38.0"}, "ssl_cipher=DHE-RSA-AES128-SHA ssl_protocol=TLSv1.2"},
	{"elb", `2015-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.001069 0.000028 0.000041 - - 82 305 "- - - " "-" - -`,
		Request{UnixMilli: milli("2015-05-13T23:39:43.945Z") + 1, TookMilli: 1, IP: netip.MustParseAddr("192.168.131.39"), Bytes: 305}, "received_bytes=82"},

	{"s3", `79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be amzn-s3-demo-bucket1 [06/Feb/2019:00:00:38 +0000] 192.0.2.3 79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be ` +
		`A1206F460EXAMPLE REST.GET.BUCKETPOLICY - "GET /amzn-s3-demo-bucket1?policy HTTP/1.1" 404 NoSuchBucketPolicy 297 - 38 - "-" "S3Console/0.4" - ` +
		`BNaBsXZQQDbssi6xMBdBU2sLt+Yf5kZDmeBUP35sFoKa3sLLeMC78iwEIWxs99CRUrbS4n11234= SigV4 ECDHE-RSA-AES128-GCM-SHA256 AuthHeader amzn-s3-demo-bucket1.s3.us-west-1.amazonaws.com TLSV1.2 - Yes`,
		Request{UnixMilli: milli("2019-02-06T00:00:38Z") + 38, TookMilli: 38, IP: netip.MustParseAddr("192.0.2.3"), User: "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be",
			Method: "GET", Host: "amzn-s3-demo-bucket1.s3.us-west-1.amazonaws.com", Path: "/amzn-s3-demo-bucket1", Query: "policy", Status: 404, Bytes: 297, Agent: "S3Console/0.4"},
		"bucket=amzn-s3-demo-bucket1 operation=REST.GET.BUCKETPOLICY error_code=NoSuchBucketPolicy authentication_type=AuthHeader acl_required=Yes"},
	// As it was in 2014, for a request whose response sent nothing.
	{"s3", `79a59df900b9 mybucket [06/Feb/2014:00:01:57 +0000] 192.0.2.3 - DD6CC733AEXAMPLE REST.PUT.OBJECT s3-dg.pdf "PUT /mybucket/s3-dg.pdf HTTP/1.1" 200 - - 4406583 41754 28 "-" "S3Console/0.4" -`,
		Request{UnixMilli: milli("2014-02-06T00:01:57Z") + 41754, TookMilli: 41754, IP: netip.MustParseAddr("192.0.2.3"), Method: "PUT", Path: "/mybucket/s3-dg.pdf", Status: 200, Agent: "S3Console/0.4"},
		"key=s3-dg.pdf object_size=4406583"},

	{"npm", `[10/Sep/2023:14:04:11 +0000] - 200 200 - GET https shop.example "/api/count?x=1" [Client 203.0.113.7] [Length 102] [Gzip -] [Sent-to 192.168.10.63] "Mozilla/5.0 (X11)" "https://shop.example/"`,
		Request{UnixMilli: milli("2023-09-10T14:04:11Z"), IP: netip.MustParseAddr("203.0.113.7"), Method: "GET", Host: "shop.example", Path: "/api/count", Query: "x=1",
			Status: 200, Bytes: 102, Agent: "Mozilla/5.0 (X11)", Referrer: "https://shop.example/"}, "upstream_status=200 scheme=https server=192.168.10.63"},
	{"npm", `[10/Sep/2023:14:04:11 +0000] HIT 502, 200 200 - GET https shop.example "/" [Client 2001:db8::7] [Length 102] [Gzip 2.50] [Sent-to shop] "\" [Client 9.9.9.9]" "-"`,
		Request{UnixMilli: milli("2023-09-10T14:04:11Z"), IP: netip.MustParseAddr("2001:db8::7"), Method: "GET", Host: "shop.example", Path: "/", Status: 200, Bytes: 102,
			Agent: `" [Client 9.9.9.9]`}, "upstream_cache_status=HIT upstream_status=502,"},
	{"npm", `[10/Sep/2023:14:04:11 +0000] 301 - GET http shop.example "/" [Client 203.0.113.7] [Length 166] [Gzip -] "curl/8.5.0 - x" "-"`,
		Request{UnixMilli: milli("2023-09-10T14:04:11Z"), IP: netip.MustParseAddr("203.0.113.7"), Method: "GET", Host: "shop.example", Path: "/", Status: 301, Bytes: 166, Agent: "curl/8.5.0 - x"}, ""},

	{"npmplus", `[22/Nov/2026:10:00:00 +0000] shop.example 203.0.113.7 0.012 "GET /a?b HTTP/2.0" 200 512 790 - Mozilla/5.0 (X11; Linux) x`,
		Request{UnixMilli: milli("2026-11-22T10:00:00Z"), IP: netip.MustParseAddr("203.0.113.7"), Method: "GET", Host: "shop.example", Path: "/a", Query: "b", Status: 200, Bytes: 512,
			Agent: "Mozilla/5.0 (X11; Linux) x"}, "request_time=0.012"},
	{"npmplus", `[22/Nov/2026:10:00:00 +0000] shop.example:8443 2001:db8::7 0.012 "GET / HTTP/2.0" 200 512 790 https://a.example/ -`,
		Request{UnixMilli: milli("2026-11-22T10:00:00Z"), IP: netip.MustParseAddr("2001:db8::7"), Method: "GET", Host: "shop.example", Path: "/", Status: 200, Bytes: 512,
			Referrer: "https://a.example/"}, ""},

	{"squid", `1286536308.779    180 192.168.0.224 TCP_MISS/200 411 GET http://liveupdate.example.com/minitri.flg?x=y - DIRECT/125.23.7.23 text/plain`,
		Request{UnixMilli: milli("2010-10-08T11:11:48.779Z"), IP: netip.MustParseAddr("192.168.0.224"), Method: "GET", Host: "liveupdate.example.com", Path: "/minitri.flg", Query: "x=y",
			Status: 200, Bytes: 411}, "elapsed=180 result=TCP_MISS hierarchy=DIRECT/125.23.7.23 mime_type=text/plain"},
	{"squid", `1445018173.730 123163 10.0.0.1 TCP_TUNNEL/200 5706 CONNECT ecs.example.com:443 alice HIER_DIRECT/54.240.250.253 -`,
		Request{UnixMilli: milli("2015-10-16T17:56:13.730Z"), IP: netip.MustParseAddr("10.0.0.1"), User: "alice", Method: "CONNECT", Host: "ecs.example.com", Status: 200, Bytes: 5706},
		"elapsed=123163 result=TCP_TUNNEL"},
	{"squid", `1690000015.210      0 192.168.56.20 NONE_NONE/000 0 - error:transaction-end-before-headers - HIER_NONE/- -`,
		Request{UnixMilli: milli("2023-07-22T04:26:55.210Z"), IP: netip.MustParseAddr("192.168.56.20"), Path: "error:transaction-end-before-headers"}, "elapsed=0"},

	{"istio", `[2020-11-25T21:26:18.409Z] "GET /status/418?a=b HTTP/1.1" 418 - via_upstream - "-" 0 135 4 4 "9.9.9.9" "curl/7.73.0-DEV" "84961386-6d84-929d-98bd-c5aee93b5c88" "httpbin:8000" "127.0.0.1:80" ` +
		`inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 10.44.1.23:37652 outbound_.8000_._.httpbin.foo.svc.cluster.local default`,
		Request{UnixMilli: milli("2020-11-25T21:26:18.409Z") + 4, TookMilli: 4, IP: netip.MustParseAddr("10.44.1.23"), Method: "GET", Host: "httpbin", Path: "/status/418", Query: "a=b", Status: 418, Bytes: 135,
			Agent: "curl/7.73.0-DEV"}, "response_code_details=via_upstream upstream_cluster=inbound|8000|| upstream_host=127.0.0.1:80 route_name=default"},
	{"istio", `[2026-02-24T14:23:15.456Z] "POST /api/orders HTTP/1.1" 503 UC via_upstream - "-" 156 91 30004 - "-" "python-requests/2.31.0" "f47ac10b" "orders.production:80" "10.244.3.12:8080" ` +
		`outbound|8080||orders.production 10.244.1.5:54321 10.96.45.67:8080 [2001:db8::7]:33210 - default`,
		Request{UnixMilli: milli("2026-02-24T14:23:15.456Z") + 30004, TookMilli: 30004, IP: netip.MustParseAddr("2001:db8::7"), Method: "POST", Host: "orders.production", Path: "/api/orders", Status: 503, Bytes: 91,
			Agent: "python-requests/2.31.0"}, "response_flags=UC"},

	{"haproxy", `Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] https-in~ static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} ` +
		`"GET /index.html HTTP/1.1" 0/0000000000000000/0/0/0 1wt.eu/TLSv1.3/TLS_AES_256_GCM_SHA384`,
		Request{UnixMilli: milli("2009-02-06T12:14:14.655Z") + 109, TookMilli: 109, IP: netip.MustParseAddr("10.0.1.2"), Method: "GET", Path: "/index.html", Status: 200, Bytes: 2750},
		"queues=0/0 captured_request_headers=1wt.eu ssl_server_name=1wt.eu ssl_protocol=TLSv1.3 ssl_cipher=TLS_AES_256_GCM_SHA384"},

	{"cloudflare-json", `{"ClientIP":"89.163.242.206","ClientRequestHost":"www.theburritobot.com","ClientRequestMethod":"GET","ClientRequestURI":"/static/img/testimonial-hipster.png?x=1",` +
		`"EdgeEndTimestamp":1506702504461999900,"EdgeResponseBytes":69045,"EdgeResponseStatus":200,"EdgeStartTimestamp":1506702504433000200,"RayID":"3a6050bcbe121a87"}`,
		Request{UnixMilli: 1506702504461, IP: netip.MustParseAddr("89.163.242.206"), Method: "GET", Host: "www.theburritobot.com", Path: "/static/img/testimonial-hipster.png", Query: "x=1",
			Status: 200, Bytes: 69045}, "RayID=3a6050bcbe121a87"},
	{"cloudflare-json", `{"ClientIP":"2001:db8::7","ClientRequestHost":"shop.example:8443","ClientRequestMethod":"POST","ClientRequestPath":"/login","ClientRequestUserAgent":"curl/8","ClientRequestReferer":"",` +
		`"EdgeStartTimestamp":"2026-11-22T10:00:00Z","EdgeResponseStatus":403}`,
		Request{UnixMilli: milli("2026-11-22T10:00:00Z"), IP: netip.MustParseAddr("2001:db8::7"), Method: "POST", Host: "shop.example", Path: "/login", Status: 403, Bytes: -1, Agent: "curl/8"}, ""},

	{"gcp-json", `{"insertId":"1oek5rg3l3fxj7","jsonPayload":{"@type":"type.googleapis.com/google.cloud.loadbalancing.type.LoadBalancerLogEntry","statusDetails":"response_from_cache","remoteIp":"203.0.113.7"},` +
		`"httpRequest":{"requestMethod":"GET","requestUrl":"http://192.0.2.80/static/us/three-cats.jpg?a=b","requestSize":"577","status":304,"responseSize":"157","userAgent":"Mozilla/5.0 (X11)","remoteIp":"203.0.113.7","cacheHit":true},` +
		`"resource":{"type":"http_load_balancer","labels":{"zone":"global"}},"timestamp":"2020-06-08T23:41:30.078651Z","severity":"INFO","receiveTimestamp":"2020-06-08T23:41:30.588272510Z"}`,
		Request{UnixMilli: milli("2020-06-08T23:41:30.078Z"), IP: netip.MustParseAddr("203.0.113.7"), Method: "GET", Host: "192.0.2.80", Path: "/static/us/three-cats.jpg", Query: "a=b",
			Status: 304, Bytes: 157, Agent: "Mozilla/5.0 (X11)"}, "jsonPayload.statusDetails=response_from_cache"},

	{"cloudfront-json", `{"date":"2026-04-04","time":"12:57:53","x-edge-location":"SFO53-P7","sc-bytes":"1068","c-ip":"192.0.2.100","cs-method":"GET","cs(Host)":"d111111abcdef8.cloudfront.net","cs-uri-stem":"/a%2520b.html",` +
		`"sc-status":"304","cs(Referer)":"-","cs(User-Agent)":"Mozilla/5.0%20(X11)","cs-uri-query":"-","cs(Cookie)":"-","x-edge-result-type":"Hit","x-host-header":"shop.example","x-forwarded-for":"203.0.113.7"}`,
		Request{UnixMilli: milli("2026-04-04T12:57:53Z"), IP: netip.MustParseAddr("192.0.2.100"), Method: "GET", Host: "shop.example", Path: "/a%20b.html", Status: 304, Bytes: 1068,
			Agent: "Mozilla/5.0 (X11)", Forwarded: "203.0.113.7"}, "x-edge-location=SFO53-P7"},
	{"cloudfront-json", `{"timestamp":1602646738.145,"c-ip":"192.0.2.100","time-to-first-byte":0.002,"sc-status":200,"sc-bytes":16653,"cs-method":"GET","cs-protocol":"https","cs-host":"d1.cloudfront.net",` +
		`"cs-uri-stem":"/image.jpg","x-host-header":"d1.cloudfront.net","cs-user-agent":"curl/7.53.1","cs-referer":"-","cs-uri-query":"a=b","x-forwarded-for":"-"}`,
		Request{UnixMilli: 1602646738145, IP: netip.MustParseAddr("192.0.2.100"), Method: "GET", Host: "d1.cloudfront.net", Path: "/image.jpg", Query: "a=b", Status: 200, Bytes: 16653, Agent: "curl/7.53.1"}, ""},
}

// auto finds each of them, alone and among others, and reads it as its documentation describes it.
func TestVendorSamples(t *testing.T) {
	for _, s := range vendorSamples {
		choice, err := Detect([]string{s.line}, Options{})
		if err != nil || choice.Format != s.format || choice.Envelope != "none" {
			t.Errorf("%s: chose %s, %v; want %s", s.line, choice, err, s.format)
			continue
		}
		got := parsed(t, mustParser(t, s.format, Options{}), s.line)
		for field := range strings.FieldsSeq(s.fields) {
			name, want, _ := strings.Cut(field, "=")
			if value, _ := got.Field(name); !strings.HasPrefix(value, want) {
				t.Errorf("%s: %s is %q, want %q", s.line, name, value, want)
			}
		}
		if got.Fields, got.open = nil, ""; !reflect.DeepEqual(got, s.want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", s.line, got, s.want)
		}
	}
}

// No text of a client moves a field that is not its own.
func TestVendorFormatsCannotBeForged(t *testing.T) {
	address := netip.MustParseAddr("203.0.113.7")
	for _, c := range []struct{ format, line, user string }{
		{"s3", `owner b [06/Feb/2019:00:00:38 +0000] 203.0.113.7 - ID REST.GET.OBJECT k "GET /b/k?" 200 - 5 - 1 1 "-" "x HTTP/1.1" 403 AccessDenied 297 - 38 - "-" "S3Console/0.4" -`, ""},
		{"s3", `owner b [06/Feb/2019:00:00:38 +0000] 203.0.113.7 arn:x ID REST.GET.OBJECT k "GET /b/k HTTP/1.1" 403 AccessDenied 297 - 38 - "-" "a" b" -`, "arn:x"},
	} {
		got := parsed(t, mustParser(t, c.format, Options{}), c.line)
		if got.IP != address || got.User != c.user || got.Status != 0 || got.Path != "" || got.Agent != "" {
			t.Errorf("%s: %+v", c.line, got)
		}
	}
	for _, header := range []string{`9.9.9.9" "x`, `x" "y" "z" "h" "127.0.0.1:80" c 1.1.1.1:1 2.2.2.2:2 9.9.9.9:9 s r`, `"`, `\"`, ` " `} {
		for _, text := range []string{
			`"` + header + `,10.0.0.1" "u" "i" "h" "127.0.0.1:80"`, `"-" "` + header + `" "i" "h" "127.0.0.1:80"`, `"-" "u" "` + header + `" "h" "127.0.0.1:80"`, `"-" "u" "i" "` + header + `" "127.0.0.1:80"`,
		} {
			line := `[2020-11-25T21:26:18.409Z] "GET /a"b?" HTTP/1.1" 418 - via_upstream - "-" 0 135 4 4 ` + text + ` inbound|80|| 127.0.0.1:41854 10.44.1.27:80 203.0.113.7:37652 - default`
			got := parsed(t, mustParser(t, "istio", Options{}), line)
			if got.IP != address || got.Status != 418 || got.Path != `/a"b` || got.Forwarded != "" || got.Agent != "" || got.Host != "" {
				t.Errorf("%s: %+v", line, got)
			}
		}
	}
	for _, c := range []struct{ format, line string }{
		{"istio", `[2020-11-25T21:26:18.409Z] "GET / HTTP/1.1" 418 - via_upstream - "-" 0 135 4 4 "-" "u" "i" "h" "127.0.0.1:80" inbound|80|| 127.0.0.1:41854 10.44.1.27:80 203.0.113.7:37652 a 9.9.9.9:1 b default`},
		{"istio", `[2020-11-25T21:26:18.409Z] "GET / HTTP/1.1" 418 - via_upstream - "-" 0 135 4 4 "-" "u" "i" "h" "127.0.0.1:80" inbound|80|| 127.0.0.1:41854 10.44.1.27:80 x - default`},
		{"npmplus", `[22/Nov/2026:10:00:00 +0000] a 9.9.9.9 203.0.113.7 0.012 "GET / HTTP/2.0" 400 512 790 - -`},
		{"npm", `[10/Sep/2023:14:04:11 +0000] 301 - GET http h "/" [Client x] [Length 166] [Gzip -] "-" "-"`},
	} {
		var r Request
		if err := mustParser(t, c.format, Options{}).Parse(c.line, &r); err == nil {
			t.Errorf("%s: %+v", c.line, r)
		}
	}
}

// A line costs no memory, unless it has escapes.
func TestVendorSamplesAllocateNothing(t *testing.T) {
	for _, s := range vendorSamples {
		if strings.ContainsAny(s.line, `\%`) {
			continue
		}
		parser, r := mustParser(t, s.format, Options{}), new(Request)
		if n := testing.AllocsPerRun(10, func() { _ = parser.Parse(s.line, r) }); n > 0 {
			t.Errorf("%s: %v allocations", s.line, n)
		}
	}
}

// FuzzVendorFormats: checkParse, for the formats of lines.
func FuzzVendorFormats(f *testing.F) {
	parsers := map[string]Parser{}
	for _, s := range vendorSamples {
		if !strings.HasPrefix(s.line, "{") {
			parsers[s.format] = mustParser(f, s.format, Options{})
			f.Add(s.line)
		}
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, parser := range parsers {
			checkParse(t, parser, line)
		}
	})
}

// Over HTTP/2, HAProxy serves what begins at the first slash behind the host, and in its URL the host is the client's.
func TestHAProxyHostWithQuestionMark(t *testing.T) {
	const line = `203.0.113.7:1 [22/Nov/2026:19:40:00.123] web app/app 0/0/0/1/1 200 5 - - ---- 1/1/0/0/0 0/0 "%s"`
	for text, want := range map[string][2]string{
		"GET https://b?x=/signin HTTP/2.0":        {"/signin", ""},
		"GET https://b?/signin?q HTTP/2.0":        {"/signin", "q"},
		"GET https://b?x HTTP/2.0":                {"/", "x"},
		"GET https://b/a?x=/signin HTTP/2.0":      {"/a", "x=/signin"},
		"GET /a?x=://b?/signin HTTP/2.0":          {"/a", "x=://b?/signin"},
		"GET http://b?x=/signin HTTP/1.1":         {"/", "x=/signin"},
		"GET https://b?x=/signin":                 {"/signin", ""},
		"OPTIONS * HTTP/2.0":                      {"*", ""},
		"<BADREQ>":                                {"", ""},
		"GET  ://":                                {"://", ""},
		"https://b?x=/signin GET https://b? /a b": {"", ""},
	} {
		parser, err := NewParser("haproxy", Options{})
		if err != nil {
			t.Fatal(err)
		}
		var r Request
		if err := parser.Parse(fmt.Sprintf(line, text), &r); err != nil || r.Path != want[0] || r.Query != want[1] {
			t.Errorf("%s: path %q, query %q, %v; want %q", text, r.Path, r.Query, err, want)
		}
	}
}

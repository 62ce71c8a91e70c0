package request

import (
	"net/netip"
	"testing"
	"time"
)

var berlin = func() *time.Location {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	return zone
}()

func TestPresets(t *testing.T) {
	tests := []struct {
		preset string
		line   string
		want   Request
	}{
		{"combined", `93.77.202.167 - - [17/Apr/2018:06:25:06 +0000] "POST /p0?a=b HTTP/1.1" 200 30 "-" "Dalvik/2.1.0 (Linux; U; Android 5.1.1)"`,
			Request{UnixMilli: milli("2018-04-17T06:25:06Z"), IP: netip.MustParseAddr("93.77.202.167"), Method: "POST", Path: "/p0",
				Query: "a=b", Status: 200, Bytes: 30, Agent: "Dalvik/2.1.0 (Linux; U; Android 5.1.1)"}},
		{"combined", `2001:db8::7 - john doe [17/Apr/2018:06:25:06 +0200] "GET /a b HTTP/1.1" 304 0 "https://example.com/" "say \x22hi\x22"`,
			Request{UnixMilli: milli("2018-04-17T04:25:06Z"), IP: netip.MustParseAddr("2001:db8::7"), User: "john doe", Method: "GET",
				Path: "/a b", Status: 304, Bytes: 0, Agent: `say "hi"`, Referrer: "https://example.com/"}},
		{"common", `127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 -`,
			Request{UnixMilli: milli("2000-10-10T20:55:36Z"), IP: netip.MustParseAddr("127.0.0.1"), User: "frank", Method: "GET",
				Path: "/apache_pb.gif", Status: 200, Bytes: 0}},
		{"vhost_combined", `www.example.com:443 ::ffff:192.0.2.9 - - [04/May/2026:12:00:00 +0200] "GET / HTTP/1.1" 200 5 "-" "a \"quoted\" agent\\"`,
			Request{UnixMilli: milli("2026-05-04T10:00:00Z"), IP: netip.MustParseAddr("192.0.2.9"), Method: "GET", Host: "www.example.com",
				Path: "/", Status: 200, Bytes: 5, Agent: `a "quoted" agent\`, Fields: []Field{{"server_port", "443"}}}},
		{"main", `10.0.0.1 - - [04/May/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl/8.5.0" "192.0.2.1, 10.9.9.9"`,
			Request{UnixMilli: milli("2026-05-04T12:00:00Z"), IP: netip.MustParseAddr("10.0.0.1"), Method: "GET", Path: "/", Status: 200,
				Bytes: 5, Agent: "curl/8.5.0", Forwarded: "192.0.2.1, 10.9.9.9"}},
		{"ingress-nginx", `192.0.2.1 - - [04/May/2026:12:00:00 +0000] "GET /api HTTP/2.0" 200 1534 "-" "curl/8.5.0" 407 0.004 [shop-web-80] [] ` +
			`10.42.1.7:8080, 10.42.1.8:8080 : 10.42.2.1:80 0, 1534 : 7 0.001, 0.004 : 0.002 502, 200 : 200 4a5e1e4baab89f3a32518a88c31bc87f`,
			Request{UnixMilli: milli("2026-05-04T12:00:00Z"), IP: netip.MustParseAddr("192.0.2.1"), Method: "GET", Path: "/api", Status: 200,
				Bytes: 1534, Agent: "curl/8.5.0", Fields: []Field{{"request_length", "407"}, {"request_time", "0.004"},
					{"proxy_upstream_name", "shop-web-80"}, {"upstream_addr", "10.42.1.7:8080, 10.42.1.8:8080 : 10.42.2.1:80"},
					{"upstream_response_length", "0, 1534 : 7"}, {"upstream_response_time", "0.001, 0.004 : 0.002"},
					{"upstream_status", "502, 200 : 200"}, {"req_id", "4a5e1e4baab89f3a32518a88c31bc87f"}}}},
		{"ingress-nginx", `192.0.2.1 - - [04/May/2026:12:00:00 +0000] "GET /api HTTP/2.0" 503 592 "-" "-" 0 0.000 [shop-web-80] [] - - - - 4a5e`,
			Request{UnixMilli: milli("2026-05-04T12:00:00Z"), IP: netip.MustParseAddr("192.0.2.1"), Method: "GET", Path: "/api", Status: 503,
				Bytes: 592, Fields: []Field{{"request_length", "0"}, {"request_time", "0.000"}, {"proxy_upstream_name", "shop-web-80"}, {"req_id", "4a5e"}}}},
		{"haproxy", `10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"`,
			haproxySample("http-in", "0/0", "/index.html", Field{"captured_request_headers", "1wt.eu"})},
		{"haproxy", `<150>Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] https~ static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET /a#22b#7D HTTP/1.1"`,
			haproxySample("https~", "0/0", `/a"b}`)},
		{"haproxy", `<150>1 2009-02-06T12:14:14.656+01:00 lb1 haproxy 14389 - [x@1 a="\]"] ` + "\ufeff" + `10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET /cut`,
			haproxySample("http-in", "0/0", "/cut")},
		// As HAProxy 2.6 wrote it: captured headers are escaped.
		{"haproxy", `10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {a#7D #7Bb#7D #22GET /x#23HTTP#7C1.1\|9.9.9.9, 8.8.8.8} {r#7D z} "GET /a{b}#22c HTTP/1.1"`,
			haproxySample("http-in", "0/0", `/a{b}"c`, Field{"captured_request_headers", `a} {b} "GET /x#HTTP|1.1\|9.9.9.9, 8.8.8.8`}, Field{"captured_response_headers", "r} z"})},
		{"haproxy", `10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {|} "GET /{ HTTP/1.1"`,
			haproxySample("http-in", "0/0", "/{", Field{"captured_request_headers", "|"})},
		// A captured cookie is not escaped.
		{"haproxy", `10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 SID=q - ---- 1/1/1/1/0 0/0 {evil} {zz} "GET /x HTTP/1.1" z - ---- 2/1/0/0/0 0/0 {real#7D} "GET /real#22 HTTP/1.1"`,
			Request{UnixMilli: milli("2009-02-06T12:14:14.764+01:00"), TookMilli: 109, IP: netip.MustParseAddr("10.0.1.2"), Method: "GET", Path: `/real"`, Status: 200, Bytes: 2750,
				Fields: []Field{{"frontend", "http-in"}, {"backend", "static"}, {"server", "srv1"}, {"timers", "10/0/30/69/109"}, {"captured_request_headers", "real}"}}}},
		{"haproxy", `10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 SID=q - ---- 1/1/1/1/0 0/0 {evil} z - ---- 3/1/0/0/0 0/0 {real} "GET /real HTTP/1.1"`,
			Request{UnixMilli: milli("2009-02-06T12:14:14.764+01:00"), TookMilli: 109, IP: netip.MustParseAddr("10.0.1.2"), Method: "GET", Path: "/real", Status: 200, Bytes: 2750,
				Fields: []Field{{"frontend", "http-in"}, {"backend", "static"}, {"server", "srv1"}, {"timers", "10/0/30/69/109"}, {"captured_request_cookie", "SID=q"},
					{"termination_state", "----"}, {"connections", "1/1/1/1/0"}, {"queues", "0/0"}, {"captured_request_headers", "real"}}}},
		// Nor is the name of TLS.
		{"haproxy", `10.0.1.2:33317 [06/Feb/2009:12:14:14.655] https~ static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1" 0/0/0/0/0 a"GET /x" 0/0/0/0/0 b/TLSv1.3/TLS_AES_256_GCM_SHA384`,
			Request{UnixMilli: milli("2009-02-06T12:14:14.764+01:00"), TookMilli: 109, IP: netip.MustParseAddr("10.0.1.2"), Status: 200, Bytes: 2750,
				Fields: []Field{{"frontend", "https~"}, {"backend", "static"}, {"server", "srv1"}, {"timers", "10/0/30/69/109"}}}},
		// option httpslog.
		{"haproxy", `10.0.1.2:33317 [06/Feb/2009:12:14:14.655] https~ static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET / HTTP/1.1" 0/0000000000000000/0/0/0 a/b c/TLSv1.3/TLS_AES_256_GCM_SHA384`,
			haproxySample("https~", "0/0", "/", Field{"captured_request_headers", "1wt.eu"}, Field{"ssl_errors", "0/0000000000000000/0/0/0"}, Field{"ssl_server_name", "a/b c"},
				Field{"ssl_protocol", "TLSv1.3"}, Field{"ssl_cipher", "TLS_AES_256_GCM_SHA384"})},
		{"haproxy", `10.0.1.2:33317 [06/Feb/2009:12:14:14.655] https~ static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1" 0/-/-/-/0 -/-/-`,
			haproxySample("https~", "0/0", "/", Field{"ssl_errors", "0/-/-/-/0"})},
		// Written with option logasap, before the response was over.
		{"haproxy", `10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/+109 200 +2750 - - ---- 1/1/1/1/+1 0/0 "GET / HTTP/1.1"`,
			Request{UnixMilli: milli("2009-02-06T12:14:14.764+01:00"), TookMilli: 109, IP: netip.MustParseAddr("10.0.1.2"), Method: "GET", Path: "/", Status: 200, Bytes: 2750,
				Fields: []Field{{"frontend", "http-in"}, {"backend", "static"}, {"server", "srv1"}, {"timers", "10/0/30/69/+109"},
					{"termination_state", "----"}, {"connections", "1/1/1/1/+1"}, {"queues", "0/0"}}}},
		{"haproxy", `2009-02-06T12:14:14.656+01:00 lb1 haproxy[14389]: 2001:db8::1:33317 [06/Feb/2009:12:14:14.655] http-in http-in/<NOSRV> -1/-1/-1/-1/0 400 0 - - PR-- 1/1/0/0/0 0/0 "<BADREQ>"`,
			Request{UnixMilli: milli("2009-02-06T12:14:14.655+01:00"), IP: netip.MustParseAddr("2001:db8::1"), Status: 400, Bytes: 0,
				Fields: []Field{{"frontend", "http-in"}, {"backend", "http-in"}, {"server", "<NOSRV>"}, {"timers", "-1/-1/-1/-1/0"},
					{"termination_state", "PR--"}, {"connections", "1/1/0/0/0"}, {"queues", "0/0"}}}},
		{"alb", `https 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 ` +
			`"GET https://www.example.com:443/a?b=c HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 ` +
			`arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337281-1d84f3d73c47ec4e58577259" ` +
			`"www.example.com" "arn:aws:acm:us-east-2:123456789012:certificate/12345678-1234-1234-1234-123456789012" 1 2018-07-02T22:22:48.364000Z ` +
			`"authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_1234abcd5678ef90 "-" "-" "-"`,
			Request{UnixMilli: milli("2018-07-02T22:23:00.186Z"), IP: netip.MustParseAddr("192.168.131.39"), Method: "GET", Host: "www.example.com",
				Path: "/a", Query: "b=c", Status: 200, Bytes: 57, Agent: "curl/7.46.0", Fields: []Field{{"type", "https"},
					{"elb", "app/my-loadbalancer/50dc6c495c0c9188"}, {"target", "10.0.0.1:80"}, {"request_processing_time", "0.086"},
					{"target_processing_time", "0.048"}, {"response_processing_time", "0.037"}, {"target_status_code", "200"}, {"received_bytes", "0"},
					{"ssl_cipher", "ECDHE-RSA-AES128-GCM-SHA256"}, {"ssl_protocol", "TLSv1.2"},
					{"target_group_arn", "arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067"},
					{"trace_id", "Root=1-58337281-1d84f3d73c47ec4e58577259"}, {"domain_name", "www.example.com"},
					{"chosen_cert_arn", "arn:aws:acm:us-east-2:123456789012:certificate/12345678-1234-1234-1234-123456789012"},
					{"matched_rule_priority", "1"}, {"request_creation_time", "2018-07-02T22:22:48.364000Z"}, {"actions_executed", "authenticate,forward"},
					{"target_port_list", "10.0.0.1:80"}, {"target_status_code_list", "200"}, {"conn_trace_id", "TID_1234abcd5678ef90"}}}},
		// The client chooses the name of TLS, and the load balancer routes by the host.
		{"alb", `https 2018-07-02T22:23:00.186641Z app/lb/50dc 192.0.2.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://shop.example:443/a HTTP/1.1" "-" - - arn:aws:x "Root=1-2" "blog.example" "arn:y" 1 2018-07-02T22:22:48.364000Z`,
			Request{UnixMilli: milli("2018-07-02T22:23:00.186Z"), IP: netip.MustParseAddr("192.0.2.39"), Method: "GET", Host: "shop.example", Path: "/a", Status: 200,
				Bytes: 57, Fields: []Field{{"type", "https"}, {"elb", "app/lb/50dc"}, {"target", "10.0.0.1:80"}, {"request_processing_time", "0.086"},
					{"target_processing_time", "0.048"}, {"response_processing_time", "0.037"}, {"target_status_code", "200"}, {"received_bytes", "0"},
					{"target_group_arn", "arn:aws:x"}, {"trace_id", "Root=1-2"}, {"domain_name", "blog.example"}, {"chosen_cert_arn", "arn:y"}, {"matched_rule_priority", "1"}}}},
		// As the load balancer wrote it in 2016, and its line for a request that it could not read.
		{"alb", `http 2016-08-10T22:08:42.945958Z app/lb/50dc 2001:db8::1:2817 - -1 -1 -1 400 - 34 366 "- http://lb.example.com:80- " "-" - - arn:aws:x "Root=1-2"`,
			Request{UnixMilli: milli("2016-08-10T22:08:42.945Z"), IP: netip.MustParseAddr("2001:db8::1"), Host: "lb.example.com", Status: 400,
				Bytes: 366, Fields: []Field{{"type", "http"}, {"elb", "app/lb/50dc"}, {"request_processing_time", "-1"}, {"target_processing_time", "-1"},
					{"response_processing_time", "-1"}, {"received_bytes", "34"}, {"target_group_arn", "arn:aws:x"}}}},
		{"cloudfront", "2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111111abcdef8.cloudfront.net\t/a%2520b.html\t200\thttps://example.com/%22\t" +
			"Mozilla/5.0%20(Windows%20NT%2010.0)\tq=%2541\t-\tHit\tSOX4xwn4XV6Q4rgb7XiVGOHms_BGlTAC4KyHmureZmBNrjGdRLiNIQ==\twww.example.com\thttps\t23\t0.001\t" +
			"203.0.113.9,%20198.51.100.1\tTLSv1.2\tECDHE-RSA-AES128-GCM-SHA256\tHit\tHTTP/2.0\t-\t-\t11040\t0.001\tHit\ttext/html\t78\t-\t-",
			Request{UnixMilli: milli("2019-12-04T21:02:31Z"), IP: netip.MustParseAddr("192.0.2.100"), Method: "GET", Host: "www.example.com",
				Path: "/a%20b.html", Query: "q=%41", Status: 200, Bytes: 392, Agent: "Mozilla/5.0 (Windows NT 10.0)", Referrer: `https://example.com/"`,
				Forwarded: "203.0.113.9, 198.51.100.1", Fields: []Field{{"x-edge-location", "LAX1"}, {"cs(Host)", "d111111abcdef8.cloudfront.net"},
					{"x-edge-result-type", "Hit"}, {"x-edge-request-id", "SOX4xwn4XV6Q4rgb7XiVGOHms_BGlTAC4KyHmureZmBNrjGdRLiNIQ=="},
					{"cs-protocol", "https"}, {"cs-bytes", "23"}, {"time-taken", "0.001"}, {"ssl-protocol", "TLSv1.2"},
					{"ssl-cipher", "ECDHE-RSA-AES128-GCM-SHA256"}, {"x-edge-response-result-type", "Hit"}, {"cs-protocol-version", "HTTP/2.0"},
					{"c-port", "11040"}, {"time-to-first-byte", "0.001"}, {"x-edge-detailed-result-type", "Hit"}, {"sc-content-type", "text/html"},
					{"sc-content-len", "78"}}}},
		// Of 2013: fewer columns, and spaces encoded twice.
		{"cloudfront", "2013-10-07\t23:35:30\tLHR3\t828\t192.0.2.100\tGET\td1.cloudfront.net\t/i\t000\t-\tMozilla/5.0%2520(compatible)\t-",
			Request{UnixMilli: milli("2013-10-07T23:35:30Z"), IP: netip.MustParseAddr("192.0.2.100"), Method: "GET",
				Path: "/i", Bytes: 828, Agent: "Mozilla/5.0 (compatible)", Fields: []Field{{"x-edge-location", "LHR3"}, {"cs(Host)", "d1.cloudfront.net"}}}},
		{"iis", `2022-01-22 00:00:01 10.142.0.2 POST /member/Track.ashx pid=2173020&lid=12 443 CORP\diego 172.69.69.207 Mozilla/5.0+(Windows+NT+10.0;+Win64;+x64) https://example.com/a+b 200 0 0 31`,
			Request{UnixMilli: milli("2022-01-22T00:00:01Z"), IP: netip.MustParseAddr("172.69.69.207"), User: `CORP\diego`, Method: "POST",
				Path: "/member/Track.ashx", Query: "pid=2173020&lid=12", Status: 200, Bytes: -1, Agent: "Mozilla/5.0 (Windows NT 10.0; Win64; x64)",
				Referrer: "https://example.com/a b", Fields: []Field{{"s-ip", "10.142.0.2"}, {"s-port", "443"}, {"sc-substatus", "0"},
					{"sc-win32-status", "0"}, {"time-taken", "31"}}}},
	}
	for _, test := range tests {
		parser := mustParser(t, test.preset, Options{Zone: berlin})
		got := parsed(t, parser, test.line)
		got.open = ""
		equal(t, test.preset+": "+test.line, got, test.want)
	}
}

func haproxySample(frontend, queues, path string, more ...Field) Request {
	return Request{UnixMilli: milli("2009-02-06T12:14:14.764+01:00"), TookMilli: 109, IP: netip.MustParseAddr("10.0.1.2"), Method: "GET", Path: path, Status: 200,
		Bytes: 2750, Fields: append([]Field{{"frontend", frontend}, {"backend", "static"}, {"server", "srv1"}, {"timers", "10/0/30/69/109"},
			{"termination_state", "----"}, {"connections", "1/1/1/1/0"}, {"queues", queues}}, more...)}
}

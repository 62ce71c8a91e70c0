package request

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
)

func TestForgeableFormatsAreRefused(t *testing.T) {
	for _, test := range []struct{ format, want string }{
		{"envoy", "use the format json"},
		{"traefik-clf", "use the format traefik-json"},
		{`escape=none '` + nginxCombined + `'`, "into $remote_user, $request, $http_referer, $http_user_agent: remove escape=none"},
		{`escape=none '$remote_addr [$time_iso8601] "$http_x_a" $status "$http_user_agent"'`, "into $http_x_a, $http_user_agent"},
		{`%{X-Forwarded-For}i %l %u %t "%r" %>s`, "put quotes around %{X-Forwarded-For}i in the server's"},
		{`$http_host $remote_addr - $remote_user [$time_local] "$request"`, "put quotes around $http_host in the server's"},
		{`$remote_addr [$time_iso8601] $http_x_user $cookie_a $status`, "put quotes around $http_x_user in"},
		{`$remote_addr $http_user_agent $time_iso8601 $request $status`, "put quotes around $http_user_agent in"},
		{`$remote_addr [$time_iso8601] $status $http_user_agent $upstream_addr "$request"`, "put quotes around $http_user_agent in"},
		{`$remote_addr [$time_iso8601] $upstream_addr $http_x_tenant`, "put quotes around $http_x_tenant in"},
		{`%h %u %t %U %>s`, "put quotes around %u in"},
		{`$remote_addr [$time_iso8601] $ssl_server_name $content_type $status`, "put quotes around $ssl_server_name in"},
		{`$time_iso8601|$host|$request_uri|$remote_addr|$status`, "put quotes around $host in"},
		{`$time_iso8601,$request_uri,$remote_addr,$status,$http_user_agent`, "put quotes around $request_uri in"},
		{`%{%s}t|%m|%U|%a|%>s`, "put quotes around %m in"},
		{`escape=none '$time_iso8601 $remote_addr $status "$request_uri"$host'`, "into $request_uri, $host: remove escape=none"},
		{`escape=haproxy '$remote_addr|$time_iso8601|$request_uri|$status'`, "put quotes around $request_uri in"},
		{`escape=haproxy '$time_iso8601|$request_method|$remote_addr|$status'`, "into $request_method"},
		{`$time_iso8601|$sent_http_location|$host|$remote_addr|$status`, "put quotes around $sent_http_location in"},
		{`$time_iso8601 $content_length $remote_addr $http_x_tenant $status`, "put quotes around $content_length in"},
		{`$time_iso8601 $request_method $remote_addr $request_uri $status`, "put quotes around $request_method in"},
		{`%t %{SSL_TLS_SNI}x %{SSL_CLIENT_S_DN}x %h %>s`, "put quotes around %{SSL_TLS_SNI}x in"},
	} {
		if _, err := NewParser(test.format, Options{}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.format, err, test.want)
		}
	}
}

func TestQuotesMakeASeparatorSafe(t *testing.T) {
	var r Request
	line := `203.0.113.7|2026-05-04T06:25:06+00:00|"/a|b"|404`
	for _, format := range []string{`$remote_addr|$time_iso8601|"$request_uri"|$status`, `escape=haproxy '$remote_addr|$time_iso8601|"$request_uri"|$status'`} {
		if err := mustParser(t, format, Options{}).Parse(line, &r); err != nil || r.Path != "/a|b" || r.Status != 404 {
			t.Errorf("%s: %v %+v", format, err, r)
		}
	}
}

// Lines as Envoy 1.40 and Traefik 3.7 wrote them.
var forgeableLines = map[string][]string{
	"envoy": {
		`[2026-11-22T11:39:37.349Z] "GET /login?" HTTP/1.1" 200 - 0 2 1 0 "127.0.0.7" "-" "473a4dbe-476c-44f1-9bfd-6d7cff685906" "h" "127.0.0.90:9080"`,
		`[2026-11-22T11:39:37.357Z] "- - HTTP/1.1" 400 DPE 0 11 0 - "-" "-" "-" "-" "-"`,
		`[2026-11-22T11:39:37.358Z] "GET / HTTP/1.1" 200 - 0 2 0 0 "127.0.0.7" "u1" "[u2\" "9995eac7-1d8e-4d10-84e1-b4514f1ac603" "a]" "127.0.0.90:9080"`,
		`[2026-11-22T11:39:37.359Z] "GET / HTTP/1.1" 200 DC 0 0 0 0 "9.9.9.9" "x,127.0.0.7" "-" "9c719a02-8fe5-4ecf-ba37-91bc3bb6ccfa" "h" "127.0.0.90:9080"`,
		`[2026-11-22T11:39:37.360Z] "GET / HTTP/1.1" 200 DC 0 0 3 3 "9.9.9.9 - - [x] "GET,127.0.0.7" "-" "1d9eb4b4-1afe-4186-927e-06ce91ef2f4b" "h" "127.0.0.90:9080"`,
	},
	"traefik-clf": {
		`127.0.0.1 - - [22/Nov/2026:11:38:11 +0000] "GET / HTTP/1.1" 200 2 "-" "curl/7.88.1" 1 "all@file" "http://127.0.0.90:9080" 1ms`,
		`127.0.0.7 - - [22/Nov/2026:11:39:08 +0000] "GET /login?" HTTP/1.1" 200 2 "-" "-" 2 "all@file" "http://127.0.0.90:9080" 0ms`,
		`127.0.0.7 - a [b [22/Nov/2026:11:39:08 +0000] "GET / HTTP/1.1" 200 2 "-" "-" 4 "all@file" "http://127.0.0.90:9080" 43ms`,
		`127.0.0.7 - - [22/Nov/2026:11:39:08 +0000] "GET / HTTP/1.1" 200 2 "r\" \"x" "u1\" \"[u2\" 8 "all@file" "http://127.0.0.90:9080" 42ms`,
		`9.9.9.9 - - [x] "GET - - [22/Nov/2026:11:39:09 +0000] "GET / HTTP/1.1" 200 2 "-" "-" 23 "all@file" "http://127.0.0.90:9080" 43ms`,
	},
}

// auto recognizes a format that can be forged by its first lines, attacked or not, and never reads it.
func TestChooseRefusesForgeableFormats(t *testing.T) {
	for format, lines := range forgeableLines {
		preset := forgeablePresets[0]
		if preset.name != format {
			preset = forgeablePresets[1]
		}
		samples := [][]string{lines}
		for _, line := range lines {
			samples = append(samples, []string{line}, []string{`{"log":` + quote(line+"\n") + `,"stream":"stdout","time":"2026-11-22T11:39:09Z"}`})
		}
		for _, sample := range samples {
			choice, err := Detect(sample, Options{})
			if err == nil || !strings.Contains(err.Error(), preset.remedy.Error()) || choice.Format != "" {
				t.Errorf("%s: chose %s, %v", sample[0], choice, err)
			}
		}
	}
}

// A forgedCase is a format: every field that forgedServer does not have is the client's.
type forgedCase struct{ format string }

var forgedCases = []forgedCase{
	{nginxCombined},
	{nginxMain},
	{nginxIngress},
	{`$http_x_forwarded_for [$time_local] "$request" $status $http_user_agent $request_time $upstream_addr "$remote_addr"`},
	{`$http_host $remote_addr [$time_local] "$request" $status $http_x_tenant`},
	{`$remote_addr $http_x_user $status $time_iso8601 "$request" $upstream_addr $body_bytes_sent $http_x_tenant $request_time $upstream_status`},
	{`$remote_addr [$time_iso8601] $request $status`},
	{`$http_user_agent [$time_local] $remote_addr $status`},
	{`$remote_addr - $remote_user [$time_local] $status "$http_user_agent"`},
	{`$time_iso8601 $ssl_server_name $remote_addr $req_id "$request" $status`},
	{`$ssl_client_s_dn [$time_local] $remote_addr $status`},
	{`$time_iso8601 $content_type $remote_addr $req_id "$request" $status`},
	{`$time_iso8601 $content_length $remote_addr $req_id "$request" $status`},
	{`$time_iso8601|$sent_http_location|$remote_addr|$status`},
	{`$remote_addr [$time_iso8601] $request_method $request_uri $status`},               // nginx before 1.21.1 takes spaces in it
	{`$time_iso8601 $request_method $remote_addr $status $request_time "$request_uri"`}, // over HTTP/2
	{`$request_method [$time_local] $remote_addr $status`},
	{`$time_iso8601 $request_method $scheme://$host$request_uri $remote_addr $status`},
	{`$time_iso8601|$host|$remote_addr|$status|"$request"`},
	{`$time_iso8601|$upstream_addr|$request_uri|$remote_addr|$status`},
	{`$remote_addr,$time_iso8601,$status,$query_string`},
	{`$remote_addr [$time_iso8601] "$http_x_tenant" $status [$args]`},
	{`$request_uri|$time_iso8601|$remote_addr|$status|"$http_user_agent"`},
	{`escape=none '$remote_addr [$time_iso8601] $status "$http_user_agent" $upstream_addr'`},
	{`escape=none '[$http_x_forwarded_for] [$time_local] $status $remote_addr'`},
	{`escape=none '$time_iso8601 $status $remote_addr "$request"'`},
}

var forgedServer = map[string]string{
	"remote_addr": "203.0.113.7", "time_local": "04/May/2026:06:25:06 +0000", "time_iso8601": "2026-05-04T06:25:06+00:00", "status": "404",
	"upstream_addr": "10.0.0.1:80, 10.0.0.2:80 : 10.0.0.3:80", "upstream_status": "502, 200", "body_bytes_sent": "5", "request_length": "1", "request_time": "0.001",
	"proxy_upstream_name": "shop-web-80", "proxy_alternative_upstream_name": "", "upstream_response_length": "0", "upstream_response_time": "0.001", "req_id": "4a5e",
}

var variableName = regexp.MustCompile(`\$[a-z0-9_]+`)

// write is the line that nginx writes, with the client's text in all of its fields.
func (c forgedCase) write(sent string) string {
	format, raw := strings.CutPrefix(c.format, "escape=none '")
	if raw {
		format = strings.TrimSuffix(format, "'")
	}
	return variableName.ReplaceAllStringFunc(format, func(name string) string {
		if text, ok := forgedServer[name[1:]]; ok {
			return text
		}
		if sent == "" {
			return "-"
		}
		if raw {
			return sent
		}
		var escaped strings.Builder
		for _, b := range []byte(sent) {
			if b < ' ' || b > '~' || b == '"' || b == '\\' {
				fmt.Fprintf(&escaped, `\x%02X`, b)
			} else {
				escaped.WriteByte(b)
			}
		}
		return escaped.String()
	})
}

// nginx 1.22 wrote the second line: a client may send any text as the name of the TLS server.
func TestTheNameOfTheTLSServerIsTheClients(t *testing.T) {
	p := mustParser(t, `$time_iso8601 $ssl_server_name $remote_addr $request_id "$request" $status`, Options{})
	for _, name := range []string{"shop.example", "a 9.9.9.9"} {
		var r Request
		line := "2026-11-23T05:36:34+00:00 " + name + ` 203.0.113.7 70fe1b0f243721bd7382babc7d491348 "GET / HTTP/1.1" 200`
		if err := p.Parse(line, &r); err != nil || r.IP != netip.MustParseAddr("203.0.113.7") || r.Host != name {
			t.Errorf("%s\n%v %+v", line, err, r)
		}
	}
}

// nginx 1.22 wrote the second line of each: over HTTP/2 it logs any method, and of a certificate that it could not verify
// the reason. In the last one, an older nginx logged spaces in the URL.
func TestTextWithSpacesMovesNoField(t *testing.T) {
	for format, texts := range map[string][]string{
		`$time_iso8601 $request_method $remote_addr $status $request_time "$request_uri"`:              {"GET", "GET 9.9.9.9 200"},
		`$time_iso8601 $request_method $scheme://$host$request_uri $remote_addr $status $request_time`: {"GET http://shop/", "GET 9.9.9.9 200 http://-"},
		`$time_iso8601 $ssl_client_verify $remote_addr $status`:                                        {"SUCCESS", "FAILED:self-signed certificate"},
		`$time_iso8601 $scheme://$host$request_uri $remote_addr $status`:                               {"http://shop/", "http://shop/a b"},
		`$time_iso8601 $args $remote_addr $status "$request"`:                                          {"-", "a b"},
	} {
		_, after, _ := strings.Cut(format, " $remote_addr ")
		for _, text := range texts {
			var r Request
			line := "2026-11-23T05:36:34+00:00 " + text + " 203.0.113.7 " + strings.NewReplacer("$status", "404", "$request_time", "0.000", "$request_uri", "/", "$request", "GET / HTTP/1.1").Replace(after)
			if err := mustParser(t, format, Options{}).Parse(line, &r); err != nil || r.IP != netip.MustParseAddr("203.0.113.7") || r.Status != 404 {
				t.Errorf("%s\n%s\n%v %+v", format, line, err, r)
			}
		}
	}
}

// A server's field with spaces behind the URL is read as before.
func TestSpacesBehindTheURL(t *testing.T) {
	const line = "203.0.113.7 [2026-11-23T05:36:34+00:00] /a 200 "
	for format, rest := range map[string]string{
		"$remote_addr [$time_iso8601] $request_uri $status $sent_http_content_type": "text/html; charset=utf-8",
		"$remote_addr [$time_iso8601] $request_uri $status $geoip_city":             "New York",
		"$remote_addr [$time_iso8601] $request_uri $status $request_time":           "0.001",
	} {
		var r Request
		if err := mustParser(t, format, Options{}).Parse(line+rest, &r); err != nil || r.Path != "/a" || r.Status != 200 {
			t.Errorf("%s: %v %+v", format, err, r)
		}
	}
}

// FuzzForged: whatever a client sends in all of its fields, it moves neither the address nor the time nor the status of
// a line, and does not make it unreadable.
func FuzzForged(f *testing.F) {
	for _, text := range []string{"", "-", "a b", `""`, `"" 9.9.9.9`, "a [b", `9.9.9.9" "x`, `u1" "[u2`, `x" "y`, "a]", `9.9.9.9 - - [04/May/2027:06:25:06 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`,
		"9.9.9.9 [04/May/2027:06:25:06 +0000] ", "x 9.9.9.9 200", ", 9.9.9.9 : 8.8.8.8", ` 200 2027-05-04T06:25:06+00:00 "`, "a [04/May/2027:06:25:06 +0000] 200 \"", `\`, ` 200 9.9.9.9`, "a|9.9.9.9|200", "|2027-05-04T06:25:06+00:00|9.9.9.9|200", "a,9.9.9.9,200", "x] ["} {
		f.Add(text)
	}
	parsers := make([]Parser, len(forgedCases))
	for i, c := range forgedCases {
		parsers[i] = mustParser(f, c.format, Options{})
	}
	at, ip := milli("2026-05-04T06:25:06Z"), netip.MustParseAddr("203.0.113.7")
	f.Fuzz(func(t *testing.T, sent string) {
		if strings.ContainsAny(sent, "\r\n\x00") { // HTTP has none
			return
		}
		for i, c := range forgedCases {
			line := c.write(sent)
			var r Request
			if err := parsers[i].Parse(line, &r); err != nil {
				t.Fatalf("%s\n%s\n%v", c.format, line, err)
			}
			if r.UnixMilli != at || r.IP != ip || r.Status != 404 {
				t.Fatalf("%s\n%s\n%+v", c.format, line, r)
			}
		}
	})
}

package reading

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/pkg/backtest"
	"weir/pkg/rule"
	"weir/test/sink"
)

// hostileFormats have a line each. Clients write what is in place of @, and % is an address, ^ a second.
var hostileFormats = []struct{ name, envelope, format, line string }{
	{"combined", "none", "combined", `203.0.113.% - @ [03/Mar/2026:08:00:^ +0000] "GET /@ HTTP/1.1" 200 2 "@" "@"`},
	{"common", "none", "common", `203.0.113.% - @ [03/Mar/2026:08:00:^ +0000] "@ /@ HTTP/1.1" 200 -`},
	{"vhost_combined", "none", "vhost_combined", `@:443 203.0.113.% - @ [03/Mar/2026:08:00:^ +0000] "GET /@ HTTP/1.1" 200 2 "@" "@" @`},
	{"host_combined", "none", "host_combined", `@ 203.0.113.% - @ [03/Mar/2026:08:00:^ +0000] "GET /@ HTTP/1.1" 200 2 "@" "@"`},
	{"lighttpd", "none", "lighttpd", `203.0.113.% @ @ [03/Mar/2026:08:00:^ +0000] "GET /@ HTTP/1.1" 200 2 "@" "@"`},
	{"main", "none", "main", `203.0.113.% - @ [03/Mar/2026:08:00:^ +0000] "GET /@ HTTP/1.1" 200 2 "@" "@" "@"`},
	{"ingress-nginx", "none", "ingress-nginx", `203.0.113.% - @ [03/Mar/2026:08:00:^ +0000] "GET /@ HTTP/2.0" 200 1534 "@" "@" 407 0.004 [shop-web-80] [] 10.42.1.7:8080 1534 0.001 200 @`},
	{"haproxy", "none", "haproxy", `203.0.113.%:33317 [03/Mar/2026:08:00:^.655] http-in static/srv1 10/0/30/69/109 200 2750 @ - ---- 1/1/1/1/0 0/0 {@} {@} "GET /@ HTTP/1.1"`},
	{"alb", "none", "alb", `http 2026-03-03T08:00:^.186641Z app/my/50dc 203.0.113.%:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "GET http://@:80/@ HTTP/1.1" "@" - - arn:x "Root=1-58" "@" "@" 0 2026-03-03T08:00:^.364000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-"`},
	{"squid", "none", "squid", `17725248^.779    180 203.0.113.% TCP_MISS/200 411 GET http://@/@ @ DIRECT/125.23.7.23 text/plain`},
	{"iis", "none", "iis", `2026-03-03 08:00:^ 10.0.0.2 @ /@ @ 443 @ 203.0.113.% @ @ 200 0 0 31`},
	{"own", "none", `$remote_addr [$time_local] $http_x_user "$request" "$http_x_tenant" $status`, `203.0.113.% [03/Mar/2026:08:00:^ +0000] @ "GET /@ HTTP/1.1" "@" 200`},
	{"own-last", "none", `$remote_addr $time_iso8601 "$request" $http_x_user`, `203.0.113.% 2026-03-03T08:00:^Z "GET /@ HTTP/1.1" @`},
	{"own-apache", "none", `%v %a %{end}t "%r" %>s %{X-User}i`, `shop 203.0.113.% [03/Mar/2026:08:00:^ +0000] "GET /@ HTTP/1.1" 200 @`},
	{"npmplus", "none", "npmplus", `[03/Mar/2026:08:00:^ +0000] @ 203.0.113.% 0.012 "GET /@ HTTP/2.0" 200 512 790 @ @`},
	{"caddy", "none", "caddy", `{"level":"info","ts":17725248^.5,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"203.0.113.%","client_ip":"203.0.113.%","proto":"HTTP/2.0","method":"GET","host":"@","uri":"/@","headers":{"User-Agent":["@"],"X-@":["@"]}},"user_id":"@","duration":0.1,"size":2,"status":200}`},
	{"json", "none", "json", `{"time":"2026-03-03T08:00:^Z","ip":"203.0.113.%","user":"@","method":"GET","host":"@","path":"/@","status":200,"agent":"@","@":"@"}`},
	{"fluentbit", "fluentbit", "combined", `{"@timestamp":"2026-03-03T08:00:^Z","log":"203.0.113.% - @ [03/Mar/2026:08:00:^ +0000] \"GET /@ HTTP/1.1\" 200 2 \"@\" \"@\""}`},
	{"docker", "docker", "combined", `{"log":"203.0.113.% - @ [03/Mar/2026:08:00:^ +0000] \"GET /@ HTTP/1.1\" 200 2 \"@\" \"@\"\n","stream":"stdout","time":"2026-03-03T08:00:^.1Z"}`},
	{"cri", "cri", "combined", `2026-03-03T08:00:^.1Z stdout F 203.0.113.% - @ [03/Mar/2026:08:00:^ +0000] "GET /@ HTTP/1.1" 200 2 "@" "@"`},
	{"cri-json", "cri", "json", `2026-03-03T08:00:^.1Z stdout F {"time":"2026-03-03T08:00:^Z","ip":"203.0.113.%","path":"/@","user":"@"}`},
	{"syslog", "syslog", "combined", `Mar  3 08:00:^ web1 nginx[2869]: 203.0.113.% - @ [03/Mar/2026:08:00:^ +0000] "GET /@ HTTP/1.1" 200 2 "@" "@"`},
	{"quoted", "quoted", "combined", `"203.0.113.% - @ [03/Mar/2026:08:00:^ +0000] \"GET /@ HTTP/1.1\" 200 2 \"@\" \"@\""`},
	{"otlp", "otlp", "json", `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"17725248^000000000","body":{"stringValue":"@"},"attributes":[{"key":"ip","value":{"stringValue":"203.0.113.%"}},{"key":"path","value":{"stringValue":"/@"}}]}]}]}]}`},
}

var hostileTexts = []string{
	"", "-", "a", "alice", `"`, `\"`, `\\`, `\`, `\x22`, `\u0022`, `\n`, `\u0000`, `#22`, "\n", "\r", "\r\n", "\x00", "\x01", "\x1e", "\v", "\f", "\t", " ", "\u0085", "\u2028", "\ufeff", "\x7f", "\x80", "\xff", "é", "{", "}", "[", "]", "] ", "{}", ",",
	`" 200 2 "`, `9.9.9.9`, `9.9.9.9 - - [03/Mar/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 2 "-" "-"`, "\n" + `9.9.9.9 - - [03/Mar/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 2 "-" "-"`, `","ip":"9.9.9.9","x":"`, `{"ip":"9.9.9.9","time":1772524800}`,
	"[03/Mar/2026:08:00:00 +0000]", "?a=b", "/../x", "//x", "%00", "%2e%2e/", "%zz", "xn--99999999é", "#Fields: date time c-ip", "\n#Fields: date time c-ip cs-uri-stem\n", "2026-03-03T08:00:00Z stdout P ", "<190>", "@cee: ",
	strings.Repeat("a", 500), strings.Repeat(`\x22`, 300), strings.Repeat("b ", 9000), strings.Repeat("c", 140_000),
}

// hostile makes a log of lines of a format as clients would like them: with their texts, cut off, damaged.
func hostile(random *rand.Rand, line string, count int) string {
	text := func() string {
		if random.IntN(3) > 0 {
			return []string{"a", "b", "-", "shop"}[random.IntN(4)]
		}
		last := len(hostileTexts)
		if random.IntN(20) > 0 {
			last -= 2 // long ones are rare
		}
		return hostileTexts[random.IntN(last)]
	}
	var log strings.Builder
	for range count {
		second, address := fmt.Sprintf("%02d", random.IntN(60)), strconv.Itoa(random.IntN(9))
		var b strings.Builder
		for _, part := range line {
			switch part {
			case '@':
				b.WriteString(text())
			case '%':
				b.WriteString(address)
			case '^':
				b.WriteString(second)
			default:
				b.WriteRune(part)
			}
		}
		s := b.String()
		if at, to := random.IntN(len(s)), random.IntN(len(s)); at < to {
			switch random.IntN(12) {
			case 0:
				s = s[:to]
			case 1:
				s = s[at:]
			case 2:
				s = s[:at] + s[to:]
			case 3:
				s = s[:to] + s[at:]
			case 4:
				s = s[:at] + text() + s[at:]
			}
		}
		log.WriteString(s)
		log.WriteString([]string{"\n", "\n", "\n", "\r\n", "\n\n", "\x00\n"}[random.IntN(6)])
	}
	return log.String() + strings.NewReplacer("@", "a", "%", "1", "^", "59").Replace(line) + "\n" // the last part of a line
}

// The collector and the backtest read the same requests of the same clients from hostile lines. WEIR_READING_SEED makes other
// lines.
func TestBothReadTheSameOfHostileLines(t *testing.T) {
	set, _, err := rule.Parse("rules.yaml", []byte(`rules:
  - {name: ip, key: ip, limits: [1/s], cost: 2}
  - {name: user, key: user, limits: [1/s], cost: 2}
  - {name: path, key: [method, path], limits: [1/s], cost: 2}
  - {name: agent, key: [host, agent], limits: [1/s], cost: 2}
  - {name: field, key: [http_x_user], limits: [1/s], cost: 2}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range hostileFormats {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			seed := uint64(1)
			if text := os.Getenv("WEIR_READING_SEED"); text != "" {
				var err error
				if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(t.TempDir(), "access.log")
			if err := os.WriteFile(path, []byte(hostile(rand.New(rand.NewPCG(seed, 0)), f.line, 400)), 0o644); err != nil {
				t.Fatal(err)
			}
			report, err := backtest.Run(t.Context(), backtest.Config{Rules: set, Inputs: []backtest.Input{{Path: path}}, Format: f.format, Envelope: f.envelope, Late: 3660 * 24 * time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			keys, late := map[string]int64{}, int64(0) // a damaged time may be decades away
			for _, r := range report.Rules {
				for _, b := range r.Blocked {
					keys[r.Rule+" "+b.Key] = 2 * b.Requests
				}
				late += 2 * r.Uncounted["late"]
			}
			hits := sink.New(4)
			got := byCollectorOf(t, path, set, f.envelope, f.format, hits)
			got.read += got.unread["key"] // it was read, and no rule has all fields of its key
			delete(got.unread, "key")
			if f.envelope == "otlp" { // a line that is protobuf by chance has no request, or it has one with its \r
				delete(got.unread, "json")
				delete(report.Unread, "json")
			}
			if want := (counting{report.Requests, report.Unread, ""}); got.read != want.read || !maps.Equal(got.unread, want.unread) {
				t.Errorf("seed %d: the collector: %v, the backtest: %v", seed, got, want)
			}
			counted, _ := hits.Counted(t)
			if differ, text := difference(counted, keys); differ != late {
				t.Errorf("seed %d: %d hits differ, %d are late: %s", seed, differ, late, text)
			}
		})
	}
}

// difference is how many hits are of the collector alone, or negative if it lacks some, and the keys.
func difference(collector, backtest map[string]int64) (hits int64, keys string) {
	for key, n := range collector {
		if n != backtest[key] {
			hits += n - backtest[key]
			keys += fmt.Sprintf("\n%.200q: %d by the collector, %d by the backtest", key, n, backtest[key])
		}
	}
	for key, n := range backtest {
		if collector[key] < n {
			return -n, fmt.Sprintf("%s\n%.200q: %d by the backtest, %d by the collector", keys, key, n, collector[key])
		}
	}
	return hits, keys
}

package edges

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/test/wait"
)

// keyed are the parts of keys. Each has a rule of its own, with a mark that names the request.
var keyed = []string{"http_x_tenant", "cookie_sid", "arg_q", "host", "method", "path", "raw_path", "query", "agent", "referrer"}

func ruleOf(part string) string { return "by-" + strings.ReplaceAll(part, "_", "-") }

func keyedRules(more string) string {
	text := "rules:\n  - {name: by-mark, key: http_x_mark, limits: [1000/hour]" + more + "}\n"
	for _, part := range keyed {
		text += fmt.Sprintf("  - {name: %s, key: [http_x_mark, %s], limits: [1000/hour]%s}\n", ruleOf(part), part, more)
	}
	return text
}

// keyedEdges are the edges that ask, with a header, a cookie and a part of the query in their logs and checks as
// docs/edges.md says.
var keyedEdges = []struct {
	name, format string
	fields       map[string]string
	lacks        []string
	start        func(s *site) (http1, http2 string, log func() string)
}{
	{"nginx", `$remote_addr - $weir_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" weir="$weir" "$host" "$http_x_mark" "$http_x_tenant" "$cookie_sid" "$arg_q"`, nil, nil, func(s *site) (string, string, func() string) {
		http1, http2 := loopback+":"+freePort(s.t), loopback+":"+freePort(s.t)
		log := nginx(s.t, snippet(s.t, "nginx.conf", "listen 80;", "listen "+http1+"; listen "+http2+" http2;", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app,
			`weir="$weir"'`, `weir="$weir" "$host" "$http_x_mark" "$http_x_tenant" "$cookie_sid" "$arg_q"'`,
			"set $weir \"lease $request_id\"; ", "set $weir \"lease $request_id\"; set $weir_q $arg_q; ",
			"proxy_set_header X-User $weir_checked;", "proxy_set_header X-Mark $http_x_mark; proxy_set_header X-Tenant $http_x_tenant; proxy_set_header Cookie-Sid $cookie_sid; proxy_set_header Arg-Q $weir_q;"))
		return http1, http2, contentOf(s.t, log)
	}},
	{"caddy", "caddy", map[string]string{"http_x_mark": "request.headers.X-Mark.0", "http_x_tenant": "request.headers.X-Tenant.0"}, []string{"cookie_sid", "arg_q"}, func(s *site) (string, string, func() string) {
		address, log := running(s.caddy("protocols h1 h2\n", "protocols h1 h2c\n"))
		return address, address, log
	}},
	{"traefik", "traefik-json", map[string]string{"http_x_mark": "request_X-Mark", "http_x_tenant": "request_X-Tenant"}, []string{"cookie_sid", "arg_q", "referrer"}, func(s *site) (string, string, func() string) {
		address, log := running(s.traefikWith([]string{"User-Agent: keep", "User-Agent: keep\n        X-Mark: keep\n        X-Tenant: keep"}, "[User-Agent]", "[User-Agent, X-Mark, X-Tenant]"))
		return address, address, log
	}},
	{"envoy", "envoy-json", nil, []string{"cookie_sid", "arg_q", "referrer"}, func(s *site) (string, string, func() string) {
		address, log := running(s.envoy(keyedEnvoy...))
		return address, address, log
	}},
	{"envoy over gRPC", "envoy-json", nil, []string{"cookie_sid", "arg_q", "referrer"}, func(s *site) (string, string, func() string) {
		address, log := running(s.envoyGRPC(authorizes, append(slices.Clone(keyedEnvoy[:len(keyedEnvoy)-2]), "                          - exact: user-agent\n", "                          - exact: user-agent\n                          - exact: x-mark\n                          - exact: x-tenant\n")...))
		return address, address, log
	}},
	{"envoy rate limits", "envoy-json", nil, []string{"cookie_sid", "arg_q", "referrer"}, func(s *site) (string, string, func() string) {
		entry := func(header, key string) string {
			return `                            - request_headers: {header_name: "` + header + `", descriptor_key: ` + key + ", skip_if_absent: true}\n"
		}
		replace := append(slices.Clone(keyedEnvoy[:len(keyedEnvoy)-2]), withKey...)
		replace = append(replace, "                            - remote_address: {}\n", "                            - remote_address: {}\n"+
			entry("x-mark", "http_x_mark")+entry("x-tenant", "http_x_tenant")+entry(":authority", "host")+entry("user-agent", "agent"))
		address, log := running(s.envoyGRPC(limits, replace...))
		return address, address, log
	}},
}

var keyedEnvoy = []string{
	"# - append: {header: {key: x-tenant", "- append: {header: {key: x-tenant",
	"                          method: ", "                          http_x_mark: \"%REQ(X-MARK)%\"\n                          http_x_tenant: \"%REQ(X-TENANT)%\"\n                          method: ",
	"                              - exact: user-agent\n", "                              - exact: user-agent\n                              - exact: x-mark\n                              - exact: x-tenant\n",
}

// The key that the log gives is the key that the check gives, however a client spells it. In JSON, what is not UTF-8 is
// another text (docs/rules.md).
func TestRandomKeys(t *testing.T) {
	for _, edge := range keyedEdges {
		t.Run(edge.name, func(t *testing.T) {
			t.Parallel()
			s, r := newRandomRequests(t)
			s.stop()
			s.rules = keyedRules(", inline: true")
			s.start()
			var log func() string
			r.http1, r.http2, log = edge.start(s)
			awaitEdge(t, "http://"+r.http1)
			all := map[string]sent{}
			for n := range min(r.count, 900) {
				mark := fmt.Sprintf("m%d", n)
				all[mark] = r.random.keyed(mark, edge.name == "nginx")
				r.send(stranger, all[mark])
			}
			checks := s.keysAsked(t)
			if len(checks) < len(all)/3 {
				t.Fatalf("of %d requests %d were asked about", len(all), len(checks))
			}

			set, _, err := rule.Parse("rules.yaml", []byte(keyedRules("")))
			if err != nil {
				t.Fatal(err)
			}
			decoder, judge := must(request.NewDecoder("none", edge.format, request.Options{Fields: edge.fields})), set.NewJudge()
			logs := map[string]map[string]string{}
			defer func() {
				for mark := range checks {
					if t.Failed() && logs[mark] == nil {
						t.Logf("the log lacks %.900s", all[mark])
					}
				}
			}()
			wait.Until(t, "all are in the log", func() bool {
				for line := range strings.Lines(log()) {
					decoder.DecodeEach(strings.TrimSuffix(line, "\n"), func(q *request.Request, err error) {
						if err != nil {
							return
						}
						for _, hit := range judge.Hits(q) {
							note(logs, set.Rules[hit.Rule].Name, string(hit.Key))
						}
					})
				}
				return !slices.ContainsFunc(slices.Collect(maps.Keys(checks)), func(mark string) bool { return logs[mark] == nil })
			})
			for mark, checked := range checks {
				for _, name := range keyed {
					log, check := logs[mark][ruleOf(name)], checked[ruleOf(name)]
					if log != check && !slices.Contains(edge.lacks, name) && !knownKeys(edge.name, name, log, check) {
						t.Errorf("%s: the log has %.300q, the check %.300q, of %.900s", name, log, check, all[mark])
					}
				}
			}
		})
	}
}

func note(all map[string]map[string]string, rule, key string) {
	mark, _, _ := strings.Cut(key, " ")
	if all[mark] == nil {
		all[mark] = map[string]string{}
	}
	all[mark][rule] = key
}

// keysAsked are the keys of inline rules that the enforcer was asked about, by mark and rule.
func (s *site) keysAsked(t *testing.T) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, name := range append(keyed, "mark") {
		got := ask(t, "127.0.0.1", "http://"+s.address+"/v1/top?n=1000&rule="+ruleOf(name), "X-Api-Key", key)
		var top []struct{ Rule, Key string }
		if got.status != http.StatusOK || json.Unmarshal([]byte(got.body), &top) != nil {
			t.Fatalf("%+v", got)
		}
		for _, one := range top {
			note(all, one.Rule, one.Key)
		}
	}
	return all
}

// value is one of a field, in some spelling.
func (m maker) value() string {
	value := m.pick("a", "a", "A", "-", "", "a,b", "a, b", " a", "a ", "\ta\t", "a b", "a  b", "%61", "a%20b", "é", "\xe9", "\xff", "\xc3", "\xa0", "\"", "a\"b", "\\", "\\x41", "\\u0041", "\\\"", "a\\", "#22", "+", "{http.x}", "{http.auth.user.id}",
		"null", "nil", "\x01", "\x7f", "\u2028", "\u0130", "<", "&", "'", "(null)", "0", "[a]", "{}", "\xef\xbf\xbd", "!", strings.Repeat("a", 300), strings.Repeat("\"", 1500), strings.Repeat("é", 2500))
	if m.IntN(4) == 0 {
		value += m.junk()
	}
	return value
}

// keyed is a request with a mark that spells one or two parts of keys in some way, with any bytes or in UTF-8.
func (m maker) keyed(mark string, bytes bool) sent {
	method, host, target, headers := "GET", "h", "/x", [][2]string{{"X-Mark", mark}}
	for range 1 + m.IntN(2) {
		switch m.IntN(8) {
		case 0, 1:
			for range 1 + m.IntN(2) {
				headers = append(headers, [2]string{m.often("X-Tenant", "x-tenant", "X-TENANT", "X_Tenant"), m.value()})
			}
		case 2:
			for range 1 + m.IntN(2) {
				headers = append(headers, [2]string{"User-Agent", m.value()})
			}
		case 3:
			for range 1 + m.IntN(2) {
				headers = append(headers, [2]string{m.often("Referer", "referer", "Referrer"), m.value()})
			}
		case 4:
			for range 1 + m.IntN(2) {
				headers = append(headers, [2]string{"Cookie", m.often("", "a=b; ", "sid; ") + m.often("sid=", "SID=", "sid = ", " sid=") + m.value() + m.often("", "; sid=b", ";sid=c", ", sid=d")})
			}
		case 5:
			target += "?" + m.often("", "a=b&", "q&") + m.often("q=", "Q=", "%71=") + strings.NewReplacer(" ", "+", "\t", "%09").Replace(m.value()) + m.often("", "&q=b", ";q=c")
		case 6:
			host = m.host()
		default:
			method, target = m.method(), m.target()
		}
	}
	if !bytes {
		host, target = strings.ToValidUTF8(host, "?"), strings.ToValidUTF8(target, "?")
		for i := range headers {
			headers[i][1] = strings.ToValidUTF8(headers[i][1], "?")
		}
	}
	if m.IntN(3) == 0 {
		fields := []hpack.HeaderField{{Name: ":method", Value: method}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: host}, {Name: ":path", Value: target}}
		for _, h := range headers {
			fields = append(fields, hpack.HeaderField{Name: strings.ToLower(h[0]), Value: h[1]})
		}
		return sent{http2: true, headers: fields}
	}
	text := method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\n"
	for _, h := range headers {
		text += h[0] + m.often(": ", ":", ":\t", ":  ") + h[1] + "\r\n"
	}
	return sent{bytes: text + "Connection: close\r\n\r\n"}
}

// knownKeys reports whether docs/edges.md says that the two are different, or the host is that of no site.
func knownKeys(edge, name, log, check string) bool {
	if name == "host" && strings.Contains(check, "[") {
		return true
	}
	switch edge {
	case "traefik":
		twice := (name == "agent" || name == "http_x_tenant") && strings.ContainsAny(log, ",…")
		return twice || name == "host" && strings.Contains(check, "::") || log == "" && (name == "agent" && strings.HasSuffix(check, " Go-http-client/1.1") || name == "host" && strings.HasSuffix(check, " "+loopback))
	case "caddy":
		return check == "" && (strings.Contains(log, "{http") || name == "host")
	case "envoy rate limits":
		return log == "" && strings.HasSuffix(check, " -")
	}
	return false
}

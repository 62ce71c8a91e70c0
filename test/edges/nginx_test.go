package edges

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/pkg/blocklist"
	"weir/pkg/request"
	"weir/test/wait"
)

// nginx runs with a file of deployments/edge, and returns the path of its log.
func nginx(t *testing.T, text string) (log string) {
	t.Helper()
	path := program(t, "nginx", "nginx")
	folder := t.TempDir()
	for _, name := range []string{"body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text = strings.Replace(text, "http {", "http {\n    "+name+"_temp_path "+filepath.Join(folder, name)+";", 1)
	}
	text = strings.ReplaceAll(text, "body_temp_path", "client_body_temp_path")
	text = strings.ReplaceAll(text, "worker_processes auto;", "worker_processes 1;\ndaemon off;\n"+user())
	for _, name := range []string{"/var/log/nginx/error.log", "/var/log/nginx/access.log", "/run/nginx.pid"} {
		text = strings.ReplaceAll(text, name, filepath.Join(folder, filepath.Base(name)))
	}
	run(t, path, "-c", write(t, filepath.Join(folder, "nginx.conf"), text), "-e", filepath.Join(folder, "error.log"))
	return filepath.Join(folder, "access.log")
}

// user is the user of the workers of an nginx that runs as root.
func user() string {
	if os.Getuid() == 0 {
		return "user root;\n"
	}
	return ""
}

func TestNginx(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	port := freePort(t)
	log := nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+loopback+":"+port+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app))
	text := func() string {
		text, _ := os.ReadFile(log)
		return string(text)
	}
	s.asksAndGoesOn("http://"+loopback+":"+port, text, `weir="refused manual"`)
	marksRefusals(t, text())
}

// marksRefusals checks that auto reads a log of ours in its format, and finds the refused requests in it.
func marksRefusals(t *testing.T, log string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(log), "\n")
	choice, err := request.Detect(lines, request.Options{})
	if err != nil || choice.Format != "weir" {
		t.Fatalf("chose %s, %v, for\n%s", choice, err, log)
	}
	parser, marked := must(request.NewParser("weir", request.Options{})), 0
	for _, line := range lines {
		var r request.Request
		if parser.Parse(line, &r) != nil {
			continue
		}
		mark, ok := r.Field("weir")
		if ok != (r.Status == http.StatusTooManyRequests) || ok && mark != "refused manual" || r.Forwarded != "" {
			t.Errorf("%s: %+v", line, r)
		}
		if ok {
			marked++
		}
	}
	if marked == 0 {
		t.Errorf("nothing is marked in\n%s", log)
	}
}

// A request of HTTP/1.0 without a host, as health checks send it, is asked about like any other.
func TestNginxWithoutAHost(t *testing.T) {
	s := newSite(t)
	address := loopback + ":" + freePort(t)
	nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+address+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app))
	awaitEdge(t, "http://"+address)
	s.order(blocklist.OrderBlock, blockedClient)
	for from, want := range map[string]string{goodClient: " 200 ", blockedClient: " 429 "} {
		wait.Until(t, from+" gets"+want, func() bool { return strings.Contains(raw(t, from, address, "GET / HTTP/1.0"), want) })
	}
}

// A client cannot vary its key by tabs, which nginx logs and applications do not get: one key is counted, and refused.
func TestNginxHasOneSpellingOfAKey(t *testing.T) {
	s := newSite(t)
	address := loopback + ":" + freePort(t)
	const format = `$remote_addr [$time_local] "$request" $status "$http_x_api_key"`
	log := nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+address+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app,
		"access_log /var/log/nginx/access.log weir;", "log_format key '"+format+"';\n    access_log /var/log/nginx/access.log key;",
		"proxy_set_header Referer $http_referer;", "proxy_set_header Referer $http_referer;\n            proxy_set_header X-Tenant $http_x_api_key;"))
	awaitEdge(t, "http://"+address)
	keys := []string{"k-1", "k-1\t", "\tk-1", "k-1 \t\t ", "\t k-1\t"}
	for _, key := range keys {
		if got := raw(t, goodClient, address, "GET /api HTTP/1.1\nX-Api-Key: "+key); !strings.Contains(got, " 200 ") {
			t.Fatalf("%q: %s", key, got)
		}
	}
	parser := must(request.NewParser(format, request.Options{}))
	wait.Until(t, "all lines have the key", func() bool {
		count := 0
		for line := range strings.Lines(read(log)()) {
			var r request.Request
			if parser.Parse(strings.TrimSpace(line), &r) == nil {
				if key, _ := r.Field("http_x_api_key"); key == "k-1" {
					count++
				}
			}
		}
		return count == len(keys)
	})
	s.order(blocklist.OrderBlock, "tenant:k-1")
	for _, key := range keys {
		wait.Until(t, "a check refuses "+key, func() bool {
			return strings.Contains(raw(t, goodClient, address, "GET /api HTTP/1.1\nX-Api-Key: "+key), " 429 ")
		})
	}
}

// tokenMap matches the map in docs/rules.md that cuts the token out of a credential.
var tokenMap = regexp.MustCompile("`(map \\$http_authorization .*})`")

// A client cannot vary a token, nor hide it, by the case and the spaces that applications take.
func TestNginxCutsOutOneToken(t *testing.T) {
	s := newSite(t)
	text, err := os.ReadFile("../../docs/rules.md")
	line := tokenMap.FindSubmatch(text)
	if err != nil || line == nil {
		t.Fatal("docs/rules.md has no map for tokens", err)
	}
	address := loopback + ":" + freePort(t)
	log := nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+address+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app,
		"access_log /var/log/nginx/access.log weir;", string(line[1])+"\n    log_format token '<$token>';\n    access_log /var/log/nginx/access.log token;"))
	awaitEdge(t, "http://"+address)
	spellings := []string{"Bearer abc", "bearer abc", "BEARER   abc", "Bearer\tabc", "Bearer \tabc", "\tBearer abc", "Bearer abc\t", "Bearer abc ", "Bearer abc x",
		"Bearer\xa0abc", "Bearer \xa0abc", "Bearer abc\xa0", "Bearer abc\x85\xa0x"}
	for _, value := range spellings {
		if got := raw(t, goodClient, address, "GET /api HTTP/1.1\nAuthorization: "+value); !strings.Contains(got, " 200 ") {
			t.Errorf("%q: %s", value, got)
		}
	}
	wait.Until(t, "all lines have the token", func() bool { return strings.Count(read(log)(), "<abc>\n") == len(spellings) })
}

// nginx lets a request in when one of its checks does, if a location has satisfy any, and Weir's lets in all that it does
// not refuse. So the file shows how to let addresses in without a password instead.
func TestNginxStillAsksForPasswords(t *testing.T) {
	const trusted = "127.0.0.69"
	s := newSite(t)
	address := loopback + ":" + freePort(t)
	passwords := write(t, filepath.Join(t.TempDir(), "users"), "alice:{PLAIN}secret\n")
	text := snippet(t, "nginx.conf", "listen 80;", "listen "+address+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app,
		"# geo $weir_realm {", "geo $weir_realm {", "192.0.2.0/24 off;", trusted+" off;",
		"# auth_basic $weir_realm;", "auth_basic $weir_realm;", "# auth_basic_user_file /etc/nginx/users;", "auth_basic_user_file "+passwords+";")
	nginx(t, text)
	wait.Until(t, "nginx answers", func() bool { return asks(t, address, "GET /", "alice", "secret") == http.StatusOK })
	for from, want := range map[string]string{goodClient: " 401 ", trusted: " 200 "} {
		if got := raw(t, from, address, "GET / HTTP/1.1"); !strings.Contains(got, want) {
			t.Errorf("%s: %s", from, got)
		}
	}
	s.order(blocklist.OrderBlock, trusted)
	wait.Until(t, "the address is refused", func() bool { return strings.Contains(raw(t, trusted, address, "GET / HTTP/1.1"), " 429 ") })
}

// A check stays one whatever the server around it sets: a cache for all answers, a limit for bodies, subrequests in the log,
// and rewrite lines, which nginx also runs for subrequests.
func TestNginxAsksInAnyServer(t *testing.T) {
	for _, file := range []string{"../edge/nginx.conf", "../debian/nginx/snippets/weir.conf"} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			folder, port := t.TempDir(), freePort(t)
			around := "proxy_cache_path " + filepath.Join(folder, "cache") + " keys_zone=all:1m;\n" +
				"proxy_cache all;\nproxy_cache_valid any 1m;\nproxy_ignore_headers Cache-Control;\nlog_subrequest on;\n"
			rewrites := "if (!-e $request_filename) {\nrewrite ^ /index.php?from=$uri last;\n}\n"
			app := "client_max_body_size 9m;\nproxy_cache off;\nproxy_pass http://127.0.0.1:8080;"
			text := snippet(t, "nginx.conf", "    upstream weir {", around+"    upstream weir {", "        location / {", rewrites+"        location / {", "proxy_pass http://127.0.0.1:8080;", app)
			if strings.Contains(file, "debian") {
				include := snippet(t, file)
				text, _, _ = strings.Cut(text, "    server {")
				text += "server {\nlisten 80;\n" + include + rewrites + "location / {\n" + app + "\n}\n}\n}\n"
			}
			text = replaced(t, text, "listen 80;", "listen "+loopback+":"+port+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app)
			log := nginx(t, text)
			url := "http://" + loopback + ":" + port
			awaitEdge(t, url)
			s.order(blocklist.OrderBlock, blockedClient)

			large := strings.Repeat("x", 3<<20)
			for range 2 {
				wants(t, "a blocked client", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url+"/a") })
				wants(t, "another client", http.StatusOK, func() answer { return ask(t, goodClient, url+"/b") })
				wants(t, "an upload", http.StatusOK, func() answer { return send(t, goodClient, http.MethodPost, url+"/c", large) })
			}
			wants(t, "an upload of a blocked client", http.StatusTooManyRequests, func() answer { return send(t, blockedClient, http.MethodPost, url+"/c", large) })
			if got := ask(t, goodClient, url+"/once"); got.status != http.StatusOK {
				t.Errorf("%+v", got)
			}
			wants(t, "the last request", http.StatusOK, func() answer { return ask(t, goodClient, url+"/last") })
			wait.Until(t, "the log is written", func() bool { return strings.Contains(read(log)(), " /last ") })
			if lines := strings.Count(read(log)(), " /once "); lines != 1 {
				t.Errorf("%d lines for a request", lines)
			}
		})
	}
}

// A location that asks an auth service is the second location, as for passwords: nginx takes one auth_request in each.
func TestNginxAsksNextToAnAuthService(t *testing.T) {
	s := newSite(t)
	port := freePort(t)
	location := func(path, name, service string) string {
		return "location " + path + " {\nauth_request /_weir;\nauth_request_set $weir $upstream_http_x_weir;\nauth_request_set $weir_retry $upstream_http_retry_after;\n" +
			"error_page 403 = @weir_refused;\ntry_files /.none @" + name + ";\n}\n" +
			"location @" + name + " {\nauth_request /" + name + ";\nproxy_pass http://" + s.app + ";\n}\n" +
			"location = /" + name + " {\ninternal;\nproxy_pass http://" + s.app + service + ";\n}\n"
	}
	nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+loopback+":"+port+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app,
		"        location / {", location("/in", "admits", "/")+location("/out", "refuses", "/forbidden")+"        location / {"))
	url := "http://" + loopback + ":" + port
	awaitEdge(t, url)
	s.order(blocklist.OrderBlock, blockedClient)
	wants(t, "who is blocked", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url+"/in") })
	for path, want := range map[string]int{"/in": http.StatusOK, "/out": http.StatusForbidden} {
		if got := ask(t, goodClient, url+path); got.status != want {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if got := ask(t, blockedClient, url+"/out"); got.status != http.StatusTooManyRequests {
		t.Errorf("who is blocked asks the auth service: %+v", got)
	}
}

// With the line that the file has as a comment, no request passes without an enforcer.
func TestNginxClosed(t *testing.T) {
	s := newSite(t)
	port := freePort(t)
	nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+loopback+":"+port+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app, "# return 403;", "return 403;"))
	url := "http://" + loopback + ":" + port
	awaitEdge(t, url)
	s.stop()
	if refused := ask(t, goodClient, url); refused.status != http.StatusForbidden {
		t.Errorf("without an enforcer: %+v", refused)
	}
}

// When nginx has no connection left for a check, it answers 500 to itself. No request passes then: a client can hold all
// connections, and nginx needs none to serve a file.
func TestNginxWithoutAConnectionForACheck(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	address, root := loopback+":"+freePort(t), t.TempDir()
	write(t, filepath.Join(root, "file"), "a file")
	nginx(t, snippet(t, "nginx.conf", "listen 80;", "listen "+address+";", "events {}", "events { worker_connections 32; }",
		"127.0.0.1:7421", s.address, "proxy_pass http://127.0.0.1:8080;", "root "+root+";"))
	url := "http://" + address + "/file"
	wants(t, "who is not blocked", http.StatusOK, func() answer { return ask(t, goodClient, url) })
	s.order(blocklist.OrderBlock, blockedClient)
	wants(t, "who is blocked", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url) })
	wait.Until(t, "nginx has no connection for a check", func() bool {
		var held []net.Conn
		for range 40 {
			held = append(held, begin(t, blockedClient, address, "GET /file HTTP/1.1\r\nHost: h\r\n"))
		}
		defer func() {
			for _, c := range held {
				c.Close()
			}
		}()
		_, _ = io.WriteString(held[10], "\r\n")
		line, _ := bufio.NewReader(held[10]).ReadString('\n')
		if strings.Contains(line, " 200 ") {
			t.Fatalf("a blocked client passes: %s", line)
		}
		return strings.Contains(line, " 500 ")
	})
}

package edges

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/pkg/blocklist"
	"weir/pkg/request"
	"weir/test/wait"
)

// Apache looks clients up in the list that the scripts fetch and make, before it asks for a password.
func TestApache(t *testing.T) {
	program(t, "curl", "curl")
	path := program(t, "apache2", "apache2-bin")
	s := newSite(t)
	folder, address := t.TempDir(), loopback+":"+freePort(t)
	in := func(name string) string { return filepath.Join(folder, name) }
	write(t, in("users"), "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
	write(t, in("index.html"), "the page")
	modules, loads := filepath.Join(filepath.Dir(filepath.Dir(path)), "lib/apache2/modules"), ""
	for _, name := range []string{"authn_core", "authn_file", "authz_user", "auth_basic", "setenvif", "rewrite", "headers", "dir", "http2", "lua"} {
		loads += "LoadModule " + name + "_module " + modules + "/mod_" + name + ".so\n"
	}
	before, host, _ := strings.Cut(snippet(t, "apache.conf", "/etc/apache2", folder, "/var/log/apache2", folder, "# RemoteIP", "RemoteIP",
		"192.0.2.10", balancerAddress), "\n# In each <VirtualHost>")
	_, host, _ = strings.Cut(strings.ReplaceAll(host, "\n#     ", "\n    "), "\n")
	config := write(t, in("apache.conf"), fmt.Sprintf(`
ServerName h
ServerRoot %[1]s
PidFile %[1]s/pid
ErrorLog %[1]s/error.log
Listen %[2]s
%[3]s%[4]s
Protocols h2c http/1.1
%[5]s
<VirtualHost *>
    DocumentRoot %[1]s
    DirectoryIndex index.html
%[6]s
    ErrorDocument 404 /index.html
    <Location /private>
        AuthType Basic
        AuthName private
        AuthUserFile %[1]s/users
        Require valid-user
    </Location>
    <Location /claims>
        SetHandler lua-script
    </Location>
</VirtualHost>
`, folder, address, apacheModules(path), loads, before, host))
	run(t, path, "-D", "FOREGROUND", "-f", config) // without a list
	url := "http://" + address
	awaitEdge(t, url)

	script := snippet(t, "apache-list.sh", "/etc/apache2", folder, "apachectl", path+" -f "+config)
	fetch := func() {
		t.Helper()
		if err := s.fetch("haproxy", in("weir.map"), "sh", write(t, in("apache-list.sh"), script)); err != nil {
			t.Fatal(err)
		}
	}
	s.order(blocklist.OrderBlock, "127.0.0.64/29")
	s.order(blocklist.OrderBlock, "2001:db8:bad:1::7/64")
	s.order(blocklist.OrderBlock, "user:alice")
	fetch()
	wait.Until(t, "Apache has the list", func() bool { return ask(t, blockedClient, url).status == http.StatusTooManyRequests })
	for _, wanted := range []struct {
		from, path string
		status     int
		headers    []string
	}{
		{goodClient, "/", 200, nil},
		{goodClient, "/", 200, []string{"X-Forwarded-For", blockedClient, "weir", "refused"}},
		{goodClient, "/private/x", 401, []string{"Authorization", "Basic YWxpY2U6d3Jvbmc="}},
		{blockedClient, "/private/x", 429, []string{"Authorization", "Basic YWxpY2U6d3Jvbmc="}},
		{blockedClient, "/missing", 429, []string{"X-Forwarded-For", goodClient}},
		{blockedClient, "/%2e/index.html", 429, nil},
		{balancerAddress, "/", 200, []string{"X-Forwarded-For", blockedClient + ", " + goodClient}},
		{balancerAddress, "/", 429, []string{"X-Forwarded-For", goodClient + ", " + blockedClient}},
		{balancerAddress, "/", 429, []string{"X-Forwarded-For", "::ffff:" + blockedClient}},
		{balancerAddress, "/", 429, []string{"X-Forwarded-For", "2001:db8:bad:1::1234"}},
		{balancerAddress, "/", 200, []string{"X-Forwarded-For", "2001:db8:bad:2::1234"}},
	} {
		got := ask(t, wanted.from, url+wanted.path, wanted.headers...)
		if got.status != wanted.status || got.header.Get("Retry-After") != map[bool]string{true: "60"}[wanted.status == 429] {
			t.Errorf("%s %s %q: %+v", wanted.from, wanted.path, wanted.headers, got)
		}
	}
	for _, version := range []string{"--http2", "--http2-prior-knowledge"} {
		out, err := exec.Command("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", version, "--interface", blockedClient, url).CombinedOutput()
		if string(out) != "429" {
			t.Errorf("%s: %s, %v", version, out, err)
		}
	}
	log := func() string {
		text, _ := os.ReadFile(in("access.log"))
		return string(text)
	}
	wait.Until(t, "the log is written", func() bool { return strings.Contains(log(), "HTTP/2.0") })
	marksRefusals(t, log())
	logsCheckedUsers(t, url, folder, log)

	s.lift("127.0.0.64/29")
	fetch()
	wait.Until(t, "Apache has the new list", func() bool { return ask(t, blockedClient, url).status == http.StatusOK })
}

// logsCheckedUsers checks that a page which makes any claimed user Apache's own, as mod_php does, names no user in the log,
// and that a page with a password does.
func logsCheckedUsers(t *testing.T, url, folder string, log func() string) {
	t.Helper()
	write(t, filepath.Join(folder, "claims"), `function handle(r) r.user = "alice"; r:puts("hello"); return apache2.OK end`)
	if err := os.Mkdir(filepath.Join(folder, "private"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "private", "page"), "hello")
	wrong, right := "Basic YWxpY2U6d3Jvbmc=", "Basic YWxpY2U6c2VjcmV0"
	for _, asked := range []struct {
		path, credentials string
		status            int
	}{{"/claims", wrong, 200}, {"/private/page", wrong, 401}, {"/private/page", right, 200}, {"/index.html?last", wrong, 200}} {
		if got := ask(t, goodClient, url+asked.path, "Authorization", asked.credentials, "X-Weir-User", "alice"); got.status != asked.status {
			t.Fatalf("%v: %+v", asked, got)
		}
	}
	wait.Until(t, "the log is written", func() bool { return strings.Contains(log(), "?last") })
	parser, err := request.NewParser("weir", request.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var users []string
	for line := range strings.Lines(log()) {
		var r request.Request
		if parser.Parse(strings.TrimSuffix(line, "\n"), &r) == nil && r.User != "" && r.Status == http.StatusOK {
			users = append(users, r.User+" "+r.Path)
		}
	}
	if len(users) != 1 || users[0] != "alice /private/page" {
		t.Errorf("the log has the users %q:\n%s", users, log())
	}
}

// Apache serves a request line with a query alone as the root, and it counts as that.
func TestApacheServesAQueryAsTheRoot(t *testing.T) {
	s := newSite(t)
	modules := filepath.Join(filepath.Dir(filepath.Dir(program(t, "apache2", "apache2-bin"))), "lib/apache2/modules")
	address, log := s.apache(`%a %l %u %t "%r" %>s %b`, "LoadModule dir_module "+modules+"/mod_dir.so", "DirectoryIndex ready")
	wait.Until(t, "Apache answers", func() bool { return ask(t, goodClient, "http://"+address+"/ready").status == http.StatusOK })
	if status := raw(t, goodClient, address, "GET ?alone HTTP/1.1"); !strings.HasPrefix(status, "HTTP/1.1 200") {
		t.Errorf("it answers %s", status)
	}
	parser, err := request.NewParser("common", request.Options{})
	if err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the log has the request of /", func() bool {
		for line := range strings.Lines(log()) {
			var r request.Request
			if parser.Parse(strings.TrimSuffix(line, "\n"), &r) == nil && r.Query == "alone" && r.Path == "/" {
				return true
			}
		}
		return false
	})
}

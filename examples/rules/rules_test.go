package rules_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"weir/examples/rules"
	"weir/pkg/backtest"
	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// Each set is in the program, gives no warning, and passes its tests, which have each of its rules block a key.
func TestSets(t *testing.T) {
	found, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range found {
		if name, ok := strings.CutSuffix(entry.Name(), ".yaml"); ok && !strings.HasSuffix(name, "_test") {
			names = append(names, name)
		}
	}
	if got := rules.Names(); len(names) == 0 || !slices.Equal(got, names) {
		t.Fatalf("the program has %v, the folder %v", got, names)
	}

	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			set, warnings, err := rule.Parse(name+".yaml", rules.Text(name))
			if err != nil || len(warnings) > 0 {
				t.Fatal(err, warnings)
			}
			result, err := backtest.RunTests(t.Context(), name+"_test.yaml")
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range result.Cases {
				for _, failure := range one.Failures {
					t.Errorf("%s: %+v", one.Name, failure)
				}
			}
			text, err := os.ReadFile(name + "_test.yaml")
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range set.Rules {
				if !strings.Contains(string(text), "- {rule: "+r.Name+", key:") {
					t.Errorf("no test has %s block a key", r.Name)
				}
			}
		})
	}
}

// Go's mux decodes each segment of a path by itself, so what it serves below a folder may be elsewhere in one spelling. It also
// keeps what follows a #, which ends the path for rules. Rules count what it serves all the same.
func TestSetsCountWhatGoServes(t *testing.T) {
	mux := http.NewServeMux()
	for _, folder := range []string{"/api/", "/downloads/", "/login/", "/_next/data/", "/wp-login.php/"} {
		mux.HandleFunc(folder+"{rest...}", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, folder) })
	}
	mux.HandleFunc("/shop/{language}/login", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "/login") })
	app := httptest.NewServer(mux)
	t.Cleanup(app.Close)
	cleaning := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, path.Clean(r.URL.Path)) }))
	t.Cleanup(cleaning.Close)
	for _, test := range []struct {
		app               *httptest.Server
		set, served, path string
		status            int
	}{
		{app, "api-quota", "/api/", "/%61pi/items/1%2F..%2F..%2F..%2Fx", 200},
		{app, "api-quota", "/api/", "/%61pi/items%2f%2e.%2F..", 404},
		{app, "downloads", "/downloads/", "/%64ownloads/a%2F..%2F..", 200},
		{app, "sign-in", "/login/", "/login/a%2F..%2F..", 401},
		{app, "sign-in", "/login/", "/%6Cogin/a%2F..%2F..%2Fx", 401},
		{app, "sign-in", "/login", "/shop/x#/login", 401},
		{app, "sprays", "/login/", "/log%69n/%2F..%2F..", 401},
		{app, "sprays", "/login", "/shop/#/login", 401},
		{app, "scrapers", "/_next/data/", "/%5Fnext/data/a%2F..%2F..%2F..%2Fstatic%2Fx", 200},
		{app, "wordpress", "/wp-login.php/", "/wp-login%2Ephp/a%2F..%2F..", 200},
		{cleaning, "scrapers", "/product", "/static/#/../../product", 200},
		{cleaning, "crowdsec", "/product", "/static/#/../../product", 200},
		{cleaning, "api-quota", "/api/items", "/#/../api/items", 200},
	} {
		if served, err := post(test.app.Listener.Addr().String(), test.path); err != nil || served != test.served {
			t.Errorf("%s is served as %q: %v", test.path, served, err)
		}
		countsInSet(t, test.set, test.path, test.status)
	}
}

// All sets can be used together.
func TestSetsTogether(t *testing.T) {
	var patterns []string
	for _, name := range rules.Names() {
		patterns = append(patterns, name+".yaml")
	}
	if _, warnings, err := rule.Load(patterns...); err != nil || len(warnings) > 0 {
		t.Error(err, warnings)
	}
	if rules.Text("nonsense") != nil || rules.Text("../sample") != nil {
		t.Error("there is a set of another name")
	}
}

// Applications of Node that read the path as its documentation did: it takes what follows two slashes for a host, and a
// backslash for a slash.
func TestSetsCountWhatNodeServes(t *testing.T) {
	node := real.Program(t, "node", "nodejs")
	address := port.Reserve(t, "127.0.0.1")
	_, number, _ := strings.Cut(address, ":")
	app := exec.Command(node, "-e", `require("http").createServer((request, answer) => answer.end(new URL(request.url, "http://x").pathname)).listen(`+number+`, "127.0.0.1")`)
	if err := app.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = app.Process.Kill()
		_ = app.Wait()
	})
	for _, test := range []struct {
		set, served, path string
		status            int
	}{
		{"api-quota", "/api/items", "//x/api/items", 200},
		{"api-quota", "/api/items", `/\x/api/items`, 200},
		{"api-quota", "/api/items", `/.\api\items`, 404},
		{"downloads", "/files/a", "//x/files/a", 200},
		{"downloads", "/files/a", `//x\files/a`, 200},
		{"sign-in", "/signin", "//x/signin", 401},
		{"sign-in", "/signin", `/.\signin`, 401},
		{"sprays", "/signin/", `//x\signin\`, 401},
		{"scrapers", "/product", `/static/..\product`, 200},
		{"crowdsec", "/product", `/static/..%5Cproduct\..\..\product`, 200},
	} {
		served := ""
		wait.Until(t, "Node answers", func() bool {
			var err error
			served, err = post(address, test.path)
			return err == nil
		})
		if served != test.served {
			t.Errorf("%s is served as %q", test.path, served)
		}
		countsInSet(t, test.set, test.path, test.status)
	}
}

// post sends a path as it is, and returns the body of the answer.
func post(address, path string) (string, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

// countsInSet expects that a request of a path counts in a set.
func countsInSet(t *testing.T, name, path string, status int) {
	t.Helper()
	set, _, err := rule.Parse(name+".yaml", rules.Text(name))
	if err != nil {
		t.Fatal(err)
	}
	r := request.Request{UnixMilli: 1, IP: netip.MustParseAddr("203.0.113.7"), Method: "POST", Path: path, Status: status}
	if hits := set.NewJudge().Hits(&r); len(hits) == 0 {
		t.Errorf("%s: %s does not count", name, path)
	}
}

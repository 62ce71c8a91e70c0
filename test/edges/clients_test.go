package edges

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/test/locked"
	"weir/test/real"
	"weir/test/wait"
)

// library is the folder in which a library of another language lies, below or above one of the folders of WEIR_EDGES.
func library(t *testing.T, folder, name string) string {
	t.Helper()
	for _, edges := range filepath.SplitList(os.Getenv("WEIR_EDGES")) {
		for _, above := range []string{edges, filepath.Dir(edges)} {
			path := filepath.Join(above, folder)
			if _, err := os.Stat(filepath.Join(path, name)); err == nil {
				return path
			}
		}
	}
	real.Missing(t, filepath.Join(folder, name)+" is missing beside the folders of WEIR_EDGES")
	return ""
}

// blockFor blocks a target for a duration.
func (s *site) blockFor(target string, lasts time.Duration) {
	s.t.Helper()
	scope, value, err := blocklist.ParseTarget(target)
	if err != nil {
		s.t.Fatal(err)
	}
	now := time.Now().UnixMilli()
	o := &blocklist.Order{ID: "for " + target, Kind: blocklist.OrderBlock, Scope: scope, Value: value, From: now, Until: now + lasts.Milliseconds(), By: "test", Why: "test"}
	if err := s.set.Order(o, now); err != nil {
		s.t.Fatal(err)
	}
}

const expressSite = `
const bouncer = require("@crowdsec/express-bouncer");
const http = require("http");
bouncer({ url: process.argv[2], apiKey: process.argv[3] }).then((middleware) => {
  http.createServer((request, response) => {
    response.status = (code) => { response.statusCode = code; };
    response.send = (body) => response.end(body);
    middleware(request, response, () => response.end("the application"));
  }).listen(Number(process.argv[5]), process.argv[4]);
});
`

// CrowdSec's bouncer for Express asks about each request, and reads the remaining duration of a decision also in its
// last minute.
func TestExpressBouncer(t *testing.T) {
	node, modules := program(t, "node", "nodejs"), library(t, "node_modules", "@crowdsec/express-bouncer")
	s := newSite(t)
	port, script := freePort(t), write(t, filepath.Join(t.TempDir(), "site.js"), expressSite)
	t.Setenv("NODE_PATH", modules)
	run(t, node, script, "http://"+s.address, key, loopback, port)
	url := "http://" + loopback + ":" + port
	awaitEdge(t, url)
	for _, lasts := range []time.Duration{50 * time.Second, time.Hour} {
		s.blockFor(blockedClient, lasts)
		status := func() int { return ask(t, blockedClient, url).status }
		wait.Until(t, "who is blocked for "+lasts.String()+" is refused", func() bool { return status() == http.StatusForbidden })
	}
	if passed := ask(t, goodClient, url); passed.status != http.StatusOK || passed.body != "the application" {
		t.Errorf("who is not blocked: %+v", passed)
	}
	s.stop()
	wait.Until(t, "without an enforcer all pass", func() bool { return ask(t, blockedClient, url).body == "the application" })
	if out, err := exec.Command(node, script, "http://"+s.address, key, loopback, freePort(t)).CombinedOutput(); err == nil || !strings.Contains(string(out), "HOST_NOT_REACHABLE") {
		t.Errorf("started without an enforcer: %v\n%s", err, out)
	}
}

const pythonClient = `
import sys, time
from pycrowdsec.client import StreamClient
client = StreamClient(api_key=sys.argv[2], lapi_url=sys.argv[1] + "/", interval=1, scopes=sys.argv[3].split(","))
client.run()
while True:
    print(sys.argv[3], sorted(client.get_current_decisions()), flush=True)
    time.sleep(0.2)
`

// Two of CrowdSec's clients for Python with one key at one address ask for other scopes, and each gets all changes; requests asks
// for compressed answers, and reads them.
func TestPythonClients(t *testing.T) {
	python, packages := program(t, "python3", "python3"), library(t, "python", "pycrowdsec")
	s := newSite(t)
	script := write(t, filepath.Join(t.TempDir(), "client.py"), pythonClient)
	t.Setenv("PYTHONPATH", packages)
	s.order(blocklist.OrderBlock, "203.0.113.7")
	s.order(blocklist.OrderBlock, "user:alice")
	said := map[string]*locked.Buffer{}
	for _, scopes := range []string{"ip,range", "username", "range,ip,username"} {
		said[scopes] = run(t, python, script, "http://"+s.address, key, scopes)
	}
	holds := func(what, scopes string, want ...string) {
		t.Helper()
		for i, one := range want {
			want[i] = "'" + one + "'"
		}
		slices.Sort(want)
		line := scopes + " [" + strings.Join(want, ", ") + "]"
		wait.Until(t, what+": "+line, func() bool { return strings.HasSuffix(strings.TrimSpace(said[scopes].String()), line) })
	}
	holds("at first", "ip,range", "203.0.113.7/32")
	holds("at first", "username", "alice")
	holds("at first", "range,ip,username", "203.0.113.7/32", "alice")
	for i := range 3 {
		s.order(blocklist.OrderBlock, "198.51.100."+strconv.Itoa(4*i)+"/30")
		s.order(blocklist.OrderBlock, "user:user"+strconv.Itoa(i))
		nets := []string{"203.0.113.7/32", "198.51.100.0/30", "198.51.100.4/30", "198.51.100.8/30"}[:i+2]
		users := []string{"alice", "user0", "user1", "user2"}[:i+2]
		holds("more", "ip,range", slices.Clone(nets)...)
		holds("more", "username", slices.Clone(users)...)
		holds("more", "range,ip,username", slices.Concat(nets, users)...)
	}
	s.stop()
	if out, err := exec.Command(python, script, "http://"+s.address, key, "ip").CombinedOutput(); err == nil {
		t.Errorf("started without an enforcer:\n%s", out)
	}
	holds("without an enforcer", "username", "alice", "user0", "user1", "user2")
}

// Two custom bouncers with one key at one address are each called for all new and all ended decisions.
func TestTwoCustomBouncersWithOneKey(t *testing.T) {
	t.Parallel()
	path := program(t, "crowdsec-custom-bouncer", "crowdsec-custom-bouncer")
	s := newSite(t)
	var called []string
	for range 2 {
		folder := t.TempDir()
		file := filepath.Join(folder, "called")
		called = append(called, file)
		script := write(t, filepath.Join(folder, "on-decision"), "#!/bin/sh\nprintf '%s\\n' \"$1 $2\" >>"+file+"\n")
		if err := os.Chmod(script, 0o755); err != nil {
			t.Fatal(err)
		}
		run(t, path, "-c", write(t, filepath.Join(folder, "bouncer.yaml"), s.bouncer("crowdsec-custom-bouncer.yaml", folder, "/usr/local/bin/on-decision", script,
			"cache_retention_duration: 10s", "cache_retention_duration: 1ms")))
	}
	both := func(what string) {
		t.Helper()
		for i, file := range called {
			wait.Until(t, strconv.Itoa(i)+" is called to "+what, func() bool {
				text, _ := os.ReadFile(file)
				return strings.Contains(string(text), what+"\n")
			})
		}
	}
	s.order(blocklist.OrderBlock, "203.0.113.100")
	both("add 203.0.113.100")
	for i := range 4 {
		target := "203.0.113." + strconv.Itoa(i)
		s.order(blocklist.OrderBlock, target)
		both("add " + target)
		s.lift(target)
		both("del " + target)
	}
}

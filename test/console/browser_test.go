// Package console tests the console in a real browser, with a real enforcer and a real nginx.
package console

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"weir/internal/keys"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer"
	pages "weir/pkg/enforcer/console"
	"weir/test/port"
	"weir/test/real"
	"weir/test/running"
	"weir/test/wait"
)

// A stand is an enforcer with its console, and a browser.
type stand struct {
	t        *testing.T
	enforcer *running.Enforcer
	url      string
	tab      context.Context
}

func newStand(t *testing.T, entries ...*blocklist.Entry) *stand {
	t.Helper()
	return newStandWith(t, func(string, *pages.Config) {}, entries...)
}

// newStandWith changes the configuration of the console, which is made when the enforcer has its address.
func newStandWith(t *testing.T, change func(address string, c *pages.Config), entries ...*blocklist.Entry) *stand {
	t.Helper()
	program := real.Program(t, "chromium", "chromium")
	file := filepath.Join(t.TempDir(), "keys.yaml")
	text := fmt.Sprintf("keys: [{name: ann, role: write, sha256: %x}, {name: rob, role: read, sha256: %x}]\n", sha256.Sum256([]byte("ann's")), sha256.Sum256([]byte("rob's")))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := keys.Open(file)
	if err != nil {
		t.Fatal(err)
	}

	set := running.List(1, entries...)
	e, err := running.StartEnforcerWith(running.Folder(t), known, set, func(e *running.Enforcer) {
		config := pages.Config{
			Set: set, Rules: e.Rules, Refuses: e.Refuses, Refused: e.RefusedBy, API: withAnswers(e.Enforcer), As: enforcer.As, Keys: known, Ending: e.Ending(), Version: "test", Logger: slog.New(slog.DiscardHandler),
			Admit:  func(r *http.Request) (string, error) { return e.Admit(r, keys.Read) },
			Client: func(r *http.Request) netip.Addr { return e.Caller(r) },
		}
		made := sync.OnceValue(func() http.Handler {
			change(e.Address(), &config)
			mux := http.NewServeMux()
			pages.New(config).Handle(mux)
			return mux
		})
		e.Mount(func(mux *http.ServeMux) {
			mux.HandleFunc("/console/", func(w http.ResponseWriter, r *http.Request) { made().ServeHTTP(w, r) })
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	s := &stand{t: t, enforcer: e, url: "http://" + e.Address() + "/console/"}
	s.browse(program)
	return s
}

// withAnswers answers what an enforcer knows only with topics.
func withAnswers(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/whatif":
			fmt.Fprint(w, `{"rule":"per-ip","since":"2026-11-21T04:00:00Z","hits":3413,"keys":154,"first":"2026-11-21T04:00:02Z","last":"2026-11-21T09:59:58Z","partitions":16,"read":16,
				"now":{"limits":["10/min"],"blocked":3,"blocks":5,"refused":724},"other":{"limits":["20/min","500/hour"],"blocked":2,"blocks":2,"refused":610},"only_now":1,"only_other":0,
				"top":[{"key":"203.0.113.66","hits":420,"now":{"first":"2026-11-21T06:14:04Z","blocks":1,"refused":410},"other":{"first":"2026-11-21T06:14:09Z","blocks":1,"refused":400}},
				{"key":"2001:db8:bad:1::/64","hits":32,"now":{"first":"2026-11-21T06:15:04Z","blocks":1,"refused":12},"other":{"first":null,"blocks":0,"refused":0}}],
				"notes":["Counting began with empty windows at the first hit, so blocks that earlier hits would have caused are missing."]}`)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// browse starts the browser, with a profile of its own.
func (s *stand) browse(program string) {
	s.t.Helper()
	all, endAll := chromedp.NewExecAllocator(context.Background(), chromedp.Headless, chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.UserDataDir(s.t.TempDir()),
		chromedp.Flag("no-first-run", true), chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-background-networking", true))
	tab, endTab := chromedp.NewContext(all)
	s.tab = tab
	s.t.Cleanup(func() {
		endTab()
		endAll()
	})
	if err := chromedp.Do(tab, chromedp.Navigate("about:blank")); err != nil { // the browser lasts as long as the context of its first action
		s.t.Fatal(err)
	}
	s.size(1280, 800)
}

// A step is something that the browser does.
type step = chromedp.Action[chromedp.Void]

// do does steps in the browser, each within a minute.
func (s *stand) do(what string, steps ...step) {
	s.t.Helper()
	for _, one := range steps {
		run(s, what, one)
	}
}

func run[T any](s *stand, what string, action chromedp.Action[T]) T {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.tab, time.Minute)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		text, _ := chromedp.Run(s.tab, chromedp.Evaluate[string]("location + document.body.innerText"))
		s.t.Fatalf("%s: %v at %s", what, err, text)
	}
	return result
}

func (s *stand) open(page string) step { return chromedp.Navigate(s.url + page) }

// css and xpath are elements.
type css = chromedp.CSS

func click(selector css) step         { return chromedp.Click(selector) }
func clickPath(path string) step      { return chromedp.Click(chromedp.Search(path)) }
func keysInto(path, text string) step { return chromedp.SendKeys(chromedp.Search(path), text) }
func shows(selector css) step         { return chromedp.WaitVisible(selector) }
func (s *stand) size(width, height int64) {
	s.t.Helper()
	s.do("its size", chromedp.EmulateViewport(width, height))
}

// scheme sets the colour scheme of the browser.
func (s *stand) scheme(name string) {
	s.t.Helper()
	s.do("its scheme", func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return chromedp.Void{}, err
	})
}

// value evaluates an expression in the page.
func value[T any](s *stand, expression string) T {
	s.t.Helper()
	return run(s, expression, chromedp.Evaluate[T](expression))
}

// until waits until an expression is true in the page, also in one that is only being loaded.
func (s *stand) until(what, expression string) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(s.tab, time.Minute)
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		cancel()
		if err == nil && is {
			return
		}
		if time.Now().After(deadline) {
			text, _ := chromedp.Run(s.tab, chromedp.Evaluate[string]("location + document.body.innerText"))
			s.t.Fatalf("%s: not within a minute (%v) at %s", what, err, text)
		}
	}
}

func (s *stand) login(key string) {
	s.t.Helper()
	s.do("logging in", s.open("login"), chromedp.SendKeys(css("input[name=key]"), key+"\r"))
	s.until("the list", `document.querySelector("#list") !== null && document.readyState === "complete"`)
}

// screenshot keeps a picture of the page in a folder, if the environment names one.
func (s *stand) screenshot(name string) {
	s.t.Helper()
	folder := os.Getenv("WEIR_SCREENSHOTS")
	if folder == "" {
		return
	}
	png := run(s, "a picture", chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(folder, name+".png"), png, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

const rowOf = `[...document.querySelectorAll("#list tbody tr")].some((tr) => tr.textContent.includes(%q))`

// sample are entries as a list has them.
func sample() (all []*blocklist.Entry) {
	ip := func(key string, ago, lasts time.Duration, count int64, level int) *blocklist.Entry {
		e := running.BlockedNow("per-ip", key, map[string]string{"ip": key})
		e.From, e.Decided = e.From-ago.Milliseconds(), e.Decided-ago.Milliseconds()+40
		e.Until, e.Count, e.Level = e.From+lasts.Milliseconds(), count, level
		return e
	}
	shadow := running.BlockedNow("sign-in", "alice /login", map[string]string{"user": "alice", "path": "/login"})
	shadow.Mode, shadow.Limit, shadow.Count = blocklist.Shadow, "5/min", 6
	for i := range 9 {
		all = append(all, ip(fmt.Sprintf("198.51.100.%d", 20+7*i), time.Duration(7+13*i)*time.Minute, 4*time.Hour, int64(11+i*i), 1+i%3))
	}
	return append(all, ip("203.0.113.66", 90*time.Second, time.Hour, 31, 2), ip("203.0.113.99", 40*time.Second, 10*time.Minute, 14, 1), ip("2001:db8:bad:1::/64", 25*time.Second, 10*time.Minute, 212, 1), shadow)
}

// nginx starts a real nginx that asks the enforcer, and returns a function that sends a request of a client through it.
func (s *stand) nginx() (get func(client string) int) {
	s.t.Helper()
	program := real.Program(s.t, "nginx", "nginx")
	folder, address := s.t.TempDir(), port.Reserve(s.t, "127.0.0.1")
	configuration := fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/pid; error_log stderr warn; user root;
events {}
http {
  access_log off; client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
  server {
    listen %[2]s;
    location / { auth_request /_weir; return 204; }
    location = /ok { auth_request /_weir; try_files /none @ok; }
    location @ok { return 200; }
    location = /_weir { internal; proxy_pass http://%[3]s/v1/check/nginx; proxy_pass_request_body off; proxy_set_header Content-Length "";
      proxy_set_header X-Forwarded-For $http_x_client; proxy_set_header X-Original-Method $request_method; proxy_set_header X-Original-URI $request_uri; proxy_set_header Host $host; }
  }
}`, folder, address, s.enforcer.Address())
	file := filepath.Join(folder, "nginx.conf")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		s.t.Fatal(err)
	}
	command := exec.Command(program, "-e", "stderr", "-p", folder, "-c", file)
	command.Stderr = s.t.Output()
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	wait.Until(s.t, "nginx listens", func() bool {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			connection.Close()
		}
		return err == nil
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return func(who string) int {
		r, _ := http.NewRequest(http.MethodGet, "http://"+address+"/ok", http.NoBody)
		r.Header.Set("X-Client", who)
		answer, err := client.Do(r)
		if err != nil {
			s.t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
}

// axe returns what axe-core finds wrong with the page.
func (s *stand) axe() string {
	s.t.Helper()
	home, _ := os.UserCacheDir()
	script, err := os.ReadFile(filepath.Join(home, "weir", "edges", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		real.Missing(s.t, "axe-core: npm install --prefix ~/.cache/weir/edges axe-core")
	}
	s.do("axe", chromedp.Evaluate[chromedp.Void](string(script)+";0"))
	found := run(s, "axe", chromedp.Evaluate[[]string](`axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html + " " + n.failureSummary).join("; ")))`, chromedp.EvalAwaitPromise))
	return strings.Join(found, "\n")
}

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/internal/store/redis/redistest"
	"weir/test/port"
	"weir/test/wait"
)

const endsRules = `
rules:
  - {name: exports, key: path, match: path == "/export", limits: [10 at once], lease: 1h, ends: log, inline: true}
  - {name: private, key: path, match: 'path startsWith "/private/"', limits: [10 at once], lease: 1h, ends: log, inline: true}
`

// An exporter is a real nginx, with the file of deployments/edge, before an application whose exports take until they are
// given up.
type exporter struct {
	t       *testing.T
	address string
	http2   string // speaks HTTP/2 without TLS
	numbers int
	began   sync.Map // closed channels of exports that the application has begun, by their number
}

func newExporter(t *testing.T, f *fleet) *exporter {
	t.Helper()
	e := &exporter{t: t, address: port.Reserve(t, "127.0.0.1"), http2: port.Reserve(t, "127.0.0.1")}
	e.start(f, "", func(_ http.ResponseWriter, r *http.Request) {
		if began, ok := e.began.Load(r.Header.Get("X-Number")); ok {
			close(began.(chan struct{}))
		}
		<-r.Context().Done()
	})
	return e
}

// start runs nginx before an application, with further lines in the location that passes requests to it.
func (e *exporter) start(f *fleet, further string, application http.HandlerFunc) {
	t := e.t
	t.Helper()
	app := httptest.NewServer(application)
	t.Cleanup(app.Close)
	f.write("users", "alice:{PLAIN}secret\n")
	f.write("nginx.conf", "daemon off;\nuser root;\n"+strings.NewReplacer("worker_processes auto;", "worker_processes 1;", "http {", "http {\n"+temporaryPaths(f),
		"        # The check.", strings.NewReplacer("/etc/nginx/users", f.path("users"), "http://127.0.0.1:8080", app.URL).Replace(behindAPassword(t))+"        # The check.",
		"listen 80;", "listen "+e.address+"; listen "+e.http2+" http2;", "127.0.0.1:7421", f.enforcer,
		"proxy_pass http://127.0.0.1:8080;", further+"proxy_pass "+app.URL+";", "127.0.0.1:8080", app.Listener.Addr().String(),
		"/var/log/nginx/access.log", f.path("access.log"), "/var/log/nginx/error.log", "stderr", "/run/nginx.pid", f.path("nginx.pid"),
	).Replace(deployed(t, "edge/nginx.conf")))
	startNginx(t, f, e.address)
}

// behindAPassword has the lines of docs/edges.md, Users, for nginx.
func behindAPassword(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/edges.md")
	if err != nil {
		t.Fatal(err)
	}
	_, lines, found := strings.Cut(string(page), "\n# nginx: into server, for pages behind a password\n")
	if !found {
		t.Fatal("docs/edges.md has no lines for pages behind a password")
	}
	lines, _, _ = strings.Cut(lines, "```")
	return lines
}

// begin begins an export, and returns what gives it up, or the status of the refusal.
func (e *exporter) begin() (giveUp context.CancelFunc, refused int) {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.t.Context())
	status, began := make(chan int, 1), make(chan struct{})
	e.numbers++
	number := strconv.Itoa(e.numbers)
	e.began.Store(number, began)
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.address+"/export", http.NoBody)
		if err != nil {
			status <- -1
			return
		}
		r.Header.Set("X-Number", number)
		transport := &http.Transport{DisableKeepAlives: true}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			status <- -1
			return
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		status <- answer.StatusCode
	}()
	select {
	case <-began:
		return cancel, 0
	case refused = <-status:
		cancel()
		return nil, refused
	case <-time.After(patience):
		e.t.Fatal("no answer")
		panic("not reached")
	}
}

// fill begins ten exports, each as soon as there is a place for it, and checks that there is none for another one.
func (e *exporter) fill() (giveUp []context.CancelFunc) {
	e.t.Helper()
	wait.Until(e.t, "ten have a place", func() bool {
		if one, _ := e.begin(); one != nil {
			giveUp = append(giveUp, one)
		}
		return len(giveUp) == 10
	})
	if one, status := e.begin(); one != nil || status != http.StatusTooManyRequests {
		e.t.Fatalf("the eleventh: %d", status)
	}
	return giveUp
}

func all(giveUp []context.CancelFunc) {
	for _, one := range giveUp {
		one()
	}
}

func (f *fleet) exports(t *testing.T) *exporter {
	t.Helper()
	f.start(build(t, "weir", "-race"), "run", "--set", fmt.Sprintf("collector.sources=[{file: [%q]}]", f.path("access.log")),
		"--set", "enforcer.fields={user: X-User}")
	f.ready()
	return newExporter(t, f)
}

// Clients that give up give their places back as soon as nginx has written their lines, whether it has asked the
// application, or only Weir.
func TestClientsThatGiveUpHoldNoPlaces(t *testing.T) {
	f := newFleet(t, endsRules, "inline: {request_id: X-Weir-Request}\n")
	e := f.exports(t)
	for range 3 {
		all(e.fill())
	}

	// Some of these are gone while nginx asks Weir.
	before := f.lines("/export ")
	for n := range 100 {
		connection, err := net.Dial("tcp", e.address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(connection, "GET /export HTTP/1.1\r\nHost: shop.example\r\nX-Weir: lease "+strings.Repeat("0", 32)+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(n) * 20 * time.Microsecond)
		connection.Close()
		wait.Until(t, "nginx has its line", func() bool { return f.lines("/export ") > before+n })
	}
	all(e.fill())
}

// With HTTP/2, nginx drops the answer to the check of a request that its client has cancelled.
func TestCancelledStreamsHoldNoPlaces(t *testing.T) {
	f := newFleet(t, endsRules, "inline: {request_id: X-Weir-Request}\n")
	e := f.exports(t)
	for range 3 {
		connection, err := net.Dial("tcp", e.http2)
		if err != nil {
			t.Fatal(err)
		}
		before := f.lines("/export ")
		var sent, head bytes.Buffer
		sent.WriteString(http2.ClientPreface)
		framer, fields := http2.NewFramer(&sent, nil), hpack.NewEncoder(&head)
		faults := framer.WriteSettings()
		for stream := uint32(1); stream <= 19; stream += 2 {
			head.Reset()
			for _, field := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "shop.example"}, {":path", "/export"}} {
				_ = fields.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
			}
			faults = errors.Join(faults,
				framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: head.Bytes(), EndStream: true, EndHeaders: true}),
				framer.WriteRSTStream(stream, http2.ErrCodeCancel))
		}
		if _, err := sent.WriteTo(connection); errors.Join(faults, err) != nil {
			t.Fatal(faults, err)
		}
		wait.Until(t, "nginx has their lines", func() bool { return f.lines("/export ") >= before+10 })
		connection.Close()
		all(e.fill())
	}
}

// An application that goes on without its client never has more to do at once than the limit, with the line for nginx in
// docs/edges.md.
func TestClientsThatGiveUpOnPurposeKeepTheirPlaces(t *testing.T) {
	f := newFleet(t, endsRules, "inline: {request_id: X-Weir-Request}\n")
	f.start(build(t, "weir"), "run", "--set", fmt.Sprintf("collector.sources=[{file: [%q]}]", f.path("access.log")))
	f.ready()
	var atOnce atomic.Int32
	done := make(chan struct{})
	e := &exporter{t: t, address: port.Reserve(t, "127.0.0.1"), http2: port.Reserve(t, "127.0.0.1")}
	e.start(f, "proxy_ignore_client_abort on; ", func(http.ResponseWriter, *http.Request) {
		atOnce.Add(1)
		defer atOnce.Add(-1)
		<-done
	})
	defer close(done)

	giveUp := func() (status int) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.address+"/export", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	wait.Until(t, "the application has ten", func() bool { giveUp(); return atOnce.Load() >= 10 })
	before := f.lines("refused exports")
	wait.Until(t, "twenty more are refused", func() bool { giveUp(); return f.lines("refused exports") >= before+20 || atOnce.Load() > 10 })
	if n := atOnce.Load(); n != 10 {
		t.Errorf("the application has %d at once, and the limit is 10", n)
	}
}

// nginx asks by the address before the password, and with the user after it. A user who is refused then, or let through by
// an allow, has the place of the first answer no longer than the request.
func TestBlockedAndAllowedUsersHoldNoPlaces(t *testing.T) {
	f := newFleet(t, endsRules, "inline: {request_id: X-Weir-Request}\n")
	e := f.exports(t)
	status := func(user string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+e.address+"/private/x", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			r.SetBasicAuth(user, "secret")
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // the application does not answer
			defer cancel()
			r = r.WithContext(ctx)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	for _, order := range []string{"block", "allow"} {
		f.tool(order, "user:alice", "--for", "1h", "--why", "a test")
		want := map[string]string{"block": "refused manual lease ", "allow": "allowed lease "}[order]
		for range 12 {
			status("alice")
		}
		wait.Until(t, "nginx has their lines", func() bool { return f.lines(want) >= 10 })
		wait.Until(t, "there is a place", func() bool { return status("") == http.StatusUnauthorized })
	}
}

// With a shared store, requests that end while Weir is away have their places back once it reads their lines.
func TestRequestsThatEndWhileWeirIsAway(t *testing.T) {
	redis := redistest.Start(t)
	f := newFleet(t, endsRules, "inline: {request_id: X-Weir-Request, budget: 2s, store: {redis: 'redis://"+redis.Addr+"'}}\n")
	e := f.exports(t)
	running := e.fill()
	f.processes[0].end(t, syscall.SIGKILL)
	f.processes = nil
	lines := f.lines("/export ")
	all(running)
	wait.Until(t, "nginx has their lines", func() bool { return f.lines("/export ") >= lines+10 })
	f.start(build(t, "weir", "-race"), "run", "--set", fmt.Sprintf("collector.sources=[{file: [%q]}]", f.path("access.log")))
	f.ready()
	all(e.fill())
}

// lines is how many lines of the log have a text.
func (f *fleet) lines(with string) int {
	f.t.Helper()
	text, err := os.ReadFile(f.path("access.log"))
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.Count(string(text), with)
}

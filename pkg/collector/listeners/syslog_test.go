package listeners

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/pkg/collector/pipeline"
	"weir/test/locked"
	"weir/test/wait"
)

// A syslogBench is a bench whose source receives syslog.
type syslogBench struct {
	*bench
	changed func(*syslogLimits)
}

func newSyslogBench(t testing.TB, listen string) *syslogBench {
	b := &syslogBench{bench: newBench(t), changed: func(*syslogLimits) {}}
	if listen == "unix" || listen == "unixstream" {
		listen += "://" + filepath.Join(t.TempDir(), "log")
	} else if !strings.Contains(listen, "://") {
		listen += "://127.0.0.1:0"
	}
	b.config.Sources = []sourceConfig{{IntakeConfig: pipeline.IntakeConfig{Name: "lines", Format: "combined"}, Syslog: &SyslogConfig{Listen: listen}}}
	return b
}

func (b *syslogBench) source() *syslogSource { return b.opened.sources[0].(*syslogSource) }

func (b *syslogBench) start() {
	b.T.Helper()
	var err error
	if b.opened, err = open(b.config); err != nil {
		b.T.Fatal(err)
	}
	limits := usualSyslogLimits
	b.changed(&limits)
	b.source().limit(limits)
	b.run()
	b.address()
}

// dial connects to the source.
func (b *syslogBench) dial() net.Conn {
	b.T.Helper()
	scheme, address, _ := strings.Cut(b.address(), "://")
	network := map[string]string{"udp": "udp", "tcp": "tcp", "tls": "tcp", "unix": "unixgram", "unixstream": "unix"}[scheme]
	conn, err := net.Dial(network, address)
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { conn.Close() })
	return conn
}

func (b *syslogBench) send(to io.Writer, text string) {
	b.T.Helper()
	if _, err := io.WriteString(to, text); err != nil {
		b.T.Fatal(err)
	}
}

func (b *syslogBench) uncounted(why string) float64 {
	return b.metric("uncounted_total", "source", "lines", "reason", why)
}

// headers are the texts that senders put before a line.
var headers = []string{
	"", "<190>Mar  3 08:00:00 web-1 nginx: ", "<190>Mar  3 08:00:00 nginx: ", "<13>1 2026-03-03T08:00:00.123456+00:00 web-1 nginx 12 - - ",
	"<13>1 2026-03-03T08:00:00Z web-1 nginx - ID47 [timeQuality tzKnown=\"1\" x=\"\\]\"] \ufeff", "<190>2026-03-03T08:00:00.1+01:00 web-1 nginx[7]: @cee:",
	"<190>", "<190>Mar  3 08:00:00 web-1 nginx ", "<190>2026-03-03T08:00:00.1+01:00 web-1 nginx[7] ",
}

// Every header, over every way to send.
func TestSyslogCounts(t *testing.T) {
	frames := map[string]func(message string) string{
		"":       func(m string) string { return m },
		"lines":  func(m string) string { return m + "\n" },
		"octets": func(m string) string { return fmt.Sprintf("%d %s", len(m), m) },
	}
	for scheme, framing := range map[string]string{"udp": " lines", "unix": " lines", "tcp": "lines octets", "tls": "lines octets", "unixstream": "lines octets"} {
		for _, name := range strings.Split(framing, " ") {
			t.Run(scheme+"/"+name, func(t *testing.T) {
				b := newSyslogBench(t, scheme)
				server, client, _ := testTLS(t)
				b.config.Sources[0].Syslog.TLS = server
				b.start()
				conn := b.dial()
				if scheme == "tls" {
					conn = tls.Client(conn, client)
				}
				for i := range 120 {
					header := headers[i%len(headers)]
					if name == "octets" && header == "" {
						header = headers[1]
					}
					b.send(conn, frames[name](header+strings.TrimSuffix(b.Line(), "\n")))
				}
				b.sink.Await(t, b.Want)
				if status := b.source().Status(); status.Error != "" || status.Logs[0].Position != 120 {
					t.Errorf("%+v", status)
				}
			})
		}
	}
}

func TestSyslogLinesThatEndWithTheConnection(t *testing.T) {
	b := newSyslogBench(t, "tcp")
	b.start()
	for range 3 {
		conn := b.dial()
		b.send(conn, b.Line()+"\n\r\n"+strings.TrimSuffix(b.Line(), "\n"))
		conn.Close()
	}
	b.sink.Await(t, b.Want)
}

func TestSyslogMessagesThatAreTooLong(t *testing.T) {
	t.Parallel() // records without a hit are counted after emptyCutAfter
	long := strings.Repeat("x", 3*maxMessageBytes)
	for scheme, texts := range map[string][]string{
		"tcp":        {"<1>" + long + "\n", "<1>x\n"},
		"unixstream": {fmt.Sprintf("%d <1>%s", len(long)+3, long), "4 <1>x"},
		"unix":       {long[:maxMessageBytes+1], "<1>x"},
	} {
		b := newSyslogBench(t, scheme)
		b.start()
		conn := b.dial()
		for _, text := range texts {
			b.send(conn, text)
		}
		wait.Until(t, scheme, func() bool { return b.uncounted("long") == 1 && b.uncounted("format") == 1 })
	}
}

// In a request that is too long, the client and the time come first.
func TestSyslogLongRequestsCount(t *testing.T) {
	t.Parallel()
	long := "<190>Mar  3 08:00:00 web-1 nginx: 203.0.113.7 - - [03/Mar/2026:08:00:00 +0000] \"GET /" + strings.Repeat("x", 3*maxMessageBytes)
	for scheme, text := range map[string]string{"tcp": long + "\n", "unixstream": fmt.Sprintf("%d %s", len(long), long), "unix": long[:maxMessageBytes+1]} {
		b := newSyslogBench(t, scheme)
		b.start()
		b.send(b.dial(), text)
		b.sink.Await(t, map[string]int64{"per-ip 203.0.113.7": 1})
		if n := b.uncounted("long"); n != 0 {
			t.Errorf("%s: %v are counted as long", scheme, n)
		}
	}
}

func TestSyslogThatIsNone(t *testing.T) {
	t.Parallel() // records without a hit are counted after emptyCutAfter
	b := newSyslogBench(t, "tcp")
	b.start()
	for _, text := range []string{"5 <1>ab hello", "99999999999 <1>", "300 <1>the end"} {
		conn := b.dial()
		b.send(conn, text)
		conn.(*net.TCPConn).CloseWrite()
		conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%q: %v", text, err)
		}
	}
	wait.Until(t, "what is none", func() bool {
		return b.uncounted("format") == 3 && strings.Contains(b.source().Status().Error, "the connection of 127.0.0.1")
	})
}

func TestSyslogAsksForTheSender(t *testing.T) {
	for _, scheme := range []string{"udp", "tcp"} {
		b := newSyslogBench(t, scheme)
		senders := NewSenders([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
		b.config.Sources[0].Syslog.From = senders
		b.start()
		b.send(b.dial(), "not counted\n")
		wait.Until(t, "the refusal", func() bool {
			return b.uncounted("sender") == 1 && strings.Contains(b.source().Status().Error, "127.0.0.1 may not send")
		})
		senders.Set([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
		b.send(b.dial(), b.Line())
		b.sink.Await(t, b.Want)
		if n := b.uncounted("format"); n != 0 {
			t.Errorf("%s: %v were read that were refused", scheme, n)
		}
	}
}

func TestSyslogAsksForACertificate(t *testing.T) {
	b := newSyslogBench(t, "tls")
	server, client, stranger := testTLS(t)
	b.config.Sources[0].Syslog.TLS = server
	b.changed = func(l *syslogLimits) { l.handshake = 2 * time.Second }
	b.start()
	for _, conn := range []net.Conn{tls.Client(b.dial(), stranger), b.dial(), b.dial()} { // a stranger, one who does not encrypt, one who says nothing
		conn.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(conn, b.sample())
		if _, err := io.ReadAll(conn); err == nil && fmt.Sprintf("%T", conn) == "*tls.Conn" {
			t.Error("a stranger was not refused")
		}
	}
	b.send(tls.Client(b.dial(), client), b.Line())
	b.sink.Await(t, b.Want)
}

// sample is a line that is not to be counted.
func (b *bench) sample() string {
	return "203.0.113.99 - - [03/Mar/2026:08:00:00 +0000] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"\n"
}

func TestSyslogBeyondLoopbackIsGuarded(t *testing.T) {
	asked, plain, anyone := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}, &tls.Config{}, NewSenders(nil)
	tests := []struct {
		listen string
		tls    *tls.Config
		from   *Senders
		ok     bool
	}{
		{"udp://0.0.0.0:0", nil, nil, false},
		{"udp://:0", nil, nil, false},
		{"udp://[::]:0", nil, nil, false},
		{"udp://0.0.0.0:0", asked, nil, false}, // UDP has no certificates
		{"tcp://0.0.0.0:0", asked, nil, false},
		{"tls://0.0.0.0:0", plain, nil, false},
		{"tls://127.0.0.1:0", nil, nil, false},
		{"udp://0.0.0.0:0", nil, anyone, true},
		{"tcp://0.0.0.0:0", nil, anyone, true},
		{"tls://0.0.0.0:0", plain, anyone, true},
		{"tls://0.0.0.0:0", asked, nil, true},
		{"tls://127.0.0.1:0", plain, nil, true},
		{"udp://127.0.0.1:0", nil, nil, true},
		{"tcp://[::1]:0", nil, nil, true},
		{"unix:///run/weir.sock", nil, nil, true},
		{"unixstream:///run/weir.sock", nil, nil, true},
		{"http://127.0.0.1:0", nil, nil, false},
		{"127.0.0.1:5514", nil, nil, false},
	}
	for _, test := range tests {
		b := newBench(t)
		b.config.Sources = []sourceConfig{{IntakeConfig: pipeline.IntakeConfig{Name: "lines", Format: "combined"}, Syslog: &SyslogConfig{Listen: test.listen, TLS: test.tls, From: test.from}}}
		_, err := open(b.config)
		if (err == nil) != test.ok {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// While Kafka takes nothing datagrams over UDP are dropped, and each that is not counted as a hit is counted as dropped.
func TestSyslogCountsDropsOfUDP(t *testing.T) {
	b := newSyslogBench(t, "udp")
	b.changed = func(l *syslogLimits) { l.inboxBytes = 4000 }
	b.start()
	b.sink.Set(func() { b.sink.Blocked = true })
	conn := b.dial()
	dropped := func() float64 {
		return testutil.ToFloat64(b.source().dropped) + testutil.ToFloat64(b.source().kernel)
	}
	for dropped() < 10 {
		b.send(conn, b.Line())
	}
	if fault := b.source().Status().Error; !strings.Contains(fault, "datagrams are dropped") {
		t.Error(fault)
	}
	b.sink.Set(func() { b.sink.Blocked = false })
	wait.Until(t, "what was not dropped", func() bool { return b.total()+int64(dropped()) == int64(b.Lines) })
	if b.total() < 10 {
		t.Errorf("only %d were counted", b.total())
	}
}

// Datagrams that the kernel drops are counted with the next one that it does not drop.
func TestSyslogCountsDropsOfTheKernel(t *testing.T) {
	b := newSyslogBench(t, "udp")
	var err error
	if b.opened, err = open(b.config); err != nil {
		t.Fatal(err)
	}
	s := b.source()
	ctx, cancel := context.WithCancel(t.Context())
	address, read, err := s.listen(ctx)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sent := 0
	for ; sent < 30000; sent++ { // the socket is not read
		b.send(conn, "x")
	}
	ended := make(chan error, 1)
	go func() { ended <- read(ctx) }()
	got := 0
	wait.Until(t, "all", func() bool {
		b.send(conn, "x")
		sent++
		taken := s.inbox.take()
		got += len(taken.ends)
		return testutil.ToFloat64(s.kernel) > 0 && got+int(testutil.ToFloat64(s.kernel)) >= sent-1
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	taken := s.inbox.take()
	if all := got + len(taken.ends) + int(testutil.ToFloat64(s.kernel)); all > sent {
		t.Errorf("%d sent, %d received or dropped", sent, all)
	}
	b.opened.sources = nil
}

// While Kafka takes nothing, nothing is read and nothing is lost.
func TestSyslogSendersWait(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"tcp", "unix", "unixstream"} {
		b := newSyslogBench(t, scheme)
		b.changed = func(l *syslogLimits) { l.inboxBytes = 4000 }
		b.start()
		b.sink.Set(func() { b.sink.Blocked = true })
		conn := b.dial()
		conn.(interface{ SetWriteBuffer(int) error }).SetWriteBuffer(8 << 10)
		for {
			line := b.Line()
			conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
			n, err := io.WriteString(conn, line)
			if err == nil {
				continue
			}
			b.sink.Set(func() { b.sink.Blocked = false })
			conn.SetWriteDeadline(time.Now().Add(time.Minute))
			b.send(conn, line[n:])
			break
		}
		b.sink.Await(t, b.Want)
	}
}

func TestSyslogConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	b := newSyslogBench(t, "tcp")
	b.changed = func(l *syslogLimits) { l.connections, l.idle = 2, 2*time.Second }
	b.start()
	for range 4 { // the first two are closed when they have been idle for long
		b.send(b.dial(), b.Line())
	}
	wait.Until(t, "the bound", func() bool { return strings.Contains(b.source().Status().Error, "2 connections are open") })
	b.sink.Await(t, b.Want)
}

// Silent connections keep no place: a new sender gets in, although they may stay open for an hour.
func TestSyslogSilentConnectionsGiveWay(t *testing.T) {
	for _, begins := range []string{"", "x"} {
		b := newSyslogBench(t, "tcp")
		b.changed = func(l *syslogLimits) { l.connections, l.quiet = 8, 10*time.Millisecond }
		b.start()
		for range 30 {
			b.send(b.dial(), begins)
		}
		b.send(b.dial(), b.Line())
		b.sink.Await(t, b.Want)
	}
}

// A socket that was left behind is replaced. One that is in use, or a file that is no socket, is not.
func TestSyslogUnixSockets(t *testing.T) {
	for scheme, network := range map[string]string{"unix": "unixgram", "unixstream": "unix"} {
		b := newSyslogBench(t, scheme)
		path := strings.TrimPrefix(b.config.Sources[0].Syslog.Listen, scheme+"://")
		var left io.Closer
		if network == "unix" {
			l, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			left = l
		} else {
			l, err := net.ListenUnixgram(network, &net.UnixAddr{Name: path, Net: network})
			if err != nil {
				t.Fatal(err)
			}
			left = l
		}
		b.refuses("in use by another process")
		left.Close()
		b.start()
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		b.send(b.dial(), b.Line())
		b.sink.Await(t, b.Want)
		b.stop()
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is left behind", path)
		}
		os.WriteFile(path, nil, 0o600)
		b.refuses("address already in use")
	}
}

// refuses expects the collector to end with an error.
func (b *bench) refuses(want string) {
	b.T.Helper()
	c, err := open(b.config)
	if err != nil {
		b.T.Fatal(err)
	}
	if err := c.run(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
		b.T.Errorf("%v, want %s", err, want)
	}
}

func TestSyslogFindsOutTheFormat(t *testing.T) {
	b := newSyslogBench(t, "tcp")
	b.config.Sources[0].Format, b.config.Sources[0].Envelope = "auto", "auto"
	b.start()
	b.send(b.dial(), headers[1]+b.Line()+headers[3]+b.Line())
	b.sink.Await(t, b.Want)
	if format := b.source().Status().Format; !strings.HasPrefix(format, "combined") {
		t.Error(format)
	}
}

// At the end Kafka has the lines that were read. Lines that it does not acknowledge in time are logged.
func TestSyslogEnds(t *testing.T) {
	t.Parallel() // it takes the complete drainPatience
	var said locked.Buffer
	b := newSyslogBench(t, "udp")
	b.config.Logger = slog.New(slog.NewTextHandler(&said, nil))
	b.start()
	b.sink.Set(func() { b.sink.Mute = true })
	b.send(b.dial(), b.Line())
	b.sink.Await(t, b.Want)
	b.cancel()
	b.sink.Unmute()
	b.stop()
	if strings.Contains(said.String(), "did not acknowledge") {
		t.Error(said.String())
	}
	before := b.sink
	b.start()
	b.sink.Set(func() { b.sink.Mute = true })
	b.send(b.dial(), b.Line())
	before.Await(t, b.Want)
	b.stop()
	if !strings.Contains(said.String(), "did not acknowledge") {
		t.Error(said.String())
	}
}

// A page in a browser posts lines to any program that listens on this machine. Its bytes begin with a request line,
// and none of them is counted.
func TestSyslogIsNotPostedTo(t *testing.T) {
	b := newSyslogBench(t, "tcp")
	b.start()
	for _, request := range []string{
		"POST / HTTP/1.1", "POST /v1/requests?x=y HTTP/1.1", "OPTIONS * HTTP/1.1", "GET http://127.0.0.1:5514/ HTTP/1.0", "PRI * HTTP/2.0",
		"x / HTTP/1.1", "203.0.113.7 / HTTP/1.1", "a|b~^63 /x HTTP/1.1", // a page may fetch from its own origin by any method
		"POST /" + strings.Repeat("x", maxMessageBytes+10) + " HTTP/1.1",
		"x /" + strings.Repeat("x", maxMessageBytes-10) + " HTTP/1.1", strings.Repeat("x", maxMessageBytes+10) + " / HTTP/1.1",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a ticket of the page's own choice:", // TLS
	} {
		conn := b.dial()
		framed := "203.0.113.66 - - [03/Mar/2026:08:00:00 +0000] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"\n"
		io.WriteString(conn, request+"\r\nHost: 127.0.0.1:5514\r\nContent-Type: text/plain\r\n\r\n"+framed)
		conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.30s: it is read on: %v", request, err)
		}
	}
	wait.Until(t, "why", func() bool { return strings.Contains(b.source().Status().Error, "speaks TLS") })
	conn := b.dial()
	b.send(conn, b.Line()+b.Line())
	b.sink.Await(t, b.Want)
	if got := b.metric("requests_total", "source", "lines"); got != 2 {
		t.Errorf("%v lines were read", got)
	}
}

func TestSpeaksHTTP(t *testing.T) {
	for line, want := range map[string]bool{
		"GET / HTTP/1.1":                         true,
		"GET / HTTP/1.1 203.0.113.7 200":         false,
		"GET / HTTP/1.1\" 200":                   false,
		"GET /a b HTTP/1.1":                      false,
		"203.0.113.7 - - \"GET / HTTP/1.1":       false,
		"<13>Nov 22 12:00:00 web GET / HTTP/1.1": false,
		"GET /x 203.0.113.7 - " + brief200:       false,
		"{\"request\":\"GET / HTTP/1.1\"}":       false,
		"x / HTTP/1.1":                           true,
		"203.0.113.7 / HTTP/1.1":                 true,
		"203.0.113.7 / HTTP/1.1 200":             false,
		"203.0.113.7 HTTP/1.1":                   false,
		"Nov 22 12:00:00 web: / HTTP/1.1":        false,
		"GET":                                    false, "": false, " / HTTP/1.1": false,
	} {
		if got := speaksHTTP([]byte(line), false); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
	for line, want := range map[string]bool{
		"POST /" + brief200: true, "x http://a/" + brief200: true, "x / HTTP/1": true, brief200: true,
		"<13>POST /" + brief200: false, "203.0.113.7 / [22/Nov": false, "203.0.113.7 - " + brief200: false, "{" + brief200: false,
	} {
		if got := speaksHTTP([]byte(line), true); got != want {
			t.Errorf("of a line that is cut, %q: %v", line, got)
		}
	}
}

var brief200 = strings.Repeat("x", 200)

// A sender that from no longer names is not read any more, on an existing connection either.
func TestSyslogSendersAreAskedAgain(t *testing.T) {
	b := newSyslogBench(t, "tcp")
	from := NewSenders([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	b.config.Sources[0].Syslog.From = from
	b.start()
	conn := b.dial()
	b.send(conn, b.Line())
	b.sink.Await(t, b.Want)
	from.Set([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	want := maps.Clone(b.Want)
	io.WriteString(conn, b.Line())
	b.Want = want
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it is read on: %v", err)
	}
	if b.uncounted("sender") != 1 {
		t.Error("the line is not counted as one of a sender that may not")
	}
	b.sink.Await(t, b.Want)
}

// The source warns of a unix socket in which few datagrams may wait: senders that do not wait lose lines without a
// trace.
func TestAShortQueueOfAUnixSocket(t *testing.T) {
	for setting, want := range map[string]bool{"10\n": true, "511\n": true, "512\n": false, "4096\n": false, "": false, "x": false} {
		b := newSyslogBench(t, "unix")
		heard := b.listen()
		file := filepath.Join(t.TempDir(), "max_dgram_qlen")
		if err := os.WriteFile(file, []byte(setting), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := open(b.config)
		if err != nil {
			t.Fatal(err)
		}
		c.sources[0].(*syslogSource).warnOfShortQueue(file)
		if heard.Has("few datagrams may wait") != want {
			t.Errorf("%q: warned %v", setting, !want)
		}
	}
}

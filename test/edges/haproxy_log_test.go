package edges

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/test/wait"
)

// lines are the lines of a log in HAProxy's other output.
func lines(said string) string {
	var log []string
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "127.") {
			log = append(log, line)
		}
	}
	return strings.Join(log, "")
}

// A long request is complete in the log of deployments/edge, and is counted even where HAProxy cuts lines at 1,024
// bytes.
func TestHAProxyLongRequest(t *testing.T) {
	s := newSite(t)
	folder := t.TempDir()
	addresses, users := write(t, filepath.Join(folder, "weir.map"), blockedClient+" manual\n"), write(t, filepath.Join(folder, "weir-users.map"), "")
	url, said, _ := s.haproxy(addresses, users)
	awaitEdge(t, url)
	wants(t, "who is blocked", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url) })
	if got := raw(t, goodClient, strings.TrimPrefix(url, "http://"), "GET /"+strings.Repeat("a", 8000)+" HTTP/1.1"); !strings.Contains(got, " 200 ") {
		t.Fatal(got)
	}
	wait.Until(t, "it and the refusal are in the log", func() bool {
		log := lines(said.String())
		return strings.Contains(log, "GET /aaaa") && strings.Contains(log, "refused manual")
	})
	log := lines(said.String())
	marksRefusals(t, log)
	parser := must(request.NewParser("weir", request.Options{}))
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "/aaaa") {
			continue
		}
		for _, text := range []string{strings.TrimSpace(line), line[:900]} {
			var r request.Request
			if err := parser.Parse(text, &r); err != nil || r.IP != netip.MustParseAddr(goodClient) || r.UnixMilli == 0 || !strings.HasPrefix(r.Path, "/aaaa") {
				t.Errorf("%s: %v", text, err)
			}
			if whole := len(text) > 900; whole && r.Status != http.StatusOK {
				t.Errorf("%s: the status is %d", text, r.Status)
			}
		}
	}
}

// HAProxy passes a quote in a path on and logs it as #22. A client must not hide the rest of a path behind it.
func TestHAProxyQuoteHidesNoPath(t *testing.T) {
	s := newSite(t)
	folder := t.TempDir()
	url, said, _ := s.haproxy(write(t, filepath.Join(folder, "weir.map"), ""), write(t, filepath.Join(folder, "weir-users.map"), ""))
	awaitEdge(t, url)
	if got := raw(t, goodClient, strings.TrimPrefix(url, "http://"), `POST /"/../signin HTTP/1.1`); !strings.Contains(got, " 200 ") {
		t.Fatal(got)
	}
	wait.Until(t, "it is in the log", func() bool { return strings.Contains(lines(said.String()), "POST /") })
	counts := hitsIn(t, "match: 'path == \"/signin\"', key: ip", "auto", lines(said.String()))
	if counts[goodClient] != 1 {
		t.Errorf("counted: %v, in\n%s", counts, said.String())
	}
}

// HAProxy makes a URL of a request over HTTP/2, and accepts any host in it. A client must not hide its path behind a host
// with a question mark, nor behind a host or the beginning of a path that is longer than HAProxy's default for URLs.
func TestHAProxyHostHidesNoPath(t *testing.T) {
	s := newSite(t)
	folder := t.TempDir()
	url, said, _ := s.haproxy(write(t, filepath.Join(folder, "weir.map"), ""), write(t, filepath.Join(folder, "weir-users.map"), ""))
	awaitEdge(t, url)
	address := strings.TrimPrefix(url, "http://")

	long := strings.Repeat("a", 1100)
	hosts := []string{"shop.example", "?", "b?x=", "b?x=/y?", "b?http://", "#", "u?@b", long}
	for n, host := range hosts {
		getHTTP2(t, goodClient, address, host, "/signin")
		// One at a time, so that no thread of HAProxy waits for another to write its line.
		wait.Until(t, "it is in the log", func() bool { return strings.Count(lines(said.String()), goodClient+" ") > n })
	}
	raw(t, goodClient, address, "GET */signin HTTP/1.1") // an application in Go answers 400
	if got := raw(t, goodClient, address, "GET /"+long+"/../signin HTTP/1.1"); !strings.Contains(got, " 200 ") {
		t.Fatal(got)
	}
	wait.Until(t, "the last is in the log", func() bool { return strings.Contains(lines(said.String()), "GET /"+long) })
	// Of b?x=/y? and b?http://, HAProxy serves the path from the first slash on.
	const match = `match: 'path == "/signin" or path == "/y" or raw_path == "///signin"', key: ip`
	if counts := hitsIn(t, match, "auto", lines(said.String())); counts[goodClient] != len(hosts)+2 {
		t.Errorf("counted: %v, in\n%s", counts, said.String())
	}
}

// getHTTP2 sends one GET over HTTP/2 without TLS, and waits for the end of its response.
func getHTTP2(t *testing.T, from, address, host, path string) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	c, err := dialer.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}

	// The first two bytes are :method GET and :scheme http; 4 and 1 stand for :path and :authority.
	headers := append([]byte{0x82, 0x86}, headerField(4, path)...)
	headers = append(headers, headerField(1, host)...)
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	const endOfStreamAndHeaders = 5
	frame := []byte{0, byte(len(headers) >> 8), byte(len(headers)), 1, endOfStreamAndHeaders, 0, 0, 0, 1}
	if _, err := c.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+settings+string(frame)), headers...)); err != nil {
		t.Fatal(err)
	}

	for head := make([]byte, 9); ; {
		if _, err := io.ReadFull(c, head); err != nil {
			t.Fatalf("host %.20q: %v", host, err)
		}
		if _, err := io.CopyN(io.Discard, c, int64(head[0])<<16|int64(head[1])<<8|int64(head[2])); err != nil {
			t.Fatal(err)
		}
		switch kind, ends, stream := head[3], head[4]&1 != 0, head[8]; {
		case stream == 1 && kind == 3:
			t.Fatalf("host %.20q is refused", host)
		case stream == 1 && kind <= 1 && ends:
			return
		}
	}
}

// headerField is a header with an indexed name, as HPACK writes it without compression.
func headerField(name byte, value string) []byte {
	field := []byte{name}
	if n := len(value); n < 127 {
		field = append(field, byte(n))
	} else {
		field = append(field, 127)
		field = binary.AppendUvarint(field, uint64(n-127))
	}
	return append(field, value...)
}

// HAProxy logs users percent-encoded, as it looks them up. Their rules, blocks and lists name them as they are.
func TestHAProxyEncodedUsers(t *testing.T) {
	const user = "b@shop.example 1"
	s := newSite(t)
	address := loopback + ":" + freePort(t)
	text := "global\n    log stdout format raw local0\ndefaults\n    mode http\n    timeout connect 5s\n    timeout client 30s\n    timeout server 30s\n" +
		replaced(t, documented(t, "HAProxy"), "bind :80", "bind "+address, "user alice", `user "`+user+`"`) + "backend app\n    server app " + s.app + "\n"
	said := run(t, program(t, "haproxy", "haproxy"), "-db", "-f", write(t, filepath.Join(t.TempDir(), "haproxy.cfg"), text))
	wait.Until(t, "its page is served", func() bool { return asks(t, address, "GET /private/x", user, "secret") == http.StatusOK })
	wait.Until(t, "it is in the log", func() bool { return strings.Contains(said.String(), "/private/x") })
	if counts := hitsIn(t, "match: 'status in 200..299', key: user", "auto", said.String()); counts[user] == 0 || len(counts) != 1 {
		t.Errorf("counted: %v, in\n%s", counts, said.String())
	}
}

// hitsIn is how often each key is counted in a log by a rule.
func hitsIn(t *testing.T, what, format, log string) map[string]int {
	t.Helper()
	set, _, err := rule.Parse("rules.yaml", []byte("users: checked\nrules:\n  - {name: r, "+what+", limits: [1/min]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	choice := must(request.Choose("none", format, strings.Split(strings.TrimSpace(log), "\n"), request.Options{}))
	decoder := must(request.NewDecoder(choice.Envelope, choice.Format, request.Options{}))
	judge, counted := set.NewJudge(), map[string]int{}
	for line := range strings.Lines(log) {
		decoder.DecodeEach(strings.TrimSpace(line), func(r *request.Request, err error) {
			if err == nil {
				for _, hit := range judge.Hits(r) {
					counted[string(hit.Key)]++
				}
			}
		})
	}
	return counted
}

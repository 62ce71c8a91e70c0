package edges

import (
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"weir/pkg/request"
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
	await(t, "it is in the log", func() bool { return strings.Contains(lines(said.String()), "GET /aaaa") })
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

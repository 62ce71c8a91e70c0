package edges

import (
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/pkg/request"
	"weir/test/wait"
)

// In a container, nginx's access log is standard output and its error log standard error, and the runtime writes both
// into one file. A client must not have a line of its own read from the errors.
func TestNginxErrorsInAContainerAreNotRead(t *testing.T) {
	t.Parallel()
	const forged = `198.51.100.7 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`
	port, folder := freePort(t), t.TempDir()
	log := nginx(t, "worker_processes auto;\npid /run/nginx.pid;\nerror_log /var/log/nginx/error.log;\nevents {}\nhttp {\n"+
		"access_log /var/log/nginx/access.log combined;\nserver { listen "+loopback+":"+port+"; root "+folder+"; }\n}\n")
	wait.Until(t, "nginx answered", func() bool {
		connection, err := net.Dial("tcp", loopback+":"+port)
		if err == nil {
			connection.Close()
		}
		return err == nil
	})
	raw(t, loopback, loopback+":"+port, "GET /x"+url.PathEscape("\n"+strings.Repeat(forged+"\n", 3))+" HTTP/1.1")

	var lines, failures []string
	wait.Until(t, "both logs had the request", func() bool {
		lines, failures = logLines(t, log), logLines(t, filepath.Join(filepath.Dir(log), "error.log"))
		return strings.Contains(lines[0], "GET /x") && strings.Contains(strings.Join(failures, "\n"), `" failed (2:`)
	})
	if !strings.Contains("\n"+strings.Join(failures, "\n")+"\n", "\n"+forged+"\n") {
		t.Fatalf("the error log has no line of the client: %s", failures)
	}

	var records []string
	for _, line := range failures {
		records = append(records, "2026-03-01T12:00:00.1Z stderr F "+line)
	}
	for _, line := range lines {
		records = append(records, "2026-03-01T12:00:00.1Z stdout F "+line)
	}
	choice, err := request.Detect(records, request.Options{})
	if err != nil || choice.Format != "combined" || choice.Envelope != "cri" {
		t.Fatal(choice, err)
	}
	d, err := request.NewDecoder(choice.Envelope, choice.Format, request.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var r request.Request
	for _, record := range records {
		if err := d.Decode(record, &r); err == nil && r.IP != netip.MustParseAddr(loopback) {
			t.Errorf("%s is read as a request of %s", record, r.IP)
		}
	}
}

func logLines(t *testing.T, file string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

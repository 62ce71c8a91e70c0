package daemon

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
)

// Without keys, a web page whose name resolves to 127.0.0.1 gets no answer; probes and scrapers do.
func TestAnAdminAddressAnswersToThisMachineAlone(t *testing.T) {
	p := newPlace(t, "hosts: [Metrics.Internal]\n")
	p.start()
	for _, test := range []struct {
		path, field, value string
		want               int
	}{
		{"/status", "Host", "127.0.0.1:7401", 200}, {"/metrics", "Host", "localhost:7401", 200}, {"/metrics", "Host", "metrics.internal", 200},
		{"/status", "Host", "rebind.example:7401", 403}, {"/metrics", "Host", "rebind.example", 403}, {"/debug/pprof/", "Host", "rebind.example", 403},
		{"/healthz", "Host", "10.1.2.3:7401", 200}, {"/readyz", "Host", "probe.example", 200},
		{"/status", "Sec-Fetch-Site", "cross-site", 403}, {"/metrics", "Origin", "http://evil.example", 403}, {"/nothing", "X-None", "", 404},
	} {
		request, _ := http.NewRequest(http.MethodGet, "http://"+p.address+test.path, nil)
		if request.Header.Set(test.field, test.value); test.field == "Host" {
			request.Host = test.value
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != test.want || response.Close != (test.want == 403 || test.want == 404) {
			t.Errorf("%+v: %d, and the connection is closed: %v", test, response.StatusCode, response.Close)
		}
	}
}

// Strangers that keep connections open with endless headers neither fill the memory nor keep other clients out.
func TestAnAdminAddressHasBounds(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "")
	p.start()
	half := "GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: " + strings.Repeat("a", 20<<10)
	for i := range adminBounds.Connections + 50 {
		conn, err := net.Dial("tcp", p.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i%4 == 0 {
			io.WriteString(conn, half)
		}
	}
	if code, why := p.get("/status"); code != 200 {
		t.Errorf("%d %s", code, why)
	}
	bound := regexp.MustCompile(`(\d+) connections are open`)
	p.await("loud", func() bool { return bound.MatchString(p.heard.String()) })
	// Where the process may have few files open, there are fewer connections.
	if n, err := strconv.Atoi(bound.FindStringSubmatch(p.heard.String())[1]); err != nil || n > adminBounds.Connections {
		t.Errorf("%d connections, want at most %d", n, adminBounds.Connections)
	}
	conn, err := net.Dial("tcp", p.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go io.WriteString(conn, half+strings.Repeat("a", 1<<20)) // the server ends it
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	answer := make([]byte, 12)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 431" {
		t.Errorf("%q, %v", answer, err)
	}
}

// Requests that announce a body and never send it are answered, and do not keep their connections.
func TestAnAdminAddressDoesNotWaitForBodies(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "")
	p.start()
	conn, err := net.Dial("tcp", p.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n")
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
		t.Errorf("%.100q, %v", answer, err)
	}
}

// With a certificate the address is encrypted, and a client with a certificate signed by our roots may read.
func TestAnAdminAddressWithCertificates(t *testing.T) {
	p := newPlace(t, "")
	files, err := kafkatest.NewCertificates(p.folder)
	if err != nil {
		t.Fatal(err)
	}
	p.set = []string{"collector.tls.cert=client.pem", "collector.tls.key=client.key", "collector.tls.clients=authority.pem"}
	own, err := tls.LoadX509KeyPair(files.Client, files.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{own}}} //nolint:gosec // the server's check of our certificate is tested
	defer transport.CloseIdleConnections()
	p.client, p.scheme = &http.Client{Transport: transport}, "https"
	p.start()
	if code, why := p.get("/status"); code != 200 {
		t.Errorf("%d %s", code, why)
	}
	if code, _ := p.get("/debug/pprof/"); code != http.StatusUnauthorized {
		t.Errorf("profiles with a certificate alone: %d", code)
	}
	bare := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	defer bare.CloseIdleConnections()
	if answer, err := (&http.Client{Transport: bare}).Get("https://" + p.address + "/status"); err == nil {
		answer.Body.Close()
		t.Error("without a certificate:", answer.Status)
	}
}

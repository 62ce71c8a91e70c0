package daemon

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"weir/internal/kafka/kafkatest"
	"weir/test/port"
	"weir/test/wait"
)

// The console is served at the enforcer's address unless it is off. People log in with their keys; a removed key ends
// the session while the process runs.
func TestTheConsoleIsServed(t *testing.T) {
	broker := newMortal(t)
	kafka := broker.yaml()
	if status, _ := visit(t, newEdge(t, kafka, "  console: off\n").start(), http.MethodGet, "/console/", ""); status != http.StatusNotFound {
		t.Errorf("a console that is off: %d", status)
	}

	e := newEdge(t, kafka, "").start()
	if status, header := visit(t, e, http.MethodGet, "/console/", ""); status != http.StatusSeeOther || !strings.HasPrefix(header.Get("Location"), "/console/login") {
		t.Errorf("without a log-in: %d %v", status, header)
	}
	status, header := visit(t, e, http.MethodPost, "/console/login", "", "key", "reader")
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	if status != http.StatusSeeOther || cookie == "" {
		t.Fatalf("the log-in: %d %v", status, header)
	}
	if status, _ := visit(t, e, http.MethodGet, "/console/", cookie); status != http.StatusOK {
		t.Errorf("after it: %d", status)
	}
	if status, _ := visit(t, e, http.MethodPost, "/console/login", "", "key", "reader", "Origin", "http://evil.example"); status != http.StatusForbidden {
		t.Errorf("a log-in of another page: %d", status)
	}

	e.write("keys.yaml", "keys: []\n")
	e.await("the end of the session", func() bool {
		status, _ := visit(t, e, http.MethodGet, "/console/", cookie)
		return status == http.StatusSeeOther
	})
}

// A provider that is away does not keep the enforcer from starting, nor people with keys out. Nothing asks it before a
// log-in, which leads to the host of the redirect.
func TestTheConsoleWithAProviderThatIsAway(t *testing.T) {
	t.Parallel()
	away := port.Reserve(t, "127.0.0.1")
	e := newEdge(t, newMortal(t).yaml(), "  console_oidc: {issuer: 'http://"+away+"', client_id: weir, redirect: 'http://127.0.0.1:7421/console/login/callback', write: operators}\n").start()
	if text := e.page("/console/login"); !strings.Contains(text, `href="http://127.0.0.1:7421/console/login/oidc?next=%2Fconsole%2F"`) {
		t.Error(text)
	}
	if status, header := visit(t, e, http.MethodGet, "/console/login/oidc", ""); status != http.StatusUnauthorized || header.Get("Set-Cookie") != "" {
		t.Errorf("the provider is away: %d %v", status, header)
	}
	if text := e.page("/console/login/oidc"); !strings.Contains(text, "The provider http://"+away+" cannot be asked.") {
		t.Error(text)
	}
	if status, _ := visit(t, e, http.MethodPost, "/console/login", "", "key", "reader"); status != http.StatusSeeOther {
		t.Errorf("a log-in with a key: %d", status)
	}
}

// page returns a page of the console.
func (e *edge) page(path string) string {
	e.t.Helper()
	r, _ := http.NewRequest(http.MethodGet, "http://"+e.listen+path, http.NoBody)
	answer, err := e.client.Transport.RoundTrip(r)
	if err != nil {
		e.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return string(text)
}

// visit sends a request of the console's own page. The pairs are the fields of a form, and Origin.
func visit(t *testing.T, e *edge, method, path, cookie string, pairs ...string) (status int, header http.Header) {
	t.Helper()
	form, origin := url.Values{}, "http://"+e.listen
	for i := 0; i < len(pairs); i += 2 {
		if form.Set(pairs[i], pairs[i+1]); pairs[i] == "Origin" {
			origin = pairs[i+1]
		}
	}
	r, err := http.NewRequest(method, "http://"+e.listen+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if method == http.MethodPost {
		r.Header.Set("Origin", origin)
	}
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	answer, err := e.client.Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode, answer.Header
}

// A client certificate is enough to read the console. Actions need a log-in as well, whose cookie is for TLS only.
func TestTheConsoleWithAClientCertificate(t *testing.T) {
	t.Parallel()
	e := newEdge(t, newMortal(t).yaml(), "  tls: {cert: client.pem, key: client.key, clients: authority.pem}\n")
	files, err := kafkatest.NewCertificates(e.folder)
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.LoadX509KeyPair(files.Client, files.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	open := func(certificates ...tls.Certificate) *http.Client {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}} //nolint:gosec // the server's check of our certificate is tested
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: overTLS{transport}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	e.client = open(own)
	e.start()
	ask := func(client *http.Client, method, path, cookie, form string) (status int, header http.Header, body string) {
		t.Helper()
		r, err := http.NewRequest(method, "https://"+e.listen+path, strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "https://"+e.listen)
		r.Header.Set("Cookie", cookie)
		answer, err := client.Do(r)
		if err != nil {
			return 0, nil, err.Error()
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, answer.Header, string(text)
	}

	wait.Until(t, "the enforcer to answer", func() bool { status, _, _ := ask(e.client, http.MethodGet, "/healthz", "", ""); return status != 0 })
	status, _, body := ask(e.client, http.MethodGet, "/console/key?key=203.0.113.7", "", "")
	if status != http.StatusOK || strings.Contains(body, "/console/act") || !strings.Contains(body, `href="/console/login"`) {
		t.Errorf("with a certificate: %d %s", status, body)
	}
	status, header, body := ask(e.client, http.MethodPost, "/console/login", "", "key=writer")
	if status != http.StatusSeeOther || !strings.Contains(header.Get("Set-Cookie"), "; Secure") {
		t.Fatalf("the log-in: %d %s", status, body)
	}
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	if status, _, body := ask(e.client, http.MethodGet, "/console/key?key=203.0.113.7", cookie, ""); status != http.StatusOK || !strings.Contains(body, "/console/act") {
		t.Errorf("after the log-in: %d %s", status, body)
	}
	if status, _, body := ask(open(), http.MethodGet, "/console/", "", ""); status == http.StatusOK {
		t.Errorf("without a certificate: %s", body)
	}
}

// An overTLS sends requests over TLS.
type overTLS struct{ *http.Transport }

// RoundTrip is that of the transport.
func (o overTLS) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme = "https"
	return o.Transport.RoundTrip(r)
}

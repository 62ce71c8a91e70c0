package objects_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"weir/test/wait"
)

// An object that the server does not give counts as lost once, whatever the number of listings, and the others are read.
// Written again, it is read.
func TestAnObjectThatIsNotGivenIsLostOnce(t *testing.T) {
	b := newBench(t)
	at, err := url.Parse(b.server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	var listings, open atomic.Int64
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = at.Scheme, at.Host, r.In.Host
	}}
	refused := map[string]string{"/logs/web/archived": "InvalidObjectState", "/logs/web/secret": "InvalidRequest"}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := refused[r.URL.Path]
		if code == "" || open.Load() > 0 {
			proxy.ServeHTTP(w, r)
			if r.URL.Query().Has("prefix") {
				listings.Add(1)
			}
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code><Message>it is encrypted</Message></Error>")
	}))
	t.Cleanup(front.Close)

	b.options.Where.Endpoint = front.URL
	b.server.Put("web/archived", text(b.Unread(3)))
	b.server.Put("web/secret", text(b.Unread(3)))
	b.server.Put("web/z", text(b.Lines(3)))
	b.Start()
	b.Await()
	b.Restart(func() {})
	after := listings.Load() + 5
	wait.Until(t, "five listings", func() bool { return listings.Load() > after })
	if lost := b.lost(); lost != 0 {
		t.Errorf("%v objects are lost again", lost)
	}
	if said := strings.Count(b.Said.String(), "it is encrypted"); said != 1 {
		t.Errorf("the log has the object %d times", said)
	}
	open.Store(1)
	b.server.Put("web/archived", text(b.Lines(4)))
	b.Await()
}

// Keys may have characters that XML does not have.
func TestKeysWithControlsAreRead(t *testing.T) {
	b := newQueueBench(t)
	b.options.Queue = ""
	for _, key := range []string{"-\x01b", "a\x01b", "a\x1b[31m\u202e", "a b+c%2B%", "a&<>\"'", "\ufffe", strings.Repeat("k", 1000)} {
		b.server.Put("web/"+key, text(b.Lines(3)))
	}
	b.Start()
	b.Await()
}

// A message whose key is not possible, or about an object that is not there, does not stop those after it.
func TestAMessageWithAHostileKeyStopsNoOther(t *testing.T) {
	b := newQueueBench(t)
	for _, key := range []string{"", "web/" + strings.Repeat("k", 1021), "web/" + strings.Repeat("k", 100_000), "web/\xff", "web/a\x00b", "web/\x01"} {
		b.server.Send(record("logs", key, ""))
	}
	b.server.Send(`{"detail-type":"Object Created","detail":{"bucket":{"name":"logs"},"object":{"key":"web/` + strings.Repeat("k", 2000) + `","size":5}}}`)
	b.server.Send(strings.Repeat("[", 100_000))
	b.server.Send(`{"Records":[` + strings.Repeat(record("logs", "web/a", "")[len(`{"Records":[`):len(record("logs", "web/a", ""))-len("]}")]+",", 1000) + `{}]}`)
	b.server.Put("web/a", text(b.Lines(3)))
	b.Start()
	b.Await()
	wait.Until(t, "the lost ones", func() bool { return b.lost() == 9 })
}

package listeners

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/keys"
	"weir/pkg/collector/pipeline"
	"weir/test/sink"
	"weir/test/wait"
)

// An httpBench is a bench whose source receives posts.
type httpBench struct {
	*bench
	url     string
	client  *http.Client
	header  http.Header
	changed func(*httpLimits)
}

func newHTTPBench(t testing.TB) *httpBench {
	b := &httpBench{bench: newBench(t), client: &http.Client{Transport: &http.Transport{}}, header: http.Header{}, changed: func(*httpLimits) {}}
	b.config.Sources = []sourceConfig{{IntakeConfig: pipeline.IntakeConfig{Name: "posts", Format: "combined"}, HTTP: &HTTPConfig{Listen: "127.0.0.1:0"}}}
	t.Cleanup(b.client.CloseIdleConnections)
	return b
}

func (b *httpBench) source() *httpSource { return b.opened.sources[0].(*httpSource) }

func (b *httpBench) start() {
	b.T.Helper()
	var err error
	if b.opened, err = open(b.config); err != nil {
		b.T.Fatal(err)
	}
	limits := usualHTTPLimits
	b.changed(&limits)
	b.source().limit(limits)
	b.run()
	scheme := "http"
	if b.config.Sources[0].HTTP.TLS != nil {
		scheme = "https"
	}
	b.url = scheme + "://" + b.address() + requestsPath
}

// An httpReply is the answer to a post.
type httpReply struct {
	status int
	header http.Header
	answer httpAnswer
	detail string
	closed bool // the connection was closed after it
}

// post sends a body; the headers are pairs of name and value.
func (b *httpBench) post(body io.Reader, headers ...string) httpReply {
	b.T.Helper()
	request, err := http.NewRequest(http.MethodPost, b.url, body)
	if err != nil {
		b.T.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return b.send(request)
}

func (b *httpBench) send(request *http.Request) httpReply {
	b.T.Helper()
	response, err := b.client.Do(request)
	if err != nil {
		b.T.Error(err)
		return httpReply{}
	}
	defer response.Body.Close()
	reply := httpReply{status: response.StatusCode, header: response.Header, closed: response.Close}
	if reply.status == http.StatusOK {
		err = json.NewDecoder(response.Body).Decode(&reply.answer)
	} else {
		var wrong httpProblem
		err = json.NewDecoder(response.Body).Decode(&wrong)
		reply.answer = httpAnswer{Requests: wrong.Requests, Unread: wrong.Unread}
		if reply.detail = wrong.Detail; wrong.Status != reply.status || wrong.Title == "" || reply.header.Get("Content-Type") != "application/problem+json" {
			b.T.Errorf("a problem of %d says %+v", reply.status, wrong)
		}
	}
	if err != nil {
		b.T.Errorf("status %d: %v", reply.status, err)
	}
	return reply
}

// body returns a body of more lines.
func (b *bench) body(lines int) string {
	text := ""
	for range lines {
		text += b.Line()
	}
	return text
}

func zipped(text string) io.Reader {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(text))
	w.Close()
	return &b
}

func TestHTTPCountsPosts(t *testing.T) {
	t.Parallel()
	b := newHTTPBench(t)
	b.start()
	reply := b.post(strings.NewReader(b.body(1000)))
	if reply.status != 200 || reply.answer.Requests != 1000 || len(reply.answer.Unread)+len(reply.answer.Uncounted) != 0 {
		t.Errorf("%+v", reply)
	}
	if got, _ := b.sink.Counted(t); !maps.Equal(got, b.Want) {
		t.Errorf("answered before Kafka had it: %s", sink.Brief(got))
	}
	reply = b.post(zipped(b.body(500)+"no request\n\n\r\n"+strings.TrimSuffix(b.body(1), "\n")), "Content-Encoding", "gzip")
	if reply.status != 200 || reply.answer.Requests != 502 || reply.answer.Unread["format"] != 1 {
		t.Errorf("%+v", reply)
	}
	if reply = b.post(http.NoBody); reply.status != 200 || reply.answer.Requests != 0 {
		t.Errorf("an empty body: %+v", reply)
	}
	b.sink.Await(t, b.Want)
	if got := b.metric("requests_total", "source", "posts"); got != 1502 {
		t.Errorf("the metrics say %v requests", got)
	}
}

func TestHTTPCountsJSON(t *testing.T) {
	const one = `{"time":"2026-03-03T08:00:00Z","remote_addr":"203.0.113.1","method":"GET","path":"/[\"]","status":200}`
	tests := map[string]struct {
		kind, body string
		requests   int64
		status     int
	}{
		"lines":            {"application/x-ndjson", one + "\n" + one + "\n", 2, 200},
		"values":           {"application/json", one + one + "\n\n" + one, 3, 200},
		"an array":         {"application/json; charset=utf-8", " [ " + one + " , \n" + one + " ] ", 2, 200},
		"arrays":           {"application/json", "[" + one + "]\n[" + one + "," + one + "]", 3, 200},
		"no element":       {"application/json", "[]", 0, 200},
		"indented":         {"application/vnd.app+json", strings.ReplaceAll(one, ",", ",\n  "), 1, 200},
		"text in an array": {"application/json", `["` + strings.ReplaceAll(strings.ReplaceAll(one, `\`, `\\`), `"`, `\"`) + `"]`, 1, 200},
		"cut off":          {"application/json", "[" + one + "," + one[:40], 0, 400},
		"no comma":         {"application/json", "[" + one + one + "]", 0, 400},
		"not closed":       {"application/json", "[" + one, 0, 400},
		"lines of a log":   {"application/json", "1.2.3.4 - - [x]", 0, 400},
		"a bracket":        {"application/json", one + "}", 0, 400},
	}
	b := newHTTPBench(t)
	b.config.Sources[0].Format = "json"
	b.start()
	for name, test := range tests {
		reply := b.post(strings.NewReader(test.body), "Content-Type", test.kind)
		if reply.status != test.status || reply.answer.Requests != test.requests || len(reply.answer.Unread) > 0 {
			t.Errorf("%s: %+v", name, reply)
		}
		b.Want["per-ip 203.0.113.1"] += test.requests
	}
	b.sink.Await(t, b.Want)
}

// Nothing of a body that is refused is counted.
// A body may end within a line that a container's runtime has cut into parts. Its sender must not wait for the end of that
// line, which would come with a later body: after a 503 it would send all lines again. And the lines of another sender do
// not continue it.
func TestHTTPDoesNotWaitForTheEndOfALine(t *testing.T) {
	for envelope, form := range map[string]string{
		"cri":    "2026-03-03T08:00:00Z stdout %.0[2]s%[1]s %[3]s\n",
		"docker": `{"log":%[2]q,"stream":"stdout","time":"2026-03-03T08:00:00Z"}` + "\n",
	} {
		t.Run(envelope, func(t *testing.T) {
			b := newHTTPBench(t)
			b.config.Sources[0].Envelope = envelope
			b.start()
			defer b.stop()
			record := func(tag, text, end string) string { return fmt.Sprintf(form, tag, text+end, text) }
			line := func() string { return strings.TrimSuffix(b.Line(), "\n") }
			long := strings.Replace(line(), " HTTP/1.1", strings.Repeat("x", 500)+" HTTP/1.1", 1)

			reply := b.post(strings.NewReader(record("F", line(), "\n") + record("P", long[:len(long)-20], "")))
			if reply.status != http.StatusOK || reply.answer.Requests != 2 || len(reply.answer.Unread) > 0 {
				t.Errorf("a body that ends within a line: %+v", reply)
			}
			if reply = b.post(strings.NewReader(record("F", line(), "\n"))); reply.status != http.StatusOK || reply.answer.Requests != 1 || len(reply.answer.Unread) > 0 {
				t.Errorf("the next one: %+v", reply)
			}
			b.sink.Await(t, b.Want)
		})
	}
}

func TestHTTPRefusesUnreadableBodies(t *testing.T) {
	t.Parallel()
	b := newHTTPBench(t)
	b.changed = func(l *httpLimits) { l.bodyBytes = 100 << 10 }
	b.start()
	line := b.Line()
	clear(b.Want)
	cut, _ := io.ReadAll(zipped(strings.Repeat(line, 100)))
	large := strings.Repeat(line, 200<<10/len(line))
	bomb := zipped(strings.Repeat("0", 10<<20))
	tests := map[string]struct {
		body     io.Reader
		encoding string
		status   int
	}{
		"too large":                    {strings.NewReader(large), "", 413},
		"too large, length not said":   {io.MultiReader(strings.NewReader(large)), "", 413},
		"too large when decompressed":  {zipped(large), "gzip", 413},
		"a bomb":                       {bomb, "gzip", 413},
		"an encoding that we lack":     {strings.NewReader(line), "br", 415},
		"no gzip":                      {strings.NewReader(line), "gzip", 400},
		"gzip cut off":                 {bytes.NewReader(cut[:len(cut)/2]), "gzip", 400},
		"gzip with a wrong checksum":   {bytes.NewReader(append(cut[:len(cut)-8:len(cut)-8], 1, 2, 3, 4, 5, 6, 7, 8)), "gzip", 400},
		"gzip that is empty":           {http.NoBody, "gzip", 400},
		"a body that is just too long": {strings.NewReader(strings.Repeat("x", 100<<10+1)), "", 413},
	}
	for name, test := range tests {
		headers := []string{}
		if test.encoding != "" {
			headers = append(headers, "Content-Encoding", test.encoding)
		}
		if reply := b.post(test.body, headers...); reply.status != test.status || reply.detail == "" {
			t.Errorf("%s: %+v, want %d", name, reply, test.status)
		}
	}
	if left := b.source().room.free(); left != usualHTTPLimits.memoryBytes {
		t.Errorf("%d bytes of memory were not given back", usualHTTPLimits.memoryBytes-left)
	}
	if reply := b.post(strings.NewReader(b.body(1) + strings.Repeat("x", 100<<10-200))); reply.status != 200 {
		t.Errorf("a body as long as may be: %+v", reply)
	}
	b.sink.Await(t, b.Want)
}

// A body that is too long by its own account is refused before it is there.
func TestHTTPRefusesALongBodyAtOnce(t *testing.T) {
	t.Parallel()
	b := newHTTPBench(t)
	b.start()
	body, never := io.Pipe()
	defer never.Close()
	request, err := http.NewRequest(http.MethodPost, b.url, body)
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = 99_999_999_999
	if reply := b.send(request); reply.status != http.StatusRequestEntityTooLarge || reply.detail == "" {
		t.Errorf("%+v", reply)
	}
}

func TestHTTPHasOnePath(t *testing.T) {
	b := newHTTPBench(t)
	b.config.Sources[0].HTTP.Hosts = []string{"collector.internal"}
	b.start()
	tests := []struct {
		method, path, header, value string
		status                      int
	}{
		{"GET", "", "X-None", "", 405},
		{"PUT", "", "X-None", "", 405},
		{"POST", "/", "X-None", "", 404},
		{"POST", "", "Origin", "https://evil.example", 403},
		{"POST", "", "Sec-Fetch-Site", "cross-site", 403},
		{"POST", "", "Sec-Fetch-Site", "none", 200},
		{"POST", "", "Origin", "null", 403},
		{"POST", "", "Host", "rebind.example:7402", 403},
		{"POST", "", "Host", "localhost:7402", 200},
		{"POST", "", "Host", "collector.internal", 200},
		{"POST", "", "Content-Type", "application/x-protobuf", 415},
	}
	for _, test := range tests {
		request, _ := http.NewRequest(test.method, b.url+test.path, nil)
		if request.Header.Set(test.header, test.value); test.header == "Host" {
			request.Host = test.value
		}
		if reply := b.send(request); reply.status != test.status || test.status == 405 && reply.header.Get("Allow") != "POST" {
			t.Errorf("%+v: %+v", test, reply)
		}
	}
}

func writeKeys(t testing.TB, path string, roles map[string]string) {
	t.Helper()
	text := "keys:\n"
	for secret, role := range roles {
		sum := sha256.Sum256([]byte(secret))
		text += fmt.Sprintf("  - {name: %s, role: %s, sha256: %q}\n", role, role, hex.EncodeToString(sum[:]))
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestHTTPAsksForAKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	writeKeys(t, path, map[string]string{"s3nd": "send", "r3ad": "read", "wr1te": "write", "b0ss": "admin"})
	file, err := keys.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b := newHTTPBench(t)
	b.config.Sources[0].HTTP.Keys = file
	b.start()
	tests := []struct {
		header, value string
		status        int
	}{
		{"X-None", "", 401},
		{"X-Api-Key", "", 401},
		{"X-Api-Key", "guess", 401},
		{"Authorization", "Basic czNuZA==", 401},
		{"Authorization", "Bearer guess", 401},
		{"X-Api-Key", "r3ad", 403},
		{"X-Api-Key", "wr1te", 403},
		{"Authorization", "Bearer wr1te", 403},
		{"X-Api-Key", "s3nd", 200},
		{"Authorization", "Bearer s3nd", 200},
		{"X-Api-Key", "b0ss", 200},
	}
	for _, test := range tests {
		want := maps.Clone(b.Want)
		reply := b.post(strings.NewReader(b.Line()), test.header, test.value)
		if test.status != 200 {
			b.Want = want
		}
		if reply.status != test.status || reply.status == 401 && reply.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s %s: %+v", test.header, test.value, reply)
		}
	}
	b.sink.Await(t, b.Want)

	writeKeys(t, path, map[string]string{"n3w": "send"})
	if _, err := file.Reread(); err != nil {
		t.Fatal(err)
	}
	if reply := b.post(http.NoBody, "X-Api-Key", "n3w"); reply.status != 200 {
		t.Errorf("a new key: %+v", reply)
	}
	if reply := b.post(http.NoBody, "X-Api-Key", "s3nd"); reply.status != 401 {
		t.Errorf("a key that was taken out: %+v", reply)
	}
}

func TestHTTPBeyondLoopbackIsGuarded(t *testing.T) {
	asked := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}
	tests := []struct {
		listen string
		tls    *tls.Config
		keys   *keys.File
		ok     bool
	}{
		{"0.0.0.0:0", nil, nil, false},
		{":0", nil, nil, false},
		{"192.0.2.1:7402", nil, nil, false},
		{"collector.example:7402", nil, nil, false},
		{"0.0.0.0:0", &tls.Config{}, nil, false},
		{"0.0.0.0:0", &tls.Config{ClientAuth: tls.RequestClientCert}, nil, false},
		{"0.0.0.0:0", asked, nil, true},
		{"0.0.0.0:0", nil, &keys.File{}, true},
		{"127.0.0.1:0", nil, nil, true},
		{"localhost:0", nil, nil, true},
		{"[::1]:0", nil, nil, true},
		{"127.0.0.1", nil, nil, false},
	}
	for _, test := range tests {
		b := newBench(t)
		b.config.Sources = []sourceConfig{{IntakeConfig: pipeline.IntakeConfig{Name: "posts", Format: "combined"}, HTTP: &HTTPConfig{Listen: test.listen, TLS: test.tls, Keys: test.keys}}}
		_, err := open(b.config)
		if (err == nil) != test.ok {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

func TestHTTPAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := newBench(t)
	b.config.Sources = []sourceConfig{{IntakeConfig: pipeline.IntakeConfig{Name: "posts", Format: "combined"}, HTTP: &HTTPConfig{Listen: l.Addr().String()}}}
	c, err := open(b.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.run(context.Background()); err == nil || !strings.Contains(err.Error(), "address already in use: if this part is running already (weir status), stop it; otherwise write another address in http of this source") {
		t.Error(err)
	}
}

// The source does not answer 200 before Kafka has the hits.
func TestHTTPAnswersWhenKafkaHasIt(t *testing.T) {
	b := newHTTPBench(t)
	b.start()
	b.sink.Set(func() { b.sink.Mute = true })
	replies := make(chan httpReply, 1)
	go func(body string) { replies <- b.post(strings.NewReader(body)) }(b.body(10))
	b.sink.Await(t, b.Want) // sent, and not acknowledged
	select {
	case reply := <-replies:
		t.Fatalf("answered before Kafka has acknowledged it: %+v", reply)
	default:
	}
	b.sink.Unmute()
	if reply := <-replies; reply.status != 200 || reply.answer.Requests != 10 {
		t.Errorf("%+v", reply)
	}
	wait.Until(t, "the status", func() bool { return b.source().Status().CaughtUp })
}

// The source answers 429 once there is no room, and does not count the refused body.
func TestHTTPSaysWhenItIsFull(t *testing.T) {
	b := newHTTPBench(t)
	b.changed = func(l *httpLimits) { l.memoryBytes, l.ack = 4*firstBytes, 200*time.Millisecond }
	b.start()
	b.sink.Set(func() { b.sink.Blocked = true })
	replies := make(chan httpReply)
	for range 6 {
		go func(body string) { replies <- b.post(strings.NewReader(body)) }(b.body(1))
	}
	statuses := map[int]int{}
	for range 6 {
		reply := <-replies
		if statuses[reply.status]++; reply.header.Get("Retry-After") == "" {
			t.Errorf("no Retry-After: %+v", reply)
		}
	}
	if statuses[429] == 0 || statuses[503] == 0 || statuses[429]+statuses[503] != 6 {
		t.Errorf("answers: %v", statuses)
	}
	b.sink.Set(func() { b.sink.Blocked = false })
	wait.Until(t, "what was taken", func() bool { return b.total() == int64(statuses[503]) })
	wait.Until(t, "all memory", func() bool { return b.source().room.free() == 4*firstBytes })
	if reply := b.post(strings.NewReader(b.body(1))); reply.status != 200 || b.total() != int64(statuses[503])+1 {
		t.Errorf("%+v, and %d are counted", reply, b.total())
	}
}

// total is the number of hits that are counted.
func (b *bench) total() (n int64) {
	keys, _ := b.sink.Counted(b.T)
	for _, hits := range keys {
		n += hits
	}
	return n
}

func TestHTTPSaysWhenKafkaRefuses(t *testing.T) {
	b := newHTTPBench(t)
	b.start()
	b.sink.Set(func() { b.sink.Refuse = errors.New("the record is too large") })
	if reply := b.post(strings.NewReader(b.body(3))); reply.status != 500 {
		t.Errorf("%+v", reply)
	}
	b.sink.Set(func() { b.sink.Refuse = nil })
	if reply := b.post(strings.NewReader(b.body(3))); reply.status != 200 {
		t.Errorf("%+v", reply)
	}
}

// A slow sender is cut off, and does not keep others out meanwhile.
func TestHTTPSlowSenders(t *testing.T) {
	t.Parallel()
	b := newHTTPBench(t)
	b.changed = func(l *httpLimits) { l.headerFor, l.bodyFor = 2*time.Second, 2*time.Second }
	b.start()
	for _, text := range []string{
		"POST /v1/requests HTTP/1.1\r\nHost: localhost\r\nX-A",
		"POST /v1/requests HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n1.2.3.4",
	} {
		conn, err := net.Dial("tcp", b.address())
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte(text))
		if reply := b.post(strings.NewReader(b.body(1))); reply.status != 200 {
			t.Errorf("%+v", reply)
		}
		conn.SetReadDeadline(time.Now().Add(time.Minute))
		answer, err := io.ReadAll(conn)
		if err != nil || strings.Contains(text, "Content-Length") && !bytes.Contains(answer, []byte("408 Request Timeout")) {
			t.Errorf("%q: %q, %v", text, answer, err)
		}
		conn.Close()
	}
	wait.Until(t, "all memory", func() bool { return b.source().room.free() == usualHTTPLimits.memoryBytes })
}

func TestHTTPConnectionsAreBounded(t *testing.T) {
	b := newHTTPBench(t)
	b.changed = func(l *httpLimits) { l.connections, l.headerFor = 2, 2*time.Second }
	b.start()
	for range 4 {
		conn, err := net.Dial("tcp", b.address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	wait.Until(t, "the bound", func() bool { return strings.Contains(b.source().Status().Error, "2 connections are open") })
	if reply := b.post(strings.NewReader(b.body(1))); reply.status != 200 {
		t.Errorf("when the others are cut off: %+v", reply)
	}
}

// A format that is not given is found from the first post.
func TestHTTPFindsOutTheFormat(t *testing.T) {
	b := newHTTPBench(t)
	b.config.Sources[0].Format, b.config.Sources[0].Envelope = "auto", "auto"
	b.start()
	if reply := b.post(strings.NewReader("who knows\n")); reply.status != 400 || reply.answer.Unread["format"] != 1 {
		t.Errorf("%+v", reply)
	}
	if reply := b.post(strings.NewReader(b.body(20))); reply.status != 200 || len(reply.answer.Unread) != 0 {
		t.Errorf("%+v", reply)
	}
	b.sink.Await(t, b.Want)
}

// At the end clients that have posted are answered, and posts to the next process are counted as new.
func TestHTTPEndsWithAnswers(t *testing.T) {
	b := newHTTPBench(t)
	b.start()
	b.sink.Set(func() { b.sink.Mute = true })
	replies := make(chan httpReply, 1)
	go func(body string) { replies <- b.post(strings.NewReader(body)) }(b.body(10))
	b.sink.Await(t, b.Want)
	before := b.source().Status().Logs[0].Source
	b.cancel()
	b.sink.Unmute()
	if reply := <-replies; reply.status != 200 {
		t.Errorf("%+v", reply)
	}
	b.stop()
	b.start()
	if after := b.source().Status().Logs[0].Source; after == before || !strings.HasPrefix(after, "posts/") {
		t.Errorf("the source was %s and is %s", before, after)
	}
	if reply := b.post(strings.NewReader(b.body(10))); reply.status != 200 {
		t.Errorf("%+v", reply)
	}
	b.sink.Await(t, b.Want)
}

// Clients with certificates can post over HTTP/1.1 and HTTP/2.
func TestHTTPOverTLS(t *testing.T) {
	server, client, stranger := testTLS(t)
	b := newHTTPBench(t)
	b.config.Sources[0].HTTP.TLS = server
	b.start()
	for _, two := range []bool{false, true} {
		b.client = &http.Client{Transport: &http.Transport{TLSClientConfig: client.Clone(), ForceAttemptHTTP2: two}}
		t.Cleanup(b.client.CloseIdleConnections)
		if reply := b.post(zipped(b.body(100)), "Content-Encoding", "gzip"); reply.status != 200 || reply.answer.Requests != 100 {
			t.Errorf("%+v", reply)
		}
	}
	b.sink.Await(t, b.Want)
	strange := &http.Client{Transport: &http.Transport{TLSClientConfig: stranger}}
	defer strange.CloseIdleConnections()
	if response, err := strange.Post(b.url, "", strings.NewReader(b.sample())); err == nil {
		response.Body.Close()
		t.Errorf("a stranger was answered: %s", response.Status)
	}
}

// A body of an unsupported type is refused with advice, and a body without a readable request is not answered with
// 200.
func TestHTTPNamesUnreadableBodies(t *testing.T) {
	b := newHTTPBench(t)
	b.start()
	for kind, says := range map[string]string{
		"application/x-protobuf": "encoding: json", "application/protobuf": "encoding: json", "application/grpc": "text/plain",
		"application/msgpack": "application/json", "multipart/form-data; boundary=x": "text/plain", "application/gzip": "Content-Encoding: gzip",
		"image/png": "text/plain", "nonsense": "text/plain", "application/": "text/plain",
	} {
		if reply := b.post(strings.NewReader(b.body(0)+"\n\x0a\x12"), "Content-Type", kind); reply.status != 415 || !strings.Contains(reply.detail, says) {
			t.Errorf("%s: %+v", kind, reply)
		}
	}
	for _, kind := range []string{"", "text/plain", "text/plain; charset", "TEXT/CSV", "application/x-ndjson", "application/jsonl", "application/octet-stream",
		"application/x-www-form-urlencoded"} {
		if reply := b.post(strings.NewReader(b.body(2)+"no request\n"), "Content-Type", kind); reply.status != 200 || reply.answer.Unread["format"] != 1 {
			t.Errorf("%s: %+v", kind, reply)
		}
		if reply := b.post(strings.NewReader("no request\nnor this\n"), "Content-Type", kind); reply.status != 400 || reply.answer.Requests != 2 || reply.answer.Unread["format"] != 2 {
			t.Errorf("%s of which nothing can be read: %+v", kind, reply)
		}
	}
	b.sink.Await(t, b.Want)
}

// curl's --data @FILE removes the newlines of the file. Formats that take anything behind a line would count such a body
// as one request.
func TestHTTPRefusesLinesThatCurlJoined(t *testing.T) {
	b := newHTTPBench(t)
	b.config.Sources[0].Format, b.config.Sources[0].Envelope = "auto", "auto"
	b.start()
	const form = "application/x-www-form-urlencoded"
	at := time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700")
	combined := `192.0.2.9 - - [` + at + `] "GET / HTTP/1.1" 200 5 "-" "c"`
	for _, line := range []string{
		combined, combined + ` "-"`, combined + ` 0.123`, combined + ` weir="-"`, combined + ` "-" "\" [" x`, "shop.example:443 " + combined,
		"shop.example " + combined, `192.0.2.9 - alice [` + at + `] "GET / HTTP/1.1" 200 5`, `{"time":"` + time.Now().UTC().Format(time.RFC3339) + `","ip":"192.0.2.9"}`,
	} {
		b.Want["per-ip 192.0.2.9"] += 4
		for _, lines := range []string{strings.Repeat(line+"\n", 3), line} {
			if reply := b.post(strings.NewReader(lines), "Content-Type", form); reply.status != 200 || len(reply.answer.Unread) != 0 {
				t.Errorf("%q: %+v", lines, reply)
			}
		}
		if reply := b.post(strings.NewReader(strings.Repeat(line, 3)), "Content-Type", form); reply.status != 400 || !strings.Contains(reply.detail, "--data-binary") {
			t.Errorf("%q, joined: %+v", line, reply)
		}
	}

	// A line is not refused for a text that its client wrote.
	const agent = `"192.0.2.8 - - [`
	for _, line := range []string{
		strings.Replace(combined, `"c"`, `"\`+agent+at+`] \"GET / HTTP/1.1\" 200 5"`, 1), strings.Replace(combined, `"c"`, `"\x22192.0.2.8 - - [`+at+`] \x22"`, 1),
		strings.Replace(combined, "- - [", "- a - [["+at+" [", 1), strings.Replace(combined, "/ HTTP", "/["+at+"] HTTP", 1),
	} {
		b.Want["per-ip 192.0.2.9"]++
		if reply := b.post(strings.NewReader(line), "Content-Type", form); reply.status != 200 || len(reply.answer.Unread) != 0 {
			t.Errorf("%q: %+v", line, reply)
		}
	}
	// The time grows with the length of the body, not with its square.
	for _, part := range []string{"[", "[" + at + "] "} {
		body := combined[:len(combined)-1] + `" ` + strings.Repeat(part, 4<<20/len(part))
		if reply := b.post(strings.NewReader(body), "Content-Type", form); reply.status != 400 || reply.answer.Requests != 1 {
			t.Errorf("many brackets: %+v", reply)
		}
	}
	if reply := b.post(strings.NewReader("\x1f\x8b\x08...")); reply.status != 400 || !strings.Contains(reply.detail, "Content-Encoding: gzip") {
		t.Errorf("%+v", reply)
	}
	b.sink.Await(t, b.Want)
}

// One host that uses all its connections, and asks without a key again and again, does not keep out a sender with a
// key.
func TestHTTPOneHostDoesNotKeepOutASenderWithAKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	writeKeys(t, path, map[string]string{"s3nd": "send"})
	file, err := keys.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b := newHTTPBench(t)
	b.config.Sources[0].HTTP.Keys = file
	b.changed = func(l *httpLimits) { l.connections = 8 }
	b.start()
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for i := range 40 {
		conn, err := from.Dial("tcp", b.address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		switch i % 3 {
		case 0: // nothing
		case 1:
			io.WriteString(conn, "POST /v1/requests HTTP/1.1\r\nHost: x\r\n")
		case 2:
			io.WriteString(conn, "POST /v1/requests HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		}
		b.client.CloseIdleConnections()
		if reply := b.post(strings.NewReader(b.body(1)), "X-Api-Key", "s3nd"); reply.status != 200 {
			t.Fatalf("%d: %+v", i, reply)
		}
	}
	if reply := b.post(strings.NewReader(b.Line()), "X-Api-Key", "guess"); reply.status != 401 || !reply.closed {
		t.Errorf("%+v", reply)
	}
}

// The first post does not decide the format of all later ones.
func TestHTTPIsNotSettledByABadFirstPost(t *testing.T) {
	b := newHTTPBench(t)
	b.config.Sources[0].Format, b.config.Sources[0].Envelope = "auto", "auto"
	b.start()
	first := strings.Repeat(`{"time":"2026-03-03T08:00:00Z","remote_ip":"192.0.2.9","uri":"/try","method":"GET","status":200}`+"\n", 200)
	if reply := b.post(strings.NewReader(first)); reply.status != 200 || len(reply.answer.Unread) != 0 {
		t.Fatalf("the first post is to be taken for requests: %+v", reply)
	}
	b.Want["per-ip 192.0.2.9"] = 200
	for _, body := range []string{b.body(1), b.body(30)} {
		if reply := b.post(strings.NewReader(body)); reply.status != 200 || len(reply.answer.Unread) != 0 {
			t.Errorf("%+v", reply)
		}
	}
	rubbish := strings.Repeat("{\"what\":1}\n", 50)
	if reply := b.post(strings.NewReader(rubbish)); reply.status != 400 || reply.answer.Unread["format"] != 50 {
		t.Errorf("%+v", reply)
	}
	if reply := b.post(strings.NewReader(b.body(1))); reply.status != 200 || len(reply.answer.Unread) != 0 {
		t.Errorf("after rubbish: %+v", reply)
	}
	b.sink.Await(t, b.Want)
}

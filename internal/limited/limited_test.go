package limited

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A fakeListener accepts connections that come from any address.
type fakeListener struct {
	net.Listener
	conns chan net.Conn
}

func (f *fakeListener) Accept() (net.Conn, error) {
	c, ok := <-f.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (f *fakeListener) Close() error { return nil }

type fakeConn struct {
	net.Conn
	from   string
	closed bool
}

func (f *fakeConn) RemoteAddr() net.Addr {
	address, err := net.ResolveTCPAddr("tcp", f.from)
	if err != nil {
		panic(err)
	}
	return address
}

func (f *fakeConn) Close() error {
	f.closed = true
	return nil
}

type accepting struct {
	t     *testing.T
	inner *fakeListener
	l     *Listener
	told  []string
}

func newAccepting(t *testing.T, b Bounds) *accepting {
	a := &accepting{t: t, inner: &fakeListener{conns: make(chan net.Conn, 100)}}
	a.l = Listen(a.inner, b, func(err error) { a.told = append(a.told, err.Error()) })
	return a
}

// from makes the listener accept a connection.
func (a *accepting) from(host string) (*fakeConn, net.Conn) {
	a.t.Helper()
	f := &fakeConn{from: net.JoinHostPort(host, "1234")}
	a.inner.conns <- f
	c, err := a.l.Accept()
	if err != nil {
		a.t.Fatal(err)
	}
	return f, c
}

func (a *accepting) open(want int) {
	a.t.Helper()
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	if a.l.open != want {
		a.t.Errorf("%d are open, want %d", a.l.open, want)
	}
}

func TestAFurtherOneTakesThePlaceOfOneThatWaits(t *testing.T) {
	a := newAccepting(t, Bounds{Connections: 4})
	known, knownConn := a.from("192.0.2.1")
	Known(knownConn)
	busy, busyConn := a.from("192.0.2.2")
	Busy(busyConn)
	idle, idleConn := a.from("192.0.2.3")
	idleConn.(*conn).change(true)
	idleConn.(*conn).change(false)
	fresh, _ := a.from("192.0.2.4")
	if len(a.told) > 0 {
		t.Error(a.told)
	}
	gone := []*fakeConn{fresh, idle, known}
	for i, one := range gone {
		_, next := a.from("192.0.2.9")
		Busy(next)
		if !one.closed || busy.closed {
			t.Errorf("%d: closed new %v, idle %v, known %v, busy %v", i, fresh.closed, idle.closed, known.closed, busy.closed)
		}
		a.open(4)
	}
	if len(a.told) != 3 {
		t.Error(a.told)
	}
	// Now all are busy, and a further one waits until one of them is idle.
	accepted := make(chan net.Conn)
	a.inner.conns <- &fakeConn{from: "192.0.2.10:1"}
	go func() {
		c, err := a.l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	busyConn.(*conn).change(false)
	<-accepted
	if !busy.closed {
		t.Error("an idle one keeps its place")
	}
}

// A connection may become busy while the listener waits for the next one.
func TestBusyOnesAreNoMoreThanTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccepting(t, Bounds{Connections: 1})
		_, first := a.from("192.0.2.1")
		accepted := make(chan net.Conn, 1)
		go func() {
			c, err := a.l.Accept()
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		synctest.Wait()
		Busy(first)
		a.inner.conns <- &fakeConn{from: "192.0.2.2:1"}
		synctest.Wait()
		if len(accepted) > 0 {
			t.Error("a further one is accepted")
		}
		a.open(1)
		Idle(first)
		<-accepted
		a.open(1)
	})
}

func TestOneAddressHasABoundOfItsOwn(t *testing.T) {
	for _, test := range []struct{ from, same, other string }{
		{"192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"},
		{"2001:db8::1", "2001:db8::2:0:0:1", "2001:db8:0:1::1"},
	} {
		a := newAccepting(t, Bounds{Connections: 10, PerAddress: 2})
		first, _ := a.from(test.from)
		second, secondConn := a.from(test.same)
		other, _ := a.from(test.other)
		_, thirdConn := a.from(test.from)
		if !first.closed || second.closed || other.closed || len(a.told) != 1 {
			t.Errorf("%+v: closed %v, %v, other %v; %v", test, first.closed, second.closed, other.closed, a.told)
		}
		a.open(3)
		// An identified client has no such limit, and leaves room for others.
		Known(secondConn)
		a.from(test.from)
		a.open(4)
		// When all connections of an address are busy, a further one is closed.
		Busy(thirdConn)
		last, lastConn := a.from(test.from)
		Busy(lastConn)
		refused := &fakeConn{from: net.JoinHostPort(test.same, "9")}
		a.inner.conns <- refused
		a.from(test.other)
		if !refused.closed || last.closed || second.closed {
			t.Errorf("%+v: refused %v, last closed %v", test, refused.closed, last.closed)
		}
	}
}

func TestLoopbackHasNoBoundOfItsOwn(t *testing.T) {
	a := newAccepting(t, Bounds{Connections: 10, PerAddress: 1})
	for range 5 {
		a.from("127.0.0.1")
		a.from("::1")
	}
	a.open(10)
	if len(a.told) > 0 {
		t.Error(a.told)
	}
}

func TestPlacesAreGivenBack(t *testing.T) {
	a := newAccepting(t, Bounds{Connections: 3, PerAddress: 2})
	for i := range 1000 {
		_, c := a.from(fmt.Sprintf("192.0.2.%d", i%4))
		switch i % 5 {
		case 0:
			Busy(c)
			c.Close()
		case 1:
			Known(c)
			c.Close()
			c.Close()
		case 2:
			c.Close()
			Known(c)
			Busy(c)
		case 3:
			Busy(c)
			Known(c)
			c.(*conn).change(false)
		}
	}
	if len(a.l.of) > 3 || a.l.open > 3 {
		t.Errorf("%d addresses, %d open", len(a.l.of), a.l.open)
	}
	for kind := range a.l.waiting {
		for a.l.drop(&a.l.waiting) {
			t.Logf("dropped one of kind %d", kind)
		}
	}
	if len(a.l.of) > 0 || a.l.open > 0 {
		t.Errorf("at last: %d addresses, %d open", len(a.l.of), a.l.open)
	}
}

func TestTheEndIsNotWaitedFor(t *testing.T) {
	a := newAccepting(t, Bounds{Connections: 1})
	_, c := a.from("192.0.2.1")
	Busy(c)
	a.inner.conns <- &fakeConn{from: "192.0.2.2:1"} // it waits
	accepted := make(chan error)
	go func() {
		_, err := a.l.Accept()
		accepted <- err
	}()
	a.l.Close()
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// Unknown clients take every place of a server, from one address and from others. A client with a key is still served
// whenever it asks.
func TestAKnownSenderIsServedAmongStrangers(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") == "" {
			Answer(w).WriteHeader(http.StatusUnauthorized)
			return
		}
		Showed(r.Context())
		Answer(w).Write([]byte("ok"))
	}))
	server.Listener.Close()
	server.Listener = Listen(inner, Bounds{Connections: 8}, func(error) {})
	Track(server.Config)
	server.Start()
	defer server.Close()
	hold := func() {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n") // and no more
	}
	for range 20 {
		hold()
	}
	client := server.Client()
	for i := range 20 {
		request, _ := http.NewRequest(http.MethodGet, server.URL, http.NoBody)
		request.Header.Set("X-Api-Key", "k")
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(i, err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Error(answer.Status)
		}
		hold()
		if i%5 == 0 {
			client.CloseIdleConnections()
		}
	}
	answer, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized || !answer.Close {
		t.Errorf("%s, and the connection is closed: %v", answer.Status, answer.Close)
	}
}

// Unknown clients have a request on every connection that does not end, as when they do not read its answer, over
// either version of HTTP. A client with a key is served all the same, and keeps its place while it is.
func TestAStrangerDoesNotKeepItsPlaceByARequest(t *testing.T) {
	for _, two := range []bool{false, true} {
		asked := make(chan struct{}, 100)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Api-Key") != "" {
				Showed(r.Context())
			}
			asked <- struct{}{}
			if r.URL.Path != "/ends" {
				<-r.Context().Done()
			}
		}))
		server.Listener = Listen(server.Listener, Bounds{Connections: 4, Asks: true}, func(error) {})
		server.EnableHTTP2 = two
		Track(server.Config)
		server.StartTLS()
		ask := func(path, key string) error {
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: server.Client().Transport.(*http.Transport).TLSClientConfig.Clone(), ForceAttemptHTTP2: two}}
			defer client.CloseIdleConnections()
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
			request.Header.Set("X-Api-Key", key)
			answer, err := client.Do(request)
			if err == nil {
				answer.Body.Close()
			}
			return err
		}

		known := make(chan error, 1)
		go func() { known <- ask("/", "k") }()
		<-asked
		for range 10 {
			go func() { _ = ask("/", "") }() // it ends with its connection
			<-asked
		}
		for range 3 {
			if err := ask("/ends", "k"); err != nil {
				t.Errorf("HTTP/2 %v: %v", two, err)
			}
			<-asked
		}
		select {
		case err := <-known:
			t.Errorf("HTTP/2 %v: a known client has lost its place: %v", two, err)
		default:
		}
		server.CloseClientConnections()
		server.Close()
	}
}

// A client that is refused and does not send the rest of its body does not keep its connection.
func TestTheRestOfARefusedBodyIsNotWaitedFor(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusMethodNotAllowed, http.StatusTooManyRequests} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { Answer(w).WriteHeader(status) }))
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nthe beginning")
		conn.SetReadDeadline(time.Now().Add(time.Minute))
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), fmt.Sprintf("HTTP/1.1 %d ", status)) {
			t.Errorf("%d: %q, %v", status, answer, err)
		}
		conn.Close()
		server.Close()
	}
}

// An answer that its client does not read ends, piece by piece.
func TestAnswersAreWrittenInPieces(t *testing.T) {
	var deadlines int
	w := &deadlined{ResponseRecorder: httptest.NewRecorder(), set: func() { deadlines++ }}
	n, err := Answer(Answer(w)).Write(make([]byte, 3*pieceBytes+1))
	if n != 3*pieceBytes+1 || err != nil || w.Body.Len() != n || deadlines != 4 {
		t.Errorf("%d, %v, %d deadlines", n, err, deadlines)
	}
	if n, err := Answer(w).Write(nil); n != 0 || err != nil {
		t.Error(n, err)
	}
}

type deadlined struct {
	*httptest.ResponseRecorder
	set func()
}

func (d *deadlined) SetWriteDeadline(time.Time) error {
	d.set()
	return nil
}

// A process that may open few files keeps descriptors for other uses than connections.
func TestFewFilesAreFewConnections(t *testing.T) {
	bounds := func(all, address int) Bounds { return Bounds{Connections: all, PerAddress: address} }
	all := []Bounds{bounds(10000, 5000), bounds(1024, 512), bounds(1024, 512), bounds(1024, 512), bounds(256, 128), bounds(256, 128), bounds(256, 128)}
	for _, test := range []struct {
		files uint64
		want  Bounds // of the first listener
		most  int    // of all listeners together
	}{
		{1 << 20, bounds(10000, 5000), 13840},
		{16384, bounds(10000, 5000), 13840},
		{1024, bounds(625, 312), 870},
		{256, bounds(156, 78), 240},
		{16, bounds(10, 5), 70},
	} {
		if got := all[0].within(test.files); got != test.want {
			t.Errorf("%d files: %+v, want %+v", test.files, got, test.want)
		}
		sum := 0
		for _, b := range all {
			sum += b.within(test.files).Connections
		}
		if sum > test.most {
			t.Errorf("%d files: %d connections, want at most %d", test.files, sum, test.most)
		}
	}
	if got := (Bounds{Connections: 100}).within(1 << 20); got != bounds(100, 100) {
		t.Error(got)
	}
	if got := (Bounds{Connections: 2}).within(16); got.Connections != 2 {
		t.Error(got)
	}
}

package listeners

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/keys"
	"weir/test/wait"
)

// smallRoom has place for two of the largest bodies.
func smallRoom(l *httpLimits) {
	l.memoryBytes, l.bodyBytes, l.stall = 512<<10, 256<<10-1, time.Hour
}

// newKeyedBench has the keys s3nd and b0ss, which may both send.
func newKeyedBench(t *testing.T) *httpBench {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	writeKeys(t, path, map[string]string{"s3nd": "send", "b0ss": "admin"})
	file, err := keys.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b := newHTTPBench(t)
	b.config.Sources[0].HTTP.Keys = file
	return b
}

// stalled opens connections that send most of a body each and then nothing more, until they hold all the room.
func (b *httpBench) stalled(header string, connections int) (conns []net.Conn) {
	b.T.Helper()
	const arrived = 200 << 10
	for range connections {
		conn, err := net.Dial("tcp", b.address())
		if err != nil {
			b.T.Fatal(err)
		}
		b.T.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "POST /v1/requests HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 260000\r\n\r\n%s", header, strings.Repeat("x", arrived))
		conns = append(conns, conn)
	}
	wait.Until(b.T, "a full room", func() bool { return b.source().room.free() == 0 })
	return conns
}

// dropped is the number of connections that are answered with 429; the others must still wait.
func dropped(t *testing.T, conns []net.Conn) (n int) {
	t.Helper()
	for _, conn := range conns {
		conn.SetReadDeadline(time.Now().Add(time.Second))
		if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			answer.Body.Close()
			n++
			if answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") == "" {
				t.Errorf("%d %v", answer.StatusCode, answer.Header)
			}
		}
	}
	return n
}

// Bodies that one key leaves unfinished do not keep out another key.
func TestHTTPStalledBodiesOfOneKeyDoNotKeepOutAnother(t *testing.T) {
	t.Parallel()
	b := newKeyedBench(t)
	b.changed = smallRoom
	b.start()
	conns := b.stalled("X-Api-Key: s3nd\r\n", 2)
	if reply := b.post(strings.NewReader(b.body(1000)), "X-Api-Key", "b0ss"); reply.status != 200 || reply.answer.Requests != 1000 {
		t.Errorf("%+v", reply)
	}
	b.sink.Await(t, b.Want)
	if n := dropped(t, conns); n != 1 {
		t.Errorf("%d stalled bodies made room", n)
	}
}

// Without keys, a body that has stalled gives its room up when another one needs it.
func TestHTTPStalledBodiesGiveUpTheirRoom(t *testing.T) {
	t.Parallel()
	b := newHTTPBench(t)
	b.changed = func(l *httpLimits) { smallRoom(l); l.stall = 100 * time.Millisecond }
	b.start()
	conns := b.stalled("", 2)
	body := b.body(1700)
	wait.Until(t, "room", func() bool {
		reply := b.post(strings.NewReader(body))
		if reply.status != 200 && reply.status != 429 {
			t.Fatalf("%+v", reply)
		}
		return reply.status == 200
	})
	b.sink.Await(t, b.Want)
	if n := dropped(t, conns); n == 0 {
		t.Error("no stalled body was answered")
	}
}

// Bodies of one key that wait to be counted do not keep out another key either.
func TestHTTPWaitingBodiesOfOneKeyDoNotKeepOutAnother(t *testing.T) {
	b := newKeyedBench(t)
	b.changed = smallRoom
	b.start()
	b.sink.Set(func() { b.sink.Blocked = true })
	posted, replies := 0, make(chan httpReply, 100)
	post := func(key string, lines int) (reply chan httpReply) {
		reply = make(chan httpReply, 1)
		body := b.body(lines)
		go func() { reply <- b.post(strings.NewReader(body), "X-Api-Key", key) }()
		return reply
	}
	wait.Until(t, "a full room", func() bool {
		if posted++; posted <= cap(replies) {
			go func(reply chan httpReply) { replies <- <-reply }(post("s3nd", 1))
		}
		return b.source().room.free() == 0
	})
	posted = min(posted, cap(replies))
	other := post("b0ss", 400)
	wait.Until(t, "the other body", func() bool { return b.source().room.free() == 0 && b.source().room.heldBy("key admin") > 0 })

	b.sink.Set(func() { b.sink.Blocked = false })
	if reply := <-other; reply.status != 200 {
		t.Errorf("%+v", reply)
	}
	counted, statuses := int64(400), map[int]int64{}
	for range posted {
		statuses[(<-replies).status]++
	}
	if counted += statuses[200]; statuses[429] == 0 || statuses[200]+statuses[429] != int64(posted) || b.total() != counted {
		t.Errorf("%v, and %d requests are counted", statuses, b.total())
	}
}

// free returns the number of bytes that are free.
func (m *room) free() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left
}

// heldBy returns the bytes of a sender.
func (m *room) heldBy(name string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.senders[name]; s != nil {
		return s.held
	}
	return 0
}

// Bodies that are read at the same time never use the same room, none waits forever, and all bytes come back.
func TestRoomIsGivenBack(t *testing.T) {
	limits := httpLimits{memoryBytes: 20, posts: 8, stall: time.Hour}
	m := newRoom(limits, time.Now)
	var used sync.WaitGroup
	for i := range 16 {
		used.Go(func() {
			for range 2000 {
				interrupted := make(chan struct{})
				p := newPost(fmt.Sprint(i%5), false, func() { close(interrupted) })
				if m.enter(p) {
					arrive(m, p, interrupted)
				}
				m.release(p)
			}
		})
	}
	used.Wait()
	if m.left != limits.memoryBytes || m.leaving != 0 || len(m.senders) != 0 {
		t.Errorf("%+v", m)
	}
}

func arrive(m *room, p *post, interrupted chan struct{}) {
	for m.reserve(p, 1+rand.Int64N(6)) {
		if free := m.free(); free < 0 {
			panic("used twice")
		}
		if rand.IntN(4) == 0 {
			return
		}
	}
	if rand.IntN(2) == 0 && p.state.CompareAndSwap(postArrives, postWaits) && !p.state.CompareAndSwap(postWaits, postTaken) {
		<-p.done
	}
	if p.state.Load() == postGone && len(p.done) > 0 {
		<-interrupted
	}
}

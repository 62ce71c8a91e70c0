package envoy

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"

	"weir/internal/limited"
	"weir/test/wait"
)

// A stranger is a client that sends frames as it likes.
type stranger struct {
	*http2.Framer
	t    *testing.T
	conn net.Conn

	mu     sync.Mutex // of writing, and of the fields below
	window uint32     // what the server lets a stream send
	hold   bool       // answers no pings
	pings  [][8]byte
	mine   map[[8]byte]bool // pings of its own that were answered
	ended  chan struct{}    // the server has closed the connection
}

// strange connects a client that takes so many bytes of each answer.
func (s *site) strange(t *testing.T, takes uint32) *stranger {
	t.Helper()
	conn, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	c := &stranger{Framer: http2.NewFramer(conn, conn), t: t, conn: conn, window: 65535, mine: map[[8]byte]bool{}, ended: make(chan struct{})}
	t.Cleanup(func() { conn.Close(); <-c.ended })
	c.try(func() error {
		_, err := io.WriteString(conn, http2.ClientPreface)
		return err
	})
	c.try(func() error { return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: takes}) })
	go c.listen()
	return c
}

func (c *stranger) try(write func() error) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := write(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *stranger) listen() {
	defer close(c.ended)
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return
		}
		c.mu.Lock()
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if window, ok := f.Value(http2.SettingInitialWindowSize); ok {
				c.window = window
			}
			if !f.IsAck() {
				_ = c.WriteSettingsAck() // the connection may have ended
			}
		case *http2.PingFrame:
			switch {
			case f.IsAck():
				c.mine[f.Data] = true
			case c.hold:
				c.pings = append(c.pings, f.Data)
			default:
				_ = c.WritePing(true, f.Data) // as above
			}
		}
		c.mu.Unlock()
	}
}

// call begins a call.
func (c *stranger) call(stream uint32, method string) {
	c.t.Helper()
	var head bytes.Buffer
	h := hpack.NewEncoder(&head)
	for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		if err := h.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			c.t.Fatal(err)
		}
	}
	c.try(func() error {
		return c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: head.Bytes(), EndHeaders: true})
	})
}

// sync waits until the server has handled what was sent, and answers pings that were not answered.
func (c *stranger) sync() {
	c.t.Helper()
	c.try(func() error {
		c.hold = false
		for _, ping := range c.pings {
			if err := c.WritePing(true, ping); err != nil {
				return err
			}
		}
		c.pings = nil
		return c.WritePing(false, [8]byte{1})
	})
	wait.Until(c.t, "the server answers a ping", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.mine[[8]byte{1}]
	})
}

// message is what a client sends of a message.
func message(t *testing.T, m proto.Message) []byte {
	t.Helper()
	of, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(of))), of...)
}

// No client gets to send more of a call before it is read than at its start.
func TestTheWindowOfACallStays(t *testing.T) {
	s := start(t, nil)
	c := s.strange(t, 0)
	c.call(1, grpc_reflection_v1.ServerReflection_ServerReflectionInfo_FullMethodName)
	c.mu.Lock()
	c.hold = true
	c.mu.Unlock()
	for range 3 { // the library takes this for a fast network, when its ping is answered late
		c.try(func() error { return c.WriteData(1, false, make([]byte, 16<<10)) })
	}
	wait.Until(t, "the server asks for nothing, or for the time", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.window > 0
	})
	c.sync()
	c.sync()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.window > streamWindow {
		t.Errorf("a client may send %d bytes of a call that is not read", c.window)
	}
}

// Clients that do not take their answers make room for others.
func TestAnswersThatAreNotTaken(t *testing.T) {
	s := start(t, nil)
	asked := message(t, checkOf("203.0.113.7", "/"))
	var all []*stranger
	for range maxUnsent/maxStreams + 1 {
		c := s.strange(t, 0)
		all = append(all, c)
		for n := range uint32(maxStreams) {
			c.call(1+2*n, auth.Authorization_Check_FullMethodName)
			c.try(func() error { return c.WriteData(1+2*n, true, asked) })
		}
		c.sync()
		wait.Until(t, "they are answered, or closed", func() bool {
			select {
			case <-all[0].ended:
				return true
			default:
			}
			return s.untaken() == maxStreams*len(all)
		})
	}
	<-all[0].ended
	wait.Until(t, "its calls are forgotten", func() bool { return s.untaken() <= maxUnsent })
	if _, err := auth.NewAuthorizationClient(s.conn).Check(t.Context(), checkOf("203.0.113.7", "/")); err != nil {
		t.Error(err)
	}
	before := s.untaken()
	if early := s.calls.overdue(time.Now()); len(early) > 0 {
		t.Error("a client has no time to take its answers")
	}
	late := s.calls.overdue(time.Now().Add(limited.WritePatience + time.Minute))
	if len(late) != before || s.untaken() != 0 {
		t.Errorf("%d of %d answers are overdue", len(late), before)
	}
}

func (s *streams) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.of)
}

func (s *Server) untaken() int {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	return s.calls.unsent.Len()
}

// A message in tiny frames would take many times its bytes.
func TestTinyFrames(t *testing.T) {
	s := start(t, nil)
	c := s.strange(t, 65535)
	c.call(1, auth.Authorization_Check_FullMethodName)
	c.try(func() error { return c.WriteData(1, false, []byte{0, 0, 1, 0, 0}) })
	for range maxFrames + 1 {
		c.mu.Lock()
		err := c.WriteData(1, false, []byte{0})
		c.mu.Unlock()
		if err != nil {
			break
		}
	}
	<-c.ended
}

// Nothing is kept of a call that has ended, in any way.
func TestNothingIsKeptOfCalls(t *testing.T) {
	s := start(t, nil)
	asked := message(t, checkOf("203.0.113.7", "/"))
	c := s.strange(t, 65535)
	c.call(1, auth.Authorization_Check_FullMethodName) // answered
	c.try(func() error { return c.WriteData(1, true, asked) })
	c.call(3, auth.Authorization_Check_FullMethodName) // given up
	c.try(func() error { return c.WriteRSTStream(3, http2.ErrCodeCancel) })
	c.call(5, "/no.such/Method")
	c.call(7, auth.Authorization_Check_FullMethodName) // too long
	c.try(func() error { return c.WriteData(7, false, []byte{0, 255, 0, 0, 0}) })
	c.call(9, auth.Authorization_Check_FullMethodName) // ends with its connection
	wait.Until(t, "it waits for its message", func() bool {
		s.calls.mu.Lock()
		defer s.calls.mu.Unlock()
		return s.calls.unread.Len() == 1 && s.calls.all == 1 && s.calls.unsent.Len() == 0
	})
	on := s.calls.unread.Front().Value.(*call).on
	wait.Until(t, "no other is known", func() bool { return on.open() == 1 })
	c.conn.Close()
	wait.Until(t, "nothing is left", func() bool { return s.running() == 0 && s.untaken() == 0 && on.open() == 0 })
}

// Frames are found in pieces of any length.
func TestFrames(t *testing.T) {
	var sent bytes.Buffer
	w := http2.NewFramer(&sent, nil)
	for n := range uint32(20) {
		if err := w.WriteData(1+2*n, n%2 == 0, make([]byte, n*50)); err != nil {
			t.Fatal(err)
		}
	}
	for size := 1; size < 200; size++ {
		f, rest, next := frames{rest: greeting}, append([]byte(http2.ClientPreface), sent.Bytes()...), uint32(1)
		for len(rest) > 0 {
			piece := rest[:min(size, len(rest))]
			rest = rest[len(piece):]
			f.pass(piece, func(kind, flags byte, stream uint32) {
				if kind != frameData || stream != next || flags&endsStream == 0 != (next/2%2 == 1) {
					t.Fatalf("in pieces of %d: a frame %d of stream %d with %d, not of %d", size, kind, stream, flags, next)
				}
				next += 2
			})
		}
		if next != 41 || f.left() != frameHead {
			t.Fatalf("in pieces of %d: %d frames", size, next/2)
		}
	}
}

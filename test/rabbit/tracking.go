package rabbit

import (
	"encoding/binary"
	"io"
	"net"
	"time"
)

// StoreOffsets has the server remember an offset for several consumers of a stream, as clients of its stream protocol
// do. Each takes one offset of the stream, at which there is no message. The server was started with WithStreams.
func (s *Server) StoreOffsets(stream string, consumers ...string) {
	s.t.Helper()
	s.speak(func(c *streamClient) {
		for _, consumer := range consumers {
			c.send(10, text(consumer), text(stream), string(binary.BigEndian.AppendUint64(nil, 1)))
		}
	})
}

// PublishRaw publishes messages to a stream as they are, which may not be AMQP 1.0, and together. The server was started
// with WithStreams.
func (s *Server) PublishRaw(stream string, messages ...string) {
	s.t.Helper()
	s.speak(func(c *streamClient) {
		c.send(1, "\x00\x00\x00\x06\x01", text(""), text(stream)) // as the publisher 1
		c.await(answer | 1)
		parts := []string{"\x01", string(binary.BigEndian.AppendUint32(nil, uint32(len(messages))))}
		for i, message := range messages {
			parts = append(parts, string(binary.BigEndian.AppendUint64(nil, uint64(i))), string(binary.BigEndian.AppendUint32(nil, uint32(len(message)))), message)
		}
		c.send(2, parts...)
		c.await(3) // they are stored
	})
}

const answer = 0x8000 // to a command

// speak logs in as a client of the stream protocol, has it say something, and leaves when the server has read all of it.
func (s *Server) speak(say func(*streamClient)) {
	s.t.Helper()
	conn, err := net.DialTimeout("tcp", s.streams, 10*time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	c := &streamClient{s, conn}

	c.send(17, "\x00\x00\x00\x01", "\x00\x00\x00\x00") // no properties of ours
	c.await(answer | 17)
	c.send(18, "\x00\x00\x00\x02") // which mechanisms there are
	c.await(answer | 18)
	c.send(19, "\x00\x00\x00\x03", text("PLAIN"), "\x00\x00\x00\x0c\x00guest\x00guest")
	c.await(answer | 19)
	c.send(20, string(c.await(20))) // the limits that the server proposes
	c.send(21, "\x00\x00\x00\x04", text("/"))
	c.await(answer | 21)
	say(c)
	c.send(22, "\x00\x00\x00\x05", "\x00\x01", text("done")) // closes the connection, after all these
	c.await(answer | 22)
}

func text(s string) string { return string(binary.BigEndian.AppendUint16(nil, uint16(len(s)))) + s }

// A streamClient speaks the stream protocol: frames of a length, a command and its version.
type streamClient struct {
	server *Server
	conn   net.Conn
}

func (c *streamClient) send(command uint16, parts ...string) {
	frame := binary.BigEndian.AppendUint16(make([]byte, 4), command)
	frame = binary.BigEndian.AppendUint16(frame, 1)
	for _, part := range parts {
		frame = append(frame, part...)
	}
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	if _, err := c.conn.Write(frame); err != nil {
		c.server.t.Fatal(err)
	}
}

// await returns what follows the version in the next frame of a command.
func (c *streamClient) await(command uint16) []byte {
	for {
		var size [4]byte
		if _, err := io.ReadFull(c.conn, size[:]); err != nil {
			c.server.t.Fatal(err)
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c.conn, frame); err != nil {
			c.server.t.Fatal(err)
		}
		if binary.BigEndian.Uint16(frame) == command {
			return frame[4:]
		}
	}
}

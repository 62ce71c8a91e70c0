package rabbit_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// A front stands before a server. While it fails, it answers each consumer as a server with a fault of its own.
type front struct {
	address string
	server  string
	fails   atomic.Bool
}

func newFront(t *testing.T, server string) *front {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	f := &front{address: listener.Addr().String(), server: server}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go f.pass(client)
		}
	}()
	return f
}

const (
	consumes = "\x00\x3c\x00\x14"                                                                           // the class and the method
	closes   = "\x01\x00\x00\x00\x00\x00\x19\x00\x0a\x00\x32\x02\x1d\x0eINTERNAL_ERROR" + consumes + "\xce" // a frame
)

// pass passes on what a client and the server say.
func (f *front) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", f.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	_, err = io.CopyN(server, client, int64(len("AMQP0091")))
	for head := make([]byte, 7); err == nil; {
		if _, err = io.ReadFull(client, head); err != nil {
			return
		}
		rest := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
		if _, err = io.ReadFull(client, rest); err != nil {
			return
		}
		if f.fails.Load() && head[0] == 1 && bytes.HasPrefix(rest, []byte(consumes)) {
			_, _ = io.WriteString(client, closes)
			return
		}
		_, err = server.Write(append(head[:7:7], rest...))
	}
}

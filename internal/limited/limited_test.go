package limited

import (
	"errors"
	"net"
	"testing"
)

// Who cannot connect for want of room waits, and is served when there is some.
func TestConnectionsAreBounded(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{}, 2)
	l := Listen(inner, 1, func() { waits <- struct{}{} })
	for range 2 {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error, 2)
	accept := func() {
		conn, err := l.Accept()
		if err == nil {
			defer conn.Close()
		}
		accepted <- err
	}
	go accept()
	<-waits
	first.Close()
	if err := <-accepted; err != nil {
		t.Error(err)
	}
	l.(*limited).slots <- struct{}{}
	go accept()
	<-waits
	l.Close()
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}

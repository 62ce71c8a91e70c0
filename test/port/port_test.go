package port

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

const host = "127.0.0.1"

// Who names the port listens on it, again and again; until then nobody answers there.
func TestReservedIsListenedOn(t *testing.T) {
	address := Reserve(t, host)
	for range 3 {
		if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("nobody listens: %v", err)
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		connection, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		connection.Close()
		listener.Close()
	}
}

// Nobody who asks for any port is given a reserved one, however often they ask.
func TestReservedIsGivenToNobody(t *testing.T) {
	reserved := map[string]bool{}
	for range 200 {
		reserved[Reserve(t, host)] = true
	}
	if len(reserved) != 200 {
		t.Errorf("%d addresses", len(reserved))
	}
	for range 2000 {
		for _, given := range connect(t) {
			if reserved[given] {
				t.Fatalf("%s is reserved, and given to somebody", given)
			}
		}
	}
}

// connect gives both ends of a connection, for which any ports would do.
func connect(t *testing.T) (ends []string) {
	t.Helper()
	listener, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	connection, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	return []string{listener.Addr().String(), connection.LocalAddr().String()}
}

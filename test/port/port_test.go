package port

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

const host = "127.0.0.1"

// A server that names the port can listen on it, again and again; until then connections are refused.
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

// A process that asks for any port never gets a reserved one.
func TestReservedIsNotGivenAway(t *testing.T) {
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

// connect returns both ends of a connection, which could have any ports.
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

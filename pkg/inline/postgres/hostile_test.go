package postgres_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"weir/pkg/inline/postgres"
	"weir/pkg/inline/tables"
)

// A server that sends without an end, in one message or in many, is left.
func TestAServerThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	parameter := "S\x00\x00\x40\x06x\x00" + strings.Repeat("x", 1<<14-1) + "\x00"
	for name, text := range map[string]string{"one message": "S\x3f\xff\xff\xff", "parameters": parameter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			sent := make(chan int, 100)
			go func() {
				for {
					c, err := listener.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						_, _ = c.Read(make([]byte, 4096))
						n, err := c.Write([]byte("R\x00\x00\x00\x08\x00\x00\x00\x00" + text))
						for err == nil && n < 4*tables.MostAnswer {
							var more int
							more, err = c.Write([]byte(parameter))
							n += more
						}
						select {
						case sent <- n:
						default:
						}
					}()
				}
			}()
			b, err := postgres.Open(postgres.Options{URL: "postgres://" + listener.Addr().String() + "/limits?sslmode=disable", User: "weir"})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			select {
			case n := <-sent:
				if n > 2*tables.MostAnswer {
					t.Errorf("%d bytes are read", n)
				}
			case <-time.After(20 * time.Second):
				t.Error("the connection is not closed")
			}
		})
	}
}

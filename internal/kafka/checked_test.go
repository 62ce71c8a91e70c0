package kafka

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// lying is a broker whose answers to requests of a kind have few bytes and claim many elements.
func lying(t *testing.T, key kmsg.Key, wrongID bool) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	answer := func(conn net.Conn) error {
		var head [12]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head[:]))-8); err != nil {
			return err
		}
		asked := int16(binary.BigEndian.Uint16(head[4:]))
		body := binary.BigEndian.AppendUint32([]byte{0, 0}, 1<<31-1) // no error, or half of a throttling, and so many elements
		switch {
		case asked == key.Int16() && key == kmsg.Metadata:
			body = binary.BigEndian.AppendUint32(make([]byte, 4), 1<<31-1)
		case asked == kmsg.ApiVersions.Int16() && key != kmsg.ApiVersions:
			body = append(binary.BigEndian.AppendUint32([]byte{0, 0}, 2), 0, 3, 0, 0, 0, 8, 0, 18, 0, 0, 0, 0)
		}
		if wrongID {
			head[11]++
		}
		body = append(head[8:12:12], append(body, make([]byte, 20)...)...)
		_, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for answer(conn) == nil {
				}
			}()
		}
	}()
	return l.Addr().String()
}

// Numbers of elements that a broker only claims cost no memory, and do not end the process.
func TestABrokerThatClaimsMany(t *testing.T) {
	for name, address := range map[string]string{
		"versions": lying(t, kmsg.ApiVersions, false), "metadata": lying(t, kmsg.Metadata, false), "to another request": lying(t, kmsg.ApiVersions, true),
	} {
		client, err := Open(Config{Brokers: []string{address}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Offsets(t.Context(), "logs"); err == nil || !strings.Contains(err.Error(), errAnswer.Error()) {
			t.Errorf("%s: %v", name, err)
		}
		client.Close()
	}
}

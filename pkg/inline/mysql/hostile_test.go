package mysql_test

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"weir/pkg/inline/mysql"
)

// packet is a packet of the protocol.
func packet(sequence byte, payload string) string {
	return string(binary.LittleEndian.AppendUint32(nil, uint32(len(payload))|uint32(sequence)<<24)) + payload
}

// greet lets a client in, and returns when it has sent its second command: the first changes settings.
func greet(c net.Conn) {
	greeting := "\x0a8.0.36\x00" + "\x07\x00\x00\x00" + "AAAAAAAA\x00" + "\xdf\xf7\x21\x02\x00\x0f\x00\x15" + strings.Repeat("\x00", 10) +
		"BBBBBBBBBBBB\x00mysql_native_password\x00"
	const ok, okAndMore = "\x00\x00\x00\x02\x00\x00\x00", "\x00\x00\x00\x0a\x00\x00\x00"
	for _, answer := range []string{packet(0, greeting), packet(2, ok), packet(1, okAndMore) + packet(2, ok)} {
		_, _ = io.WriteString(c, answer)
		var head [4]byte
		_, _ = io.ReadFull(c, head[:])
		head[3] = 0
		_, _ = io.CopyN(io.Discard, c, int64(binary.LittleEndian.Uint32(head[:])))
	}
}

// hugeKey lets a client ask for a key, and sends one that takes hours.
func hugeKey(c net.Conn) {
	greeting := "\x0a8.0.36\x00" + "\x07\x00\x00\x00" + "AAAAAAAA\x00" + "\xdf\xf7\x21\x02\x00\x0f\x00\x15" + strings.Repeat("\x00", 10) +
		"BBBBBBBBBBBB\x00caching_sha2_password\x00"
	_, _ = io.WriteString(c, packet(0, greeting))
	_, _ = c.Read(make([]byte, 4096))
	_, _ = io.WriteString(c, packet(2, "\x01\x04"))
	_, _ = c.Read(make([]byte, 4096))
	key := &rsa.PublicKey{N: new(big.Int).SetBytes(bytes.Repeat([]byte{255}, 256<<10)), E: 1<<31 - 1}
	text, _ := x509.MarshalPKIXPublicKey(key)
	_, _ = io.WriteString(c, packet(4, "\x01"+string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: text}))))
}

// A server that lies gets no memory, and does not end the process. Neither its connections are kept, nor those to a node
// of Galera that has lost its cluster.
func TestAServerThatClaimsMuch(t *testing.T) {
	t.Parallel()
	column := packet(2, "\x03def\x00\x00\x00\x01a\x00\x0c\x21\x00\x00\x00\x00\x00\xfd\x00\x00\x00\x00\x00")
	for name, server := range map[string]func(net.Conn){
		"a greeting of one byte": func(c net.Conn) { _, _ = io.WriteString(c, packet(0, "\xff")) },
		"an error of two bytes":  func(c net.Conn) { greet(c); _, _ = io.WriteString(c, packet(1, "\xff\x01")) },
		"a success of one byte":  func(c net.Conn) { greet(c); _, _ = io.WriteString(c, packet(1, "\x00")) },
		"a million of columns":   func(c net.Conn) { greet(c); _, _ = io.WriteString(c, packet(1, "\xfd\x40\x42\x0f")) },
		"100 thousand millions": func(c net.Conn) {
			greet(c)
			_, _ = io.WriteString(c, packet(1, "\xfe\x00\xe8\x76\x48\x17\x00\x00\x00"))
		},
		"a row of one byte": func(c net.Conn) {
			greet(c)
			_, _ = io.WriteString(c, packet(1, "\x01")+column+packet(3, "\xfe\x00\x00\x02\x00")+packet(4, "\xfc"))
		},
		"a row that does not end": func(c net.Conn) { greet(c); endless(c, packet(1, "\x01")+column) },
		"columns that do not end": func(c net.Conn) { greet(c); endless(c, packet(1, "\xfc\xff\xff")) },
		"a node without its cluster": func(c net.Conn) {
			greet(c)
			_, _ = io.WriteString(c, packet(1, "\xff\x17\x04#08S01WSREP has not yet prepared node for application use"))
		},
		"a key that takes hours":   hugeKey,
		"a log-in that never ends": func(c net.Conn) { endless(c, "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			ended := make(chan struct{}, 1)
			go func() {
				for {
					c, err := listener.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						server(c)
						_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
						if _, err := io.Copy(io.Discard, c); err == nil || !strings.Contains(err.Error(), "timeout") {
							select {
							case ended <- struct{}{}:
							default:
							}
						}
					}()
				}
			}()
			b, err := mysql.Open(mysql.Options{DSN: "tcp(" + listener.Addr().String() + ")/limits", User: "weir", ReadPassword: func() (string, error) { return "hush", nil }})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Error("the connection is not closed")
			}
		})
	}
}

// endless sends large packets until the client has had enough.
func endless(c net.Conn, first string) {
	body := strings.Repeat("x", 1<<24-1)
	if _, err := io.WriteString(c, first); err != nil {
		return
	}
	for sequence := byte(strings.Count(first, "\x03def") + min(1, len(first))); ; sequence++ {
		sent, err := io.WriteString(c, packet(sequence, body))
		if err != nil || sent == 0 {
			return
		}
	}
}

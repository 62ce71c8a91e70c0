package edges

import (
	"bufio"
	"io"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A reached is a request that an application got.
type reached struct{ line, host string }

func isAny(reached) bool { return true }

// isSignin reports whether an application that decodes and cleans paths would take the request for /signin.
func isSignin(r reached) bool {
	fields := strings.FieldsFunc(r.line, func(c rune) bool { return c == ' ' || c == '\t' })
	if len(fields) < 2 {
		return false
	}
	target, _, _ := strings.Cut(fields[1], "?")
	target, _, _ = strings.Cut(target, "#")
	decoded, err := url.PathUnescape(target)
	last := decoded[strings.LastIndexByte(decoded, '/')+1:]
	return err == nil && strings.HasPrefix(decoded, "/") && path.Clean(decoded) == "/signin" && last == "signin" // /signin/ is another path
}

func isShop(r reached) bool {
	host, _, _ := strings.Cut(strings.ToLower(r.host), ":")
	return strings.TrimSuffix(host, ".") == "shop.example"
}

// An application takes whatever its edge passes on.
type application struct {
	mu  sync.Mutex
	got []reached
}

// reached are the requests that it got, of those in question.
func (a *application) reached(is func(reached) bool) (all []reached) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.got {
		if is(r) {
			all = append(all, r)
		}
	}
	return all
}

func (a *application) serve(t *testing.T) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go a.answer(c)
		}
	}()
	return l.Addr().String()
}

// answer reads requests as an edge writes them: with one length, or in chunks.
func (a *application) answer(c net.Conn) {
	defer c.Close()
	for in := bufio.NewReader(c); ; {
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		var r reached
		length, chunked := int64(0), false
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			line = strings.TrimRight(line, "\r\n")
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimSpace(value)
			switch {
			case line == "":
			case r.line == "":
				r.line = line
				continue
			case strings.EqualFold(name, "host"):
				r.host = value
				continue
			case strings.EqualFold(name, "content-length"):
				length, _ = strconv.ParseInt(value, 10, 64)
				continue
			case strings.EqualFold(name, "transfer-encoding"):
				chunked = true
				continue
			default:
				continue
			}
			break
		}
		a.mu.Lock()
		a.got = append(a.got, r)
		a.mu.Unlock()
		if _, err := io.CopyN(io.Discard, in, length); err != nil {
			return
		}
		for chunked {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			size, _ := strconv.ParseInt(strings.TrimSpace(line), 16, 64)
			if _, err := io.CopyN(io.Discard, in, size+2); err != nil {
				return
			}
			chunked = size > 0
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n"+map[bool]string{false: "the application"}[strings.HasPrefix(r.line, "HEAD ")]); err != nil {
			return
		}
	}
}

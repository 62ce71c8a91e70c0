package edges

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A sent request has bytes for HTTP/1, or headers and a body for HTTP/2.
type sent struct {
	http2   bool
	bytes   string
	headers []hpack.HeaderField
	body    string
	more    bool          // a common one is behind it on the connection, for HTTP/2
	ends    bool          // the client ends its half of the connection
	away    time.Duration // then it is gone
	patient bool          // it has an answer, which may take a while
}

// common is a request as all clients send them.
var common = sent{bytes: "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", patient: true}

var commonHeaders = []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "h"}, {Name: ":path", Value: "/"}}

func (r sent) String() string {
	if r.http2 {
		return fmt.Sprintf("HTTP/2 %q, body %q", r.headers, r.body)
	}
	return fmt.Sprintf("%q", r.bytes)
}

// send waits for the end of the response, or for a moment if it has none.
func (r sent) send(from, address string) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	c, err := dialer.Dial("tcp", address)
	if err != nil {
		return
	}
	defer c.Close()
	patience := 200 * time.Millisecond
	if r.patient {
		patience = 2 * time.Second
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	if r.http2 {
		r.sendFrames(c)
		return
	}
	_, _ = io.WriteString(c, r.bytes)
	if r.ends {
		_ = c.(*net.TCPConn).CloseWrite()
	}
	if r.away > 0 {
		r.goAway(c)
		return
	}
	for buffer := make([]byte, 4096); ; {
		if _, err := c.Read(buffer); err != nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(50 * time.Millisecond))
	}
}

func (r sent) goAway(c net.Conn) {
	time.Sleep(r.away)
	_ = c.(*net.TCPConn).SetLinger(0)
}

func (r sent) sendFrames(c net.Conn) {
	_, _ = io.WriteString(c, http2.ClientPreface)
	framer := http2.NewFramer(c, c)
	framer.AllowIllegalWrites = true
	_ = framer.WriteSettings()
	var block bytes.Buffer
	encoder, last := hpack.NewEncoder(&block), uint32(1)
	encode := func(fields []hpack.HeaderField) []byte {
		block.Reset()
		for _, field := range fields {
			_ = encoder.WriteField(field)
		}
		return block.Bytes()
	}
	writeRequest(framer, 1, encode(r.headers), r.body)
	if r.more {
		last = 3
		writeRequest(framer, last, encode(commonHeaders), "")
	}
	if r.away > 0 {
		time.Sleep(r.away)
		_ = framer.WriteRSTStream(1, http2.ErrCodeCancel)
		if r.ends {
			_ = c.(*net.TCPConn).SetLinger(0)
			return
		}
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		if h := frame.Header(); h.StreamID == last && (h.Type == http2.FrameRSTStream || h.Flags.Has(http2.FlagDataEndStream) && h.Type <= http2.FrameHeaders) || h.Type == http2.FrameGoAway {
			return
		}
	}
}

func writeRequest(framer *http2.Framer, stream uint32, block []byte, body string) {
	const most = 16 << 10 // of a frame
	part := block[:min(len(block), most)]
	block = block[len(part):]
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: part, EndHeaders: len(block) == 0, EndStream: body == ""})
	for len(block) > 0 {
		part = block[:min(len(block), most)]
		block = block[len(part):]
		_ = framer.WriteContinuation(stream, len(block) == 0, part)
	}
	if body != "" {
		_ = framer.WriteData(stream, true, []byte(body))
	}
}

// A maker makes requests at random.
type maker struct{ *rand.Rand }

func (m maker) pick(of ...string) string { return of[m.IntN(len(of))] }

// often picks the first, with few exceptions: a request that is odd in many ways does not get far.
func (m maker) often(first string, of ...string) string {
	if m.IntN(8) > 0 {
		return first
	}
	return m.pick(of...)
}

func (m maker) long() string {
	return strings.Repeat(m.pick("a", "/a", "%61", "\"", "&"), []int{1100, 1100, 4000, 9000, 33000}[m.IntN(5)])
}

func (m maker) junk() string {
	return m.pick("\"", "\\", " ", "\t", "#", "?", "&", ";", ",", "'", "`", "<", "[", "]", "{", "|", "^", "%", "%%", "%00", "%0a", "%zz", "%22", "%5c", "%2f", "%2e", "%3f", "%23", "%u002f", "\x00",
		"\x01", "\x0b", "\x0c", "\x7f", "\x80", "\xa0", "\xc2\xa0", "\xe9", "\xff", "é", "\u2028", "\u3002", "\uff0f", "@", ":", "*", "+", "$", "~", "=", "..", "/", "//", "/./", "/../", "/..;/", "HTTP/1.1")
}

func (m maker) host() string {
	host := m.pick("h", "shop.example", "shop.example", "SHOP.Example", "shop.example:80", "shop.example.", "shop.example:", "", "-", "[::1]", "[::1]:80", "1.2.3.4", "u@shop.example", "u:p@h", "xn--99999999\xc3\xa9", "h:99999999",
		"shop.example/signin", "shop.example?x", "shop.example#x", "localhost", "127.0.0.1", "\"", "a b", "h,9.9.9.9")
	if m.IntN(6) == 0 {
		at := m.IntN(len(host) + 1)
		host = host[:at] + m.junk() + host[at:]
	}
	if m.IntN(40) == 0 {
		host += m.long()
	}
	return host
}

// target is a path in some spelling.
func (m maker) target() string {
	target := m.pick("/signin", "/signin", "/signin", "/", "/x/y")
	for range m.IntN(3) {
		at := m.IntN(len(target) + 1)
		switch m.IntN(8) {
		case 0, 1, 2:
			target = target[:at] + m.junk() + target[at:]
		case 3, 4:
			if at < len(target) {
				target = target[:at] + fmt.Sprintf(m.pick("%%%02x", "%%%02X", "%%25%02x"), target[at]) + target[at+1:]
			}
		case 5:
			target = m.pick("/", "/.", "/..", "/x/..", "/x/%2e%2e", "/;/..", "/x\\..", "/%2e", "/x?/..", "/x#/..") + target
		case 6:
			target += m.pick("/", "?a=b", "?", "#f", ";p", "/.", "/x/..", ".", "%20", "?q=\"", "?a=b?/../x")
		case 7:
			target = strings.ToUpper(target[:at]) + target[at:]
		}
	}
	if m.IntN(6) == 0 {
		target = m.pick("http://"+m.host(), "http:", "//"+m.host(), "a+b://h", "https://"+m.host(), "*", "h:80", "HTTP://"+m.host(), "http:/", "http:///", "http://u:p@"+m.host(), "?", "ftp://h", "") + target
	}
	if m.IntN(40) == 0 {
		target = "/" + m.long() + "/../.." + target
	}
	if m.IntN(40) == 0 {
		target += "?" + m.long()
	}
	return target
}

// header is the name and the value of a header that is about the request, its client or its connection.
func (m maker) header() (string, string) {
	name := m.pick("X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Original-URI", "X-Original-URL", "X-Original-Method", "X-Forwarded-Uri", "X-Forwarded-Host", "X-Forwarded-Method", "X-User", "X-Weir", "X-Weir-Request",
		"Connection", "Connection", "Upgrade", "TE", "Trailer", "Expect", "Range", "Cookie", "Authorization", "User-Agent", "Referer", "Proxy-Connection", "Keep-Alive", "HTTP2-Settings", "X-Rewrite-Url", "X-Request-Id",
		"X-Http-Method-Override", "Origin", "Accept-Encoding", "If-Modified-Since", "Sec-WebSocket-Key", "Content-Type", "Via", "Early-Data", "Max-Forwards", "X_Forwarded_For", "traceparent", "X-Envoy-Original-Path", "grpc-timeout", "X-Envoy-Upstream-Rq-Timeout-Ms")
	var value string
	switch name {
	case "Connection":
		value = m.pick("close", "keep-alive", "upgrade", "Upgrade, HTTP2-Settings", "X-Forwarded-For, X-Original-URI, X-Forwarded-Uri, X-Forwarded-Method, X-Forwarded-Host, Host, User-Agent", "X-Weir", "close, Content-Length", "Transfer-Encoding", "", "x\"y")
	case "Upgrade":
		value = m.pick("websocket", "h2c", "TLS/1.0", "HTTP/2.0", "\"")
	case "Expect":
		value = m.pick("100-continue", "200-ok", "")
	case "Authorization":
		value = m.pick("Basic YWxpY2U6eA==", "Basic", "Basic YSIgW2I6eA==", "Bearer x.y.z", "Basic "+strings.Repeat("YWxp", 100), "Basic OTkuOS45LjkgLSAtIFs6eA==")
	case "Cookie":
		value = m.pick("a=b", "a=\"b", ";", strings.Repeat("a=b; ", 500))
	case "Range":
		value = m.pick("bytes=0-1", "bytes=-", "x")
	default:
		value = m.pick("9.9.9.9", "127.0.0.1", goodClient, "9.9.9.9\" \"x", "/", "http://h/", "OPTIONS", "for=\"[::1]\"", "", "\"", "\\", "} {", "\xff", "x\" 200 1 \"-\" \"-", "1m", "1", strings.Repeat("9.9.9.9, ", 200))
	}
	if m.IntN(60) == 0 {
		value += m.long()
	}
	return name, value
}

func (m maker) request() sent {
	if m.IntN(3) == 0 {
		return m.request2()
	}
	end := m.often("\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r\r\n")
	space := m.often(" ", " ", " ", " ", " ", "  ", "\t", "\r")
	text := m.often("", "", "", "", "", "", "\r\n", "\n\n", " ") + m.method() + space + m.target() + space +
		m.often("HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.1 x", "HTTP/01.1", "HTTP/1.1\"", "") + end
	for range []int{1, 1, 1, 1, 1, 1, 1, 1, 0, 2}[m.IntN(10)] {
		text += m.often("Host: ", "Host: ", "Host:", "HOST: ", "host:\t", " Host: ", "Host : ") + m.often("h", m.host()) + end
	}
	for range m.IntN(4) {
		name, value := m.header()
		text += name + m.often(": ", ": ", ": ", ":", " : ", ":\t") + value + end
	}
	if m.IntN(30) == 0 {
		text += strings.Repeat("X-A: b"+end, []int{101, 1001}[m.IntN(2)])
	}
	if m.IntN(30) == 0 {
		text += m.pick("X-A: b"+end+" folded", ": x", "X", "\x00: x", "X\"Y: z", "X Y: z") + end
	}
	body := ""
	if m.IntN(5) == 0 {
		inner := "GET " + m.target() + " HTTP/1.1\r\nHost: h\r\n\r\n"
		chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(inner), inner)
		switch m.IntN(8) {
		case 0:
			text += "Content-Length: 0" + end
			body = inner
		case 1:
			text += fmt.Sprintf("Content-Length: %d", len(inner)) + end
			body = inner
		case 2:
			text += "Transfer-Encoding: chunked" + end
			body = chunks
		case 3:
			text += fmt.Sprintf("Content-Length: %d%sTransfer-Encoding: %s", m.IntN(len(chunks)), end, m.pick("chunked", "Chunked", " chunked", "x, chunked", "chunked, x", "\x0bchunked", "identity", "chunked\"")) + end
			body = chunks
		case 4:
			text += fmt.Sprintf("Content-Length: %s", m.pick("+5", "5, 5", "5 5", "0x5", "-1", "99999999999999999999", "5\r\nContent-Length: 6", "")) + end
			body = "hello" + inner
		case 5:
			text += "Transfer-Encoding: chunked" + end
			body = m.pick("0\r\nX-Forwarded-For: 9.9.9.9\r\n\r\n", "5;x=\"y\"\r\nhello\r\n0\r\n\r\n", "5\nhello\n0\n\n", "zz\r\n", "0\r\n\r\n"+inner, "FFFFFFFFFFFFFFFF1\r\n")
		default:
			body = inner + inner // the next requests on the connection
		}
	}
	if body == "" {
		text += "Connection: close" + end
	}
	return sent{bytes: text + end + body, ends: m.IntN(5) == 0, away: m.away()}
}

// away is mostly no time: the client waits for the answer.
func (m maker) away() time.Duration {
	if m.IntN(8) > 0 {
		return 0
	}
	return time.Duration(1 + m.IntN(3_000_000))
}

func (m maker) method() string {
	return m.often("GET", "GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "get", "Get", "FOO", "PRI", "PURGE", "M-SEARCH", "G\"T", "", strings.Repeat("A", 300))
}

func (m maker) request2() sent {
	headers := []hpack.HeaderField{{Name: ":method", Value: m.method()}, {Name: ":scheme", Value: m.often("http", "http", "https", "ftp", "", "http://h/", "a\"b")}}
	if m.IntN(8) > 0 {
		headers = append(headers, hpack.HeaderField{Name: ":authority", Value: m.often("h", m.host())})
	}
	if m.IntN(20) > 0 {
		headers = append(headers, hpack.HeaderField{Name: ":path", Value: m.target()})
	}
	if m.IntN(20) == 0 {
		headers = append(headers, hpack.HeaderField{Name: m.pick(":protocol", ":status", ":path", ":authority", ":x"), Value: m.pick("websocket", "connect-udp", "200", "/", "h")})
	}
	if m.IntN(4) == 0 {
		headers = append(headers, hpack.HeaderField{Name: "host", Value: m.host()})
	}
	for range m.IntN(4) {
		name, value := m.header()
		if m.IntN(20) > 0 {
			name = strings.ToLower(name)
		}
		headers = append(headers, hpack.HeaderField{Name: name, Value: value})
	}
	if m.IntN(20) == 0 {
		headers = append(headers, hpack.HeaderField{Name: m.pick("x\r\nx-forwarded-for", "", "x y", "x:", "\x00", "transfer-encoding", "content-length"), Value: m.pick("chunked", "5", "a\r\nX-Forwarded-For: 9.9.9.9", "a\nb", "\x00")})
	}
	if m.IntN(10) == 0 {
		m.Shuffle(len(headers), func(i, j int) { headers[i], headers[j] = headers[j], headers[i] })
	}
	return sent{http2: true, headers: headers, more: m.IntN(4) == 0, ends: m.IntN(2) == 0, away: m.away(), body: m.often("", "", "hello", "GET /signin HTTP/1.1\r\nHost: h\r\n\r\n")}
}

// as is a request for a path, with the headers and others at random.
func (m maker) as(http2 bool, path string, headers [][2]string) sent {
	for range m.IntN(3) {
		name, value := m.header()
		headers = append(headers, [2]string{name, value})
	}
	m.Shuffle(len(headers), func(i, j int) { headers[i], headers[j] = headers[j], headers[i] })
	if http2 && m.IntN(2) == 0 {
		fields := slices.Clone(commonHeaders)
		fields[len(fields)-1].Value = path
		for _, h := range headers {
			fields = append(fields, hpack.HeaderField{Name: strings.ToLower(h[0]), Value: h[1]})
		}
		return sent{http2: true, headers: fields, patient: true}
	}
	text := "GET " + path + " HTTP/1.1\r\nHost: h\r\n"
	for _, h := range headers {
		text += h[0] + ": " + h[1] + "\r\n"
	}
	return sent{bytes: text + "Connection: close\r\n\r\n", patient: true}
}

// password is a header with the user alice and a password.
func (m maker) password(of string) [2]string {
	return [2]string{"Authorization", m.often("Basic ", "basic ", "BASIC ", "Basic  ") + base64.StdEncoding.EncodeToString([]byte("alice:"+of))}
}

// claims are headers of a client without the password of alice.
func (m maker) claims() (headers [][2]string) {
	for range 1 + m.IntN(2) {
		switch m.IntN(4) {
		case 0, 1:
			headers = append(headers, m.password(m.pick("wrong", "", "Secret", "secret ", "secret:", "SECRET", " secret", "x:secret")))
		case 2:
			headers = append(headers, [2]string{m.pick("X-User", "x-user", "X_User", "X-USER", "X-Forwarded-User", "Remote-User", "X-Weir-User"), m.often("alice", "alice,alice", "Alice", "alice ", "{http.auth.user.id}")})
		default:
			headers = append(headers, [2]string{"Authorization", m.pick("Digest username=\"alice\"", "Bearer alice", "Basic", "Basic YWxpY2U=", "alice", "Basic !", "Negotiate YWxpY2U6")})
		}
	}
	return headers
}

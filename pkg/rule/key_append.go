package rule

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"weir/internal/address"
	"weir/internal/keytext"
	"weir/pkg/request"
)

// MaxKeyBytes is the length of the longest key. A longer one becomes its beginning, "…#" and a hash of the complete
// key.
const MaxKeyBytes = keytext.MaxBytes

// Append appends the canonical form of r's key to b, with the path in the default form; a Judge uses the form that its
// rules require. If r lacks a part of the key, ok is false and b is unchanged.
func (k Key) Append(b []byte, r *request.Request) (key []byte, ok bool) {
	s := subject{Request: r}
	return k.append(b, &s)
}

func (k Key) append(b []byte, s *subject) (key []byte, ok bool) {
	start := len(b)
	for i := range k.parts {
		if i > 0 {
			b = append(b, ' ')
		}
		before := len(b)
		if k.parts[i].secret {
			b = s.appendHidden(b, k.secret, k.parts[i].name)
		} else {
			b = k.parts[i].append(b, s, len(k.parts) > 1)
		}
		// A part that is missing makes no key, rather than one with a gap: all requests without the part would share
		// it.
		if len(b) == before {
			return b[:start], false
		}
	}

	return keytext.Cut(b, start), true
}

// append appends nothing when r lacks the part.
func (p *part) append(b []byte, s *subject, listed bool) []byte {
	r := s.Request
	switch p.name {
	case "ip":
		return p.appendAddress(b, r.IP)
	case "user":
		return keytext.Append(b, r.User, listed)
	case "host":
		return appendHost(b, r.Host, listed)
	case "path":
		return keytext.Append(b, s.path(), listed)
	case "raw_path":
		return keytext.Append(b, r.Path, listed)
	case "method":
		return keytext.Append(b, s.method(), listed)
	case "query":
		return keytext.Append(b, r.Query, listed)
	case "agent":
		return keytext.Append(b, r.Agent, listed)
	case "referrer":
		return keytext.Append(b, r.Referrer, listed)
	case "status":
		if r.Status == 0 {
			return b
		}
		return strconv.AppendInt(b, int64(r.Status), 10)
	}

	// Every other name is of a field of databases, or of a further one (parsePart).
	return keytext.Append(b, s.further(p.name), listed)
}

// field is the value of a further field, or "".
func field(r *request.Request, name string) string {
	for i := range r.Fields {
		if r.Fields[i].Name == name {
			return r.Fields[i].Value
		}
	}
	return ""
}

func (p *part) appendAddress(b []byte, ip netip.Addr) []byte {
	if !ip.IsValid() {
		return b
	}
	ip = address.Plain(ip)
	bits := p.bits6
	if ip.Is4() {
		bits = p.bits4
	}
	if bits == ip.BitLen() {
		return ip.AppendTo(b)
	}

	prefix, _ := ip.Prefix(bits)
	return prefix.AppendTo(b)
}

// appendHost appends a host name in lower case, without port and trailing dot.
func appendHost(b []byte, host string, listed bool) []byte {
	start := len(b)
	b = keytext.Append(b, bareHost(host), listed)
	lower(b[start:])
	return b
}

// appendLower appends text with its ASCII letters in lower case.
func appendLower(b []byte, text string) []byte {
	start := len(b)
	b = append(b, text...)
	lower(b[start:])
	return b
}

// lower changes ASCII letters to lower case. Escapes contain no others.
func lower(b []byte) {
	for i, c := range b {
		if isUpper(rune(c)) {
			b[i] = c + 'a' - 'A'
		}
	}
}

func isUpper(c rune) bool { return 'A' <= c && c <= 'Z' }

func isLower(c rune) bool { return 'a' <= c && c <= 'z' }

// appendUpper appends text with its ASCII letters in upper case.
func appendUpper(b []byte, text string) []byte {
	for i := range len(text) {
		c := text[i]
		if isLower(rune(c)) {
			c -= 'a' - 'A'
		}
		b = append(b, c)
	}
	return b
}

// PlainMethod is a method in the form of rules: with its ASCII letters in upper case.
func PlainMethod(method string) string {
	if strings.IndexFunc(method, isLower) < 0 {
		return method
	}
	return string(appendUpper(nil, method))
}

// PlainHost is a host in the form of rules: in lower case, without port, brackets and the dot at its end.
func PlainHost(host string) string {
	host = bareHost(host)
	if strings.IndexFunc(host, isUpper) < 0 {
		return host
	}
	return string(appendLower(nil, host))
}

// bareHost is a host without port, brackets and trailing dot; an IPv6 address in its one spelling. It is the host that
// an edge passes on, where that is another one than the client named.
func bareHost(host string) string {
	host = passedOn(host)
	host = host[strings.LastIndexByte(host, '@')+1:] // without a user, as in logs
	if rest, bracket := strings.CutPrefix(host, "["); bracket {
		if end := strings.IndexByte(rest, ']'); end >= 0 {
			return oneSpelling(rest[:end])
		}
	}
	if colon := strings.IndexByte(host, ':'); colon >= 0 {
		if strings.IndexByte(host[colon+1:], ':') >= 0 {
			if ip, err := netip.ParseAddr(strings.TrimRight(host, ".")); err == nil {
				return ip.String()
			}
		}
		host = host[:colon] // also of name:80:80, which nginx serves as name
	}
	return strings.TrimRight(host, ".")
}

// passedOn is the host that Caddy passes on over HTTP/2. It ends before a slash or a space, and other letters than ASCII
// have their ASCII form, in which wide letters are the usual ones.
func passedOn(host string) string {
	if end := strings.IndexAny(host, "/ "); end >= 0 {
		host = host[:end]
	}
	if strings.IndexFunc(host, isBeyondASCII) < 0 || !utf8.ValidString(host) {
		return host
	}

	name, _, _ := strings.Cut(host, ":")
	if len(name) > maxConverted {
		name = strings.Map(withoutIgnored, name)
	}
	// The conversion takes time by the square of the length, so a long name stays as it is. It is the name of no site:
	// in ASCII it would have more than the 253 letters of a name.
	if len(name) > maxConverted {
		return name
	}

	name, _ = lookup.ToASCII(name) // of a name that is not valid, as much as can be converted
	if end := strings.IndexAny(name, "/ "); end >= 0 {
		name = name[:end]
	}
	return name
}

// maxConverted is longer than a name of 253 letters that each take four bytes.
const maxConverted = 1100

// withoutIgnored leaves out the letters that the conversion leaves out, which a client may repeat without end.
func withoutIgnored(r rune) rune {
	if unicode.In(r, ignored) {
		return -1
	}
	return r
}

// ignored are the letters with the status ignored in Unicode's IDNA mapping table.
var ignored = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x00ad, Hi: 0x00ad, Stride: 1}, {Lo: 0x034f, Hi: 0x034f, Stride: 1}, {Lo: 0x180b, Hi: 0x180d, Stride: 1}, {Lo: 0x180f, Hi: 0x180f, Stride: 1},
		{Lo: 0x200b, Hi: 0x200b, Stride: 1}, {Lo: 0x2060, Hi: 0x2060, Stride: 1}, {Lo: 0x2064, Hi: 0x2064, Stride: 1}, {Lo: 0xfe00, Hi: 0xfe0f, Stride: 1}, {Lo: 0xfeff, Hi: 0xfeff, Stride: 1}},
	R32:         []unicode.Range32{{Lo: 0x1bca0, Hi: 0x1bca3, Stride: 1}, {Lo: 0xe0100, Hi: 0xe01ef, Stride: 1}},
	LatinOffset: 1,
}

// lookup converts names as browsers and Go's client do, without their limits on which names are valid.
var lookup = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false))

func isBeyondASCII(r rune) bool { return r >= utf8.RuneSelf }

func oneSpelling(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	return ip.String()
}

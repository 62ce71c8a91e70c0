package request

import (
	"errors"
	"strings"
)

// A line may be cut off: HAProxy cuts at 1,024 bytes by default, syslog daemons at 1, 2 or 8 KiB. A client can make its
// lines that long. So such a line is still counted if its time and address stand before the cut.

// minCut is the length of message that every receiver of syslog must accept (RFC 5424): a shorter line was not cut off.
const minCut = 480

// A cutPart says what the rest of a field is where the line was cut off within it. The beginning of a path or an agent is as
// good as any that a client could have sent. The beginning of an address, a user or a header that the client's proxies
// write is another one's: a client must not choose it by the length of its line.
type cutPart uint8

const (
	partDropped cutPart = iota // the field is not known
	partKept
	partNeeded // the line is unread
)

// partOf is what the rest of a variable is.
func partOf(v *variable) cutPart {
	part := partDropped
	for ; v != nil; v = v.next {
		switch v.slot {
		case slotTime, slotIP:
			return partNeeded
		case slotPath, slotQuery, slotRequestLine, slotAgent, slotReferrer:
			part = partKept
		}
	}
	return part
}

// knownBefore is the number of steps after which time and client of a line are known.
func knownBefore(variables []*variable) int {
	var when, who bool
	for i, v := range variables {
		for ; v != nil; v = v.next {
			when = when || v.slot == slotTime
			who = who || v.slot == slotIP || v.slot == slotForwarded
		}
		if when && who {
			return i + 1
		}
	}
	return len(variables)
}

// cutAt fills the rest of step i and returns true when the line was cut off in that step or right behind it, or ends with
// an optional field.
func (s *scanner) cutAt(i int, line, rest string, written escape, r *Request) bool {
	if i < s.known || len(line) < minCut || !r.IP.IsValid() && r.Forwarded == "" || s.asks && isEnd(line, written) {
		return false
	}

	// A field that ends was not cut off: the line is wrong in another way, and a client must not have its line read
	// like this.
	if st := &s.steps[i]; st.zone == nil {
		if st.size(rest, written) >= 0 {
			return false
		}
		if st.ending == endQuote {
			size := unescapedQuote(rest, written)
			// The line may also end within the literal behind the quote. Any other text there is not a cut.
			if size >= 0 && !strings.HasPrefix(st.literal, rest[size:]) {
				return false
			}
			// Older lines have fewer optional fields, and end with one of them.
			if i >= s.required && size >= 0 && rest[size:] == `"` {
				_ = st.fill(r, rest[:size], written)
				return true
			}
			if size < 0 {
				size = len(withoutProtocol(rest))
			}
			if st.part == partKept || size < len(rest) && rest[size] == '"' {
				_ = st.fill(r, rest[:size], written)
			}
		}
	}

	r.cut = true
	return true
}

// isEnd reports whether a line that was cut off can be the end of a longer one, instead of its beginning. A container's
// runtime cuts lines into parts, and some shippers send each part as a line. Then a part may begin with text that a
// client wrote, as in its user agent: any address, any time. The client cannot write a quote, so the first one is the one
// behind that text. It looks like the one before the request, but no request follows.
func isEnd(line string, written escape) bool {
	at := unescapedQuote(line, written)
	return at >= 0 && (at+1 == len(line) || line[at+1] == ' ' || line[at+1] == '"')
}

// withoutProtocol drops the rest of a protocol behind a request's target. No server allows spaces in a target.
func withoutProtocol(s string) string {
	const protocol = " HTTP/1.1"
	space := strings.LastIndexByte(s, ' ')
	if left := len(s) - space; space > 0 && left <= len(protocol) && s[space:space+min(left, 6)] == protocol[:min(left, 6)] {
		return s[:space]
	}
	return s
}

// parseCut reads a record of JSON that was cut off.
func (p *jsonParser) parseCut(record string, r *Request) error {
	if len(record) < minCut || len(record) > maxRecordBytes {
		return errJSON
	}
	closed, cutAt := closedJSON(record)
	p.scan.cutAt = cutAt
	isJSON := p.scan.read(closed)
	p.scan.cutAt = 0
	if !isJSON {
		return errJSON
	}
	p.dropPart()
	p.cut = true
	unread := p.fill(r)
	p.cut = false
	if errors.Is(unread, ErrNoRequest) {
		return ErrNoRequest
	}
	if unread != nil || !r.IP.IsValid() && r.Forwarded == "" {
		return errJSON
	}
	r.cut = true
	return nil
}

// partRoles are those whose rest is kept, as partKept says.
var partRoles = []role{roleRequest, roleURI, rolePath, roleQuery, roleAgent, roleReferrer}

// dropPart drops the value that was cut off, unless its rest is kept.
func (p *jsonParser) dropPart() {
	m := p.fitting()
	if m == nil {
		return
	}
	kept := map[int]bool{m.path.slot: true}
	for _, role := range partRoles {
		for _, field := range m.roles[role] {
			kept[field.slot] = true
		}
	}
	for slot := range p.scan.values {
		if v := &p.scan.values[slot]; v.cut && v.record == p.scan.record && !kept[slot] {
			v.kind = jsonNull
		}
	}
}

// closedJSON closes the strings, arrays and objects that are open at the end of an object that was cut off. It keeps
// the rest of a string and drops the rest of any other value. It is empty when the text cannot be closed. cutAt is the end
// of the string that it has closed; 0 if there is none.
func closedJSON(text string) (closed string, cutAt int) {
	var open [maxDepth]byte
	depth, keep, value := 0, 0, false // keep is where the last value ended, or the last object or array began
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			// Only a string that is a value may be kept without its end. A key without its value is dropped.
			end, _ := endOfString(text, i)
			if end < 0 && value {
				part := text[:i+1] + unbrokenString(text[i+1:]) + `"`
				return closing(part, open[:depth]), len(part)
			} else if end < 0 {
				return closing(text[:keep], open[:depth]), 0
			}
			i = end - 1
			if value {
				keep = end
			}
		case '{', '[':
			// Deeper values are left out, and so is everything behind them, which may not be complete.
			if depth == maxDepth {
				return closing(text[:keep], open[:depth]), 0
			}
			open[depth] = text[i] + 2 // the bracket that closes it
			depth, keep, value = depth+1, i+1, text[i] == '['
		case '}', ']':
			if depth == 0 || open[depth-1] != text[i] {
				return "", 0
			}
			depth, keep = depth-1, i+1
		case ':':
			value = true
		case ',':
			// The value before a comma is complete, whatever it is. At the end of the text a number or a word may have
			// lost its end, and is dropped.
			keep, value = i, depth > 0 && open[depth-1] == ']'
		}
	}

	return closing(text[:keep], open[:depth]), 0
}

func closing(text string, open []byte) string {
	if len(open) == 0 {
		return ""
	}
	closed := make([]byte, 0, len(text)+len(open))
	closed = append(closed, text...)
	for i := len(open) - 1; i >= 0; i-- {
		closed = append(closed, open[i])
	}
	return string(closed)
}

// unbrokenString is an unclosed string without an escape that was cut off.
func unbrokenString(s string) string {
	for i := 0; ; {
		if i = skipPlain(s, i); i >= len(s) {
			return s
		}
		end := -1
		if s[i] == '\\' {
			end = endOfEscape(s, i)
		}
		if end < 0 {
			return s[:i]
		}

		i = end
	}
}

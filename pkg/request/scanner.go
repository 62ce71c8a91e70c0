package request

import (
	"strings"
	"time"
)

// A scanner is a format compiled to steps: it goes over a line once, from field to field. Where a field ends is told
// by the literal that follows it; a quoted field ends at its first unescaped quote. A line that was cut off within its last
// quoted field is read.
type scanner struct {
	head     string // the literal before the first field
	steps    []step
	required int  // after so many steps a line may end, or go on in an unknown way
	free     int  // the step whose text may hold the literal that follows it; -1 for none
	syslog   bool // lines may have a syslog header
	escape   escape
}

// A step reads one field and the literal that follows it.
type step struct {
	name    string // as a further field
	literal string
	ending  ending
	set     setter
	cuts    bool    // the line may be cut off within the field
	better  slotSet // for the request line: what other steps fill
	pattern timePattern
	zone    *time.Location
}

// An ending says how the end of a field is found.
type ending uint8

const (
	endLiteral ending = iota // where the literal stands
	endQuote                 // where it stands, and its quote is not escaped
	endLine                  // with the line
	endList                  // where it stands, but not after the comma of an nginx list (a, b : c)
	endPattern               // where the pattern of the time ends
)

// Parse reads one line.
func (s *scanner) Parse(line string, r *Request) error {
	line = trimLine(line)
	if line == "" {
		return ErrNoRequest
	}
	if s.syslog {
		_, line = CutSyslog(line)
	}
	stop, fault := s.scan(line, r, 0)
	if fault != nil && stop > 0 {
		fault = s.retry(line, r, stop, fault)
	}
	if fault == nil {
		return nil
	}
	if line[0] == '#' {
		return ErrNoRequest
	}
	return fault
}

// scan reads a line whose free field does not end before from, and says where that field ended; 0 when the line
// was left before.
func (s *scanner) scan(line string, r *Request, from int) (stop int, fault *Unread) {
	r.Reset()
	if !strings.HasPrefix(line, s.head) {
		return 0, errFormat
	}
	escaped := s.escape != escapeNone && strings.IndexByte(line, s.escape.mark()) >= 0
	rest := line[len(s.head):]
	for i := range s.steps {
		st := &s.steps[i]
		skip := 0
		if i == s.free {
			skip = max(0, from-(len(line)-len(rest)))
		}
		size := st.size(rest, skip, escaped)
		if size < 0 {
			return stop, s.missing(i)
		}
		text := rest[:size]
		if i == s.free {
			stop = len(line) - len(rest) + size
		}
		if escaped {
			text = s.escape.undo(text)
		}
		if fault := st.set(st, r, text); fault != nil {
			return stop, fault
		}
		rest = rest[min(len(rest), size+len(st.literal)):]
	}
	if rest != "" && s.required == len(s.steps) {
		return stop, errFormat
	}
	return stop, nil
}

// missing is the fault of a line that ends at step i.
func (s *scanner) missing(i int) *Unread {
	if i >= s.required {
		return nil
	}
	return errFormat
}

// retry lets the free field end later. A client that names itself "a [b" must not make its line unreadable; where
// a quote stands the field is over, since servers escape it within a name.
func (s *scanner) retry(line string, r *Request, stop int, fault *Unread) *Unread {
	limit := strings.IndexByte(line[len(s.head):], '"') + len(s.head)
	for stop > 0 && stop < limit {
		next, again := s.scan(line, r, stop+1)
		if again == nil {
			return nil
		}
		stop = next
	}
	return fault
}

// size is the length of the field at the start of rest; negative when its end is not there. The end is not looked for
// before skip.
func (s *step) size(rest string, skip int, escaped bool) int {
	switch s.ending {
	case endLine:
		return len(rest)
	case endQuote:
		return s.quoted(rest, escaped)
	case endList:
		return s.list(rest)
	case endPattern:
		_, size, ok := s.pattern.read(rest, s.zone)
		if !ok || !strings.HasPrefix(rest[size:], s.literal) {
			return -1
		}
		return size
	}
	if skip > len(rest) {
		return -1
	}
	size := strings.Index(rest[skip:], s.literal)
	if size < 0 {
		return s.cutOff(rest)
	}
	return size + skip
}

// quoted is the length up to the first unescaped quote, which must be the literal's.
func (s *step) quoted(rest string, escaped bool) int {
	size := strings.IndexByte(rest, '"')
	for escaped && size > 0 && isEscaped(rest, size) {
		next := strings.IndexByte(rest[size+1:], '"')
		if next < 0 {
			return s.cutOff(rest)
		}
		size += 1 + next
	}
	if size < 0 {
		return s.cutOff(rest)
	}
	if !strings.HasPrefix(rest[size:], s.literal) {
		return -1
	}
	return size
}

// cutOff is the length of a field that no quote closes.
func (s *step) cutOff(rest string) int {
	if s.cuts {
		return len(rest)
	}
	return -1
}

// isEscaped tells whether an odd number of backslashes stands before i.
func isEscaped(s string, i int) bool {
	start := i
	for i > 0 && s[i-1] == '\\' {
		i--
	}
	return (start-i)%2 == 1
}

// list is the length of an nginx list: servers asked one after the other have ", " or " : " between them.
func (s *step) list(rest string) int {
	size := 0
	for {
		next := strings.Index(rest[size:], s.literal)
		if next < 0 {
			return -1
		}
		size += next
		after := rest[size:]
		switch {
		case size > 0 && rest[size-1] == ',' && after[0] == ' ':
			size++
		case strings.HasPrefix(after, " : "):
			size += len(" : ")
		default:
			return size
		}
	}
}

// trimLine is the line without its end.
func trimLine(line string) string {
	if line != "" && line[len(line)-1] <= ' ' {
		return strings.TrimRight(line, " \t\r\n")
	}
	return line
}

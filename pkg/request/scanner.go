package request

import (
	"strings"
	"time"
)

// A scanner is a format compiled to steps: it goes over a line once, from field to field. Where a field ends is told
// by the literal that follows it; a quoted field ends at its first unescaped quote. A line that was cut off within
// its last quoted field is read.
type scanner struct {
	head     string // the literal before the first field
	steps    []step
	known    int // after so many steps time and client are known
	required int // after so many steps a line may end, or go on in an unknown way
	free     int // the step whose text may hold the literal that follows it; -1 for none
	escape   escape
	syslog   bool // lines may have a syslog header
	local    *localTime

	forgeable bool // zones may hold several variables: only to tell the format
}

// A step reads one field and the literal that follows it.
type step struct {
	name    string // as a further field
	literal string
	ending  ending
	missing *Unread  // what a line lacks in which the field does not end
	cuts    bool     // the line may be cut off within the field
	set     setter   // nil when nobody reads what it would set
	filler  setter   // what set is when somebody does
	fields  []string // that set fills, unless it always has to
	always  bool
	raw     bool           // set undoes the escapes by itself
	better  slotSet        // for the request line: what other steps fill
	pattern timePattern    // for endPattern
	local   *time.Location // of times without a zone
	clf     *clfMemory     // for setTimeCLF
	twice   *localTime     // for times without a zone
	zone    *zone          // that begins with the step
}

// An ending says how the end of a field is found.
type ending uint8

const (
	endLiteral  ending = iota // where the literal stands
	endQuote                  // where it stands, and its quote is not escaped
	endLine                   // with the line
	endCLF                    // after 26 bytes: 17/Apr/2018:06:25:06 +0000; with a fraction of the second, and without a zone, where that ends
	endCaptures               // behind what stands in braces
	endFree                   // where it stands, and no quote before it
	endList                   // where it stands, but not within an nginx list (a, b : c)
	endPattern                // where the pattern of the time ends
	endWords                  // where the literal stands behind the third word: of a request whose target holds no space
	endHost                   // where the literal stands, but not within the brackets of an IPv6 address
	endPadded                 // where the literal stands, but not in the spaces at its start
	endPair                   // where the literal stands the second time
)

// Parse reads one line.
func (s *scanner) Parse(line string, r *Request) error {
	line = trimLine(line)
	message := line
	if s.syslog {
		s.local.header, message = CutSyslog(line)
	}

	fault := s.scan(message, r)
	switch {
	case fault == nil:
		return nil
	case isNoRequest(line):
		return ErrNoRequest
	}

	return fault
}

// trimLine is the line without its end.
func trimLine(line string) string {
	for line != "" && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line
}

// isNoRequest tells blank lines and comments.
func isNoRequest(line string) bool {
	line = strings.TrimLeft(line, " \t")
	return line == "" || line[0] == '#'
}

func (s *scanner) scan(line string, r *Request) *Unread {
	r.Reset()
	rest, ok := strings.CutPrefix(line, s.head)
	if !ok {
		return errFormat
	}

	var free string
	written := s.escape.within(line)
	for i := 0; i < len(s.steps); i++ {
		if i == s.free {
			free = rest
		}
		if z := s.steps[i].zone; z != nil {
			after, fault := s.readZone(z, rest, written, r)
			if fault != nil && s.cutAt(i, line, rest, written, r) {
				return nil
			}
			if fault != nil {
				return fault
			}
			rest, i = after, z.last
			continue
		}

		after, fault := s.steps[i].read(rest, written, r)
		if fault != nil && i == s.free+1 && s.free >= 0 {
			after, fault = s.lengthen(free, written, r, fault)
		}
		if fault != nil && s.cutAt(i, line, rest, written, r) {
			return nil
		}
		if fault != nil {
			return s.blame(i, rest, written, fault)
		}

		rest = after
	}

	if rest != "" && s.required == len(s.steps) {
		return errFormat
	}
	return nil
}

// blame is the fault of a line that could not be read from step i on. One field is to blame only when the line has the
// format otherwise.
func (s *scanner) blame(i int, rest string, written escape, fault *Unread) *Unread {
	if i >= s.required {
		return nil
	}
	for ; i < s.required; i++ {
		st := &s.steps[i]
		size := st.size(rest, written)
		if size < 0 && st.missing == errTime && st.literal != "" {
			size = st.unquoted(rest, 0)
		}
		if size < 0 {
			return errFormat
		}
		rest = rest[min(len(rest), size+len(st.literal)):]
	}

	return fault
}

// lengthen lets the free field at the start of rest end later, as far as the next step can then be read: a client that
// names itself "a [b" must not make its line unreadable. An unescaped quote ends the search: none is the name's own.
func (s *scanner) lengthen(rest string, written escape, r *Request, fault *Unread) (string, *Unread) {
	field, next := &s.steps[s.free], &s.steps[s.free+1]
	limit := unescapedQuote(rest, written)
	if limit < 0 {
		limit = len(rest)
	}

	for size := field.unquoted(rest, 0); ; {
		size = field.unquoted(rest, size+1)
		if size < 0 || size > limit {
			return "", fault
		}
		if after, stillFault := next.read(rest[size+len(field.literal):], written, r); stillFault == nil {
			return after, field.fill(r, rest[:size], written)
		}
	}
}

// read reads the field at the start of rest into r, and gives what follows its literal.
func (s *step) read(rest string, written escape, r *Request) (string, *Unread) {
	size := s.size(rest, written)
	if size < 0 {
		return "", s.missing
	}
	if s.set != nil {
		if fault := s.fill(r, rest[:size], written); fault != nil {
			return "", fault
		}
	}
	return rest[min(len(rest), size+len(s.literal)):], nil
}

// fill puts the field's text into r, if somebody reads it.
func (s *step) fill(r *Request, text string, written escape) *Unread {
	if s.set == nil {
		return nil
	}
	if written != escapeNone && !s.raw {
		text = written.undo(text)
	}
	return s.set(s, r, text)
}

// size is the length of the field at the start of rest; negative when its end is not there.
func (s *step) size(rest string, written escape) int {
	switch s.ending {
	case endLiteral:
		return s.unquoted(rest, 0)
	case endQuote:
		return s.quoted(rest, written)
	case endLine:
		return len(rest)
	case endCLF:
		return s.fixed(rest, clfLength(rest))
	case endFree:
		return s.freely(rest, written)
	case endList:
		return s.list(rest)
	case endWords:
		return s.words(rest)
	case endHost:
		return s.unquoted(rest, bracketed(rest))
	case endPadded:
		return s.unquoted(rest, len(rest)-len(strings.TrimLeft(rest, " ")))
	case endPair:
		if first := s.unquoted(rest, 0); first >= 0 {
			return s.unquoted(rest, first+1)
		}
	case endPattern:
		if _, size, ok := s.pattern.read(rest, s.local); ok {
			return s.fixed(rest, size)
		}
	}

	return -1
}

// words is the length up to the literal, which is looked for behind the second space.
func (s *step) words(rest string) int {
	first := strings.IndexByte(rest, ' ')
	second := strings.IndexByte(rest[first+1:], ' ')
	if first < 0 || second < 0 {
		return -1
	}
	return s.unquoted(rest, first+1+second)
}

// bracketed is the length of the address in brackets that a host begins with.
func bracketed(host string) int {
	if host == "" || host[0] != '[' {
		return 0
	}
	return strings.IndexByte(host, ']') + 1
}

// fixed is size if the literal stands there.
func (s *step) fixed(rest string, size int) int {
	if len(rest) < size || !s.ends(rest[size:]) {
		return -1
	}
	return size
}

// ends tells whether rest begins with the literal. Those are a few bytes, which a loop is through with before a call.
func (s *step) ends(rest string) bool {
	if len(rest) < len(s.literal) {
		return false
	}
	for i := 0; i < len(s.literal); i++ {
		if rest[i] != s.literal[i] {
			return false
		}
	}
	return true
}

// unquoted is the length up to the literal, which is looked for from a place on.
func (s *step) unquoted(rest string, from int) int {
	for from <= len(rest) {
		size := indexNear(rest[from:], s.literal[0])
		if size < 0 {
			break
		}
		from += size
		if len(s.literal) == 1 || s.ends(rest[from:]) {
			return from
		}
		from++
	}
	return s.cutOff(rest)
}

// indexNear is where the byte stands first. Most fields that are looked through have one to three bytes: - and 200.
func indexNear(s string, b byte) int {
	for i := 0; i < len(s) && i < 4; i++ {
		if s[i] == b {
			return i
		}
	}
	return strings.IndexByte(s, b)
}

// freely is the length up to the literal of a field that holds no quote, but for the two that are an empty name.
func (s *step) freely(rest string, written escape) int {
	size := s.unquoted(rest, 0)
	if size > 0 && unescapedQuote(rest[:size], written) >= 0 && rest[:size] != `""` {
		return -1
	}
	return size
}

// quoted is the length up to the first unescaped quote, which must be the literal's.
func (s *step) quoted(rest string, written escape) int {
	size := unescapedQuote(rest, written)
	if size < 0 {
		return s.cutOff(rest)
	}
	return s.fixed(rest, size)
}

// unescapedQuote is where the first quote stands that is not escaped.
func unescapedQuote(s string, written escape) int {
	at := strings.IndexByte(s, '"')
	for at > 0 && written == escapeBackslash && isEscaped(s, at) {
		next := strings.IndexByte(s[at+1:], '"')
		if next < 0 {
			return -1
		}
		at += 1 + next
	}
	return at
}

// cutOff is the length of a field that nothing closes.
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

// list is the length of an nginx list: of servers asked one after the other, and of addresses, several have ", " or
// " : " between them.
func (s *step) list(rest string) int {
	for size := 0; ; {
		size = s.unquoted(rest, size)
		if size < 0 {
			return -1
		}

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

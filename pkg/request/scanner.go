package request

import (
	"strings"
	"time"
)

// A scanner is a format compiled to steps: it reads a line once, from field to field. A field ends at the literal that
// follows it; a quoted field ends at its first unescaped quote. A line that was cut off within its last quoted field is
// read.
type scanner struct {
	head     string // the literal before the first field
	steps    []step
	known    int // after so many steps time and client are known
	required int // after so many steps a line may end, or go on in another way
	free     int // the step whose text may contain the literal that follows it; -1 for none
	escape   escape
	syslog   bool // lines may have a syslog header
	spaced   bool // a line may begin with spaces, which are not an empty first field
	local    *localTime

	quoted, asks bool // the format has quotes, and the request line is in the first of them

	forgeable bool // zones may contain several variables: only to detect the format
}

// A step reads one field and the literal that follows it.
type step struct {
	name    string // as a further field
	literal string
	ending  ending
	missing *Unread  // the error of a line in which the field does not end
	cuts    bool     // the line may be cut off within the field
	part    cutPart  // of the field, when the line was cut off within it
	set     setter   // nil when no reader wants the fields that it would set
	filler  setter   // the value of set when a reader does
	fields  []string // that set fills, unless it always runs
	fills   []string // all fields that set fills
	always  bool
	raw     bool           // set undoes the escapes by itself
	better  slotSet        // for the request line: fields of other steps
	pattern timePattern    // for endPattern
	local   *time.Location // of times without a zone
	clf     *clfMemory     // for setTimeCLF
	twice   *localTime     // for times without a zone
	zone    *zone          // that begins with the step
}

// An ending is the way in which the end of a field is found.
type ending uint8

const (
	endLiteral  ending = iota // at the literal
	endQuote                  // at the literal, if its quote is not escaped
	endLine                   // at the end of the line
	endCLF                    // after 26 bytes: 17/Apr/2018:06:25:06 +0000; with a fraction of the second and without a zone, after these
	endCaptures               // behind the text in braces
	endFree                   // at the literal, with no quote before it
	endList                   // at the literal, but not within an nginx list (a, b : c)
	endPattern                // at the end of the time's pattern
	endWords                  // at the literal behind the third word: of a request whose target contains no space
	endHost                   // at the literal, but not within the brackets of an IPv6 address
	endPadded                 // at the literal, but not in the spaces at the field's start
	endPair                   // at the second occurrence of the literal
	endIdentity               // at the literal, if the line does not show one field more than the format
)

// Parse reads one line.
func (s *scanner) Parse(line string, r *Request) error {
	line = trimLine(line)
	message := line
	if s.syslog {
		s.local.header, message = CutSyslog(line)
	}
	if s.spaced && message != "" && message[0] == ' ' {
		message = strings.TrimLeft(message, " ")
	}

	unread := s.scan(message, r)
	switch {
	case unread == nil:
		s.local.settle(r)
		if r.TookMilli != 0 {
			r.endAfter(r.TookMilli)
		}
		return nil
	// Asked only now, because nearly all lines are requests, and a comment has no format.
	case isNoRequest(line):
		return ErrNoRequest
	}

	return unread
}

// trimLine is the line without its line break.
func trimLine(line string) string {
	for line != "" && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line
}

// isNoRequest reports whether a line is blank or a comment.
func isNoRequest(line string) bool {
	line = strings.TrimLeft(line, " \t")
	return line == "" || line[0] == '#'
}

func (s *scanner) scan(line string, r *Request) *Unread {
	r.Reset()
	s.local.zone = nil
	rest, ok := strings.CutPrefix(line, s.head)
	if !ok {
		return errFormat
	}

	var free string
	written := s.escape.within(line)
	for i := 0; i < len(s.steps); i++ {
		// Where the free field begins, in case that it has to be read again.
		if i == s.free {
			free = rest
		}
		if z := s.steps[i].zone; z != nil {
			after, unread := s.readZone(z, rest, written, r)
			if unread != nil && s.cutAt(i, line, rest, written, r) {
				return nil
			}
			if unread != nil {
				return unread
			}
			rest, i = after, z.last
			continue
		}

		after, unread := s.steps[i].read(rest, written, r)
		// The field before may contain its own literal, so it may have ended too early.
		if unread != nil && i == s.free+1 && s.free >= 0 {
			after, unread = s.lengthen(free, written, r, unread)
		}
		if unread != nil && s.cutAt(i, line, rest, written, r) {
			return nil
		}
		if unread != nil {
			return s.blame(i, rest, written, unread)
		}

		rest = after
	}

	// Text behind the last field belongs to another format, unless the format may go on.
	if rest != "" && s.required == len(s.steps) {
		return errFormat
	}
	if len(line) >= minCut && s.steps[len(s.steps)-1].ending == endLine {
		r.open = line
	}
	return nil
}

// blame is the error for a line that could not be read from step i on. It names one field only when the rest of the
// line has the format.
func (s *scanner) blame(i int, rest string, written escape, unread *Unread) *Unread {
	// The optional fields may be missing.
	if i >= s.required {
		return nil
	}
	for ; i < s.required; i++ {
		st := &s.steps[i]
		size := st.size(rest, written)
		// A time that cannot be read has no end of its own: its literal may still show where the line goes on.
		if size < 0 && st.missing == errTime && st.literal != "" {
			size = st.unquoted(rest, 0)
		}
		if size < 0 {
			return errFormat
		}
		rest = rest[min(len(rest), size+len(st.literal)):]
	}

	return unread
}

// lengthen lets the free field at the start of rest end later, until the next step can be read: a client named "a [b"
// must not make its line unreadable. An unescaped quote ends the search: a name contains none.
func (s *scanner) lengthen(rest string, written escape, r *Request, unread *Unread) (string, *Unread) {
	field, next := &s.steps[s.free], &s.steps[s.free+1]
	limit := unescapedQuote(rest, written)
	if limit < 0 {
		limit = len(rest)
	}

	for size := field.unquoted(rest, 0); ; {
		size = field.unquoted(rest, size+1)
		if size < 0 || size > limit {
			return "", unread
		}
		if after, stillFault := next.read(rest[size+len(field.literal):], written, r); stillFault == nil {
			return after, field.fill(r, rest[:size], written)
		}
	}
}

// read reads the field at the start of rest into r, and returns the text after its literal.
func (s *step) read(rest string, written escape, r *Request) (string, *Unread) {
	size := s.size(rest, written)
	if size < 0 {
		return "", s.missing
	}
	if s.cuts && s.ending == endQuote && size == len(rest) && s.part != partKept {
		r.cut = true
		if s.part == partNeeded {
			return "", s.missing
		}
		return "", nil
	}
	if s.set != nil {
		if unread := s.fill(r, rest[:size], written); unread != nil {
			return "", unread
		}
	}
	return rest[min(len(rest), size+len(s.literal)):], nil
}

// fill sets the field's text in r, if a reader wants it.
func (s *step) fill(r *Request, text string, written escape) *Unread {
	if s.set == nil {
		return nil
	}
	if written != escapeNone && !s.raw {
		text = written.undo(text)
	}
	return s.set(s, r, text)
}

// size is the length of the field at the start of rest; negative when it does not end.
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
	case endIdentity:
		return s.identity(rest, written)
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

// words is the length up to the literal, searched from the second space on.
func (s *step) words(rest string) int {
	first := strings.IndexByte(rest, ' ')
	second := strings.IndexByte(rest[first+1:], ' ')
	if first < 0 || second < 0 {
		return -1
	}
	return s.unquoted(rest, first+1+second)
}

// identity is the length of Apache's %l, in front of the user and the time. It is a dash, so an address there, with two
// words behind it, shows that the line has one more field: a host in front, or X-Forwarded-For behind the peer. Read by
// this format, the host or the peer would be the client. Such a line is unread.
func (s *step) identity(rest string, written escape) int {
	size := s.unquoted(rest, 0)
	if size < 2 || !namesAddress(strings.TrimSuffix(rest[:size], ",")) {
		return size
	}
	before := rest[size+len(s.literal):]
	if quote := unescapedQuote(before, written); quote >= 0 {
		before = before[:quote]
	}
	// The user may contain a bracket itself: the last one begins the time.
	if end := strings.LastIndex(before, " ["); end < 0 || strings.IndexByte(before[:end], ' ') >= 0 {
		return -1
	}
	return size
}

// bracketed is the length of the address in brackets at the start of a host.
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

// ends reports whether rest begins with the literal. Literals are a few bytes, so a loop is faster than a call.
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

// unquoted is the length up to the literal, searched from an index on.
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

// indexNear is the index of the first such byte. Most fields that are searched have one to three bytes: - and 200.
func indexNear(s string, b byte) int {
	for i := 0; i < len(s) && i < 4; i++ {
		if s[i] == b {
			return i
		}
	}
	return strings.IndexByte(s, b)
}

// freely is the length up to the literal of a field that contains no quote, except the two of an empty name.
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

// unescapedQuote is the index of the first quote that is not escaped.
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

// cutOff is the length of a field that does not end.
func (s *step) cutOff(rest string) int {
	if s.cuts {
		return len(rest)
	}
	return -1
}

// isEscaped reports whether an odd number of backslashes stands before i.
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

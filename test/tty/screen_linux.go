package tty

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A screen obeys the escape sequences that our views use; colours are left out.
type screen struct {
	columns, rows int
	lines         [][]rune
	x, y          int
	past          strings.Builder
	main          [][]rune // the lines of the main screen while the other one is shown
	mainX, mainY  int
	hidden, cuts  bool
	rest          []byte // of a sequence or character that is not complete
}

func newScreen(columns, rows int) *screen {
	return &screen{columns: columns, rows: rows, lines: make([][]rune, rows)}
}

func (s *screen) String() string {
	lines := make([]string, len(s.lines))
	for i, line := range s.lines {
		lines[i] = strings.TrimRight(string(line), " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// resize keeps the lines, as terminals do that do not wrap again.
func (s *screen) resize(columns, rows int) {
	for len(s.lines) > rows {
		if s.y == 0 {
			s.lines = s.lines[:rows]
			break
		}
		s.scroll()
		s.y--
		s.lines = s.lines[:len(s.lines)-1]
	}
	for len(s.lines) < rows {
		s.lines = append(s.lines, nil)
	}
	s.columns, s.rows = columns, rows
}

func (s *screen) scroll() {
	if s.main == nil {
		s.past.WriteString(strings.TrimRight(string(s.lines[0]), " ") + "\n")
	}
	s.lines = append(slices.Delete(s.lines, 0, 1), nil)
}

func (s *screen) write(b []byte) {
	b = append(s.rest, b...)
	for len(b) > 0 {
		n := s.next(b)
		if n == 0 {
			break
		}
		b = b[n:]
	}
	s.rest = slices.Clone(b)
}

// next obeys what b begins with, and returns its length; 0 when it is not complete.
func (s *screen) next(b []byte) int {
	switch b[0] {
	case '\r':
		s.x = 0
		return 1
	case '\n':
		s.newline()
		return 1
	case 0x1b:
		return s.escape(b)
	}
	if !utf8.FullRune(b) {
		return 0
	}
	r, size := utf8.DecodeRune(b)
	s.put(r)
	return size
}

func (s *screen) newline() {
	if s.y++; s.y == s.rows {
		s.scroll()
		s.y--
	}
}

func (s *screen) put(r rune) {
	if s.x >= s.columns {
		if s.cuts {
			s.x = s.columns - 1
		} else {
			s.x = 0
			s.newline()
		}
	}
	for len(s.lines[s.y]) <= s.x {
		s.lines[s.y] = append(s.lines[s.y], ' ')
	}
	s.lines[s.y][s.x] = r
	s.x++
}

func (s *screen) escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if b[1] != '[' {
		return 2
	}
	for i := 2; i < len(b); i++ {
		if b[i] >= '@' && b[i] <= '~' {
			s.control(b[i], string(b[2:i]))
			return i + 1
		}
	}
	return 0
}

func (s *screen) control(final byte, arguments string) {
	n, _ := strconv.Atoi(arguments)
	switch final {
	case 'A':
		s.y = max(0, s.y-max(1, n))
	case 'H':
		s.x, s.y = 0, 0
	case 'K':
		s.lines[s.y] = s.lines[s.y][:min(s.x, s.columns-1, len(s.lines[s.y]))] // at the end of a full line the cursor is on its last character
	case 'J':
		s.lines[s.y] = s.lines[s.y][:min(s.x, s.columns-1, len(s.lines[s.y]))] // at the end of a full line the cursor is on its last character
		for i := s.y + 1; i < s.rows; i++ {
			s.lines[i] = nil
		}
	case 'h', 'l':
		s.set(arguments, final == 'h')
	}
}

func (s *screen) set(mode string, on bool) {
	switch mode {
	case "?7":
		s.cuts = !on
	case "?25":
		s.hidden = !on
	case "?1049":
		if on == (s.main != nil) {
			return
		}
		if on {
			s.main, s.mainX, s.mainY = s.lines, s.x, s.y
			s.lines = make([][]rune, s.rows)
			return
		}
		s.lines, s.x, s.y, s.main = s.main, s.mainX, s.mainY, nil
		s.resize(s.columns, s.rows)
	}
}

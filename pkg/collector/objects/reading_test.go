package objects

import (
	"bytes"
	"strings"
	"testing"

	"weir/internal/logfile"
)

// A line that is longer than a line may be is long, also when its end comes in the same read as its beginning.
func TestLinesThatAreLong(t *testing.T) {
	for _, length := range []int{10, logfile.MaxLine, logfile.MaxLine + 1, logfile.MaxLine + 1<<20, 3 * logfile.MaxLine} {
		object := "first\n" + strings.Repeat("x", length) + "\nlast\n"
		r := &reading{packed: &transfer{Reader: bytes.NewReader([]byte(object))}}
		var long []bool
		for ended := false; !ended; {
			entries, end, err := r.page()
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				long = append(long, e.Long)
			}
			ended = end
		}
		if want := length > logfile.MaxLine; len(long) != 3 || long[0] || long[1] != want || long[2] {
			t.Errorf("of the lines around one of %d bytes, these are long: %v", length, long)
		}
		if r.at != int64(len(object)) {
			t.Errorf("%d bytes were read of %d", r.at, len(object))
		}
	}
}

// However short the lines are, a page has a bound. Empty lines take no memory, and the last place is the end.
func TestPagesOfShortLines(t *testing.T) {
	empty := strings.Repeat("\n", 3*pageBytes/2)
	for name, test := range map[string]struct {
		object string
		lines  int
	}{
		"short":         {strings.Repeat("x\n", 5*pageLines), 5 * pageLines},
		"short, no end": {strings.Repeat("x\n", 5*pageLines) + "x", 5*pageLines + 1},
		"empty":         {empty, 0},
		"both":          {empty + "x\n" + empty + strings.Repeat("\n\nx\n", 2*pageLines) + empty, 2*pageLines + 1},
	} {
		r := &reading{packed: &transfer{Reader: strings.NewReader(test.object)}}
		lines, at := 0, int64(0)
		for ended := false; !ended; {
			entries, end, err := r.page()
			if err != nil {
				t.Fatal(err)
			}
			if len(entries) > pageLines {
				t.Errorf("%s: a page has %d lines", name, len(entries))
			}
			for _, e := range entries {
				if e.After.Position <= at {
					t.Fatalf("%s: the place %d follows %d", name, e.After.Position, at)
				}
				at = e.After.Position
				lines += len(e.Value)
			}
			ended = end
			if at != r.at {
				t.Errorf("%s: the last place of a page is %d, and %d bytes were read", name, at, r.at)
			}
		}
		if lines != test.lines || at != int64(len(test.object)) {
			t.Errorf("%s: %d lines of %d, %d bytes of %d", name, lines, test.lines, at, len(test.object))
		}
	}
}

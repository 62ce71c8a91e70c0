// Package page reads the commands on a page of the documentation, and compares their output with the page.
//
// A block of code is fenced, with the language behind the fence, or indented by four spaces. A block of the language
// text, or an indented one, that follows a block of commands is their output. In it, … stands for any text or none, and
// a line with nothing else for any lines; a time stands for any other time, and one space for several.
package page

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// A Block is a piece of code.
type Block struct {
	Heading  string // above it
	Language string // empty if the block is indented
	Text     string
	Line     int // of the page, of its first line
}

// Read reads the blocks of a page.
func Read(t testing.TB, path string) []Block {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return Blocks(string(text))
}

// Blocks finds the blocks of a page.
func Blocks(text string) (blocks []Block) {
	heading, lines := "", strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		language, fenced := strings.CutPrefix(lines[i], "```")
		switch {
		case strings.HasPrefix(lines[i], "#"):
			heading = strings.TrimLeft(lines[i], "# ")
		case fenced:
			b := Block{Heading: heading, Language: language, Line: i + 2}
			for i++; i < len(lines) && lines[i] != "```"; i++ {
				b.Text += lines[i] + "\n"
			}
			blocks = append(blocks, b)
		case strings.HasPrefix(lines[i], "    ") && (i == 0 || lines[i-1] == ""):
			b := Block{Heading: heading, Line: i + 1}
			for ; i < len(lines) && (lines[i] == "" || strings.HasPrefix(lines[i], "    ")); i++ {
				b.Text += strings.TrimPrefix(lines[i], "    ") + "\n"
			}
			i--
			b.Text = strings.TrimRight(b.Text, "\n") + "\n"
			blocks = append(blocks, b)
		}
	}

	return blocks
}

// skip is a line that stands for any lines.
const skip = "…"

// times match the parts that differ from one run to the next.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?|\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d|\b\d\d:\d\d:\d\d\b`)

// Compare describes the first difference between printed and the page.
func Compare(shown, printed string) error {
	want, got := lines(shown), lines(printed)
	for i, line := range want {
		if line == skip {
			if i == len(want)-1 {
				return nil
			}
			for len(got) > 0 && !pattern(want[i+1]).MatchString(got[0]) {
				got = got[1:]
			}
			continue
		}

		if len(got) == 0 {
			return fmt.Errorf("the page shows %q, which is not printed", line)
		}
		if !pattern(line).MatchString(got[0]) {
			return fmt.Errorf("the page shows  %q,\nprinted is      %q", line, got[0])
		}

		got = got[1:]
	}

	if len(got) > 0 {
		return fmt.Errorf("printed is %q, which the page does not show", got[0])
	}
	return nil
}

// lines are the lines of a text that are not empty, with runs of spaces as one space.
func lines(text string) (all []string) {
	for line := range strings.Lines(text) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// pattern is the pattern of a page's line.
func pattern(line string) *regexp.Regexp {
	var b strings.Builder
	for i, piece := range strings.Split(line, skip) {
		if i > 0 {
			b.WriteString(".*")
		}
		last := 0
		for _, at := range times.FindAllStringIndex(piece, -1) {
			b.WriteString(regexp.QuoteMeta(piece[last:at[0]]))
			b.WriteString("(?:" + times.String() + ")")
			last = at[1]
		}
		b.WriteString(regexp.QuoteMeta(piece[last:]))
	}

	return regexp.MustCompile("^" + strings.ReplaceAll(b.String(), " .* ", " (?:.* )?") + "$")
}

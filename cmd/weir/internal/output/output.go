// Package output writes what commands show, to people and to programs: JSON, tables, numbers with their nouns, progress.
// Text from outside goes through Printable before it reaches a terminal. The package knows no command and no flag.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"
)

// JSON returns an encoder that writes one value a line, without escaping characters of HTML.
func JSON(w io.Writer) *json.Encoder {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Columns returns the width of the terminal; 0 when the output is not a terminal.
func Columns(w io.Writer) int {
	if !IsTerminal(w) {
		return 0
	}
	width, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Colorful reports whether colours are wanted: on a terminal, unless NO_COLOR is set.
func Colorful(w io.Writer) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Table writes rows of cells, tabs between them, in columns. The text of a cell may come from outside.
func Table(b *strings.Builder, rows []string) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := strings.Split(row, "\t")
		for i, cell := range cells {
			cells[i] = Printable(cell)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // a Builder takes everything
}

// Counted returns a number with its noun: 1 line, 12,345 lines, 2 entries.
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "ry"); ok {
		return Grouped(n) + " " + stem + "ries"
	}
	return Grouped(n) + " " + noun + "s"
}

// Grouped returns a number with a comma between groups of three digits.
func Grouped(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

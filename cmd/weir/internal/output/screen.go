package output

import (
	"io"
	"strings"
)

// A Color marks a row by what it means.
type Color string

// The colours, as a terminal takes them.
const (
	Plain  Color = ""
	Red    Color = "\x1b[31m" // refused
	Yellow Color = "\x1b[33m" // would be refused
	Green  Color = "\x1b[32m" // let through
)

const noColor = "\x1b[0m"

// A Screen is what people read an output on. The zero value is a pipe: rows of any length, without colours.
type Screen struct {
	Columns int // 0 is any number
	Colors  bool
}

// ScreenOf returns the screen of an output.
func ScreenOf(w io.Writer) Screen { return Screen{Columns(w), Colorful(w)} }

// A Row is a row of cells, tabs between them.
type Row struct {
	Cells string
	Color Color
}

// Table writes rows in columns. On a terminal a row that is too long ends in ….
func (s Screen) Table(b *strings.Builder, rows []Row) {
	cells := make([]string, len(rows))
	for i, row := range rows {
		cells[i] = row.Cells
	}
	var text strings.Builder
	Table(&text, cells)

	i := 0
	for line := range strings.Lines(text.String()) {
		b.WriteString(s.Line(strings.TrimSuffix(line, "\n"), rows[i].Color) + "\n")
		i++
	}
}

// Line returns a line of printable text as the screen shows it.
func (s Screen) Line(line string, color Color) string {
	if runes := []rune(line); s.Columns > 0 && len(runes) > s.Columns {
		line = string(runes[:s.Columns-1]) + "…"
	}
	if !s.Colors || color == Plain {
		return line
	}
	return string(color) + line + noColor
}

// Wrap returns a text whose lines are at most as wide as the screen.
func (s Screen) Wrap(text string) string {
	if s.Columns == 0 {
		return text
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, Wrapped(line, s.Columns)...)
	}
	return strings.Join(lines, "\n")
}

// Wrapped breaks a line at its last spaces before the end of the screen; the rest is indented.
func Wrapped(line string, columns int) (lines []string) {
	const indent = "      "
	rest := []rune(line)
	for len(rest) > columns && columns > 2*len(indent) {
		end := columns
		for i := columns; i > len(indent) && i > columns/2; i-- {
			if rest[i] == ' ' {
				end = i
				break
			}
		}
		lines = append(lines, string(rest[:end]))
		rest = append([]rune(indent), []rune(strings.TrimLeft(string(rest[end:]), " "))...)
	}
	return append(lines, string(rest))
}

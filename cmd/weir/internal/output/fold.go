package output

import (
	"io"
	"strings"
)

// WriteText writes text for people. At a terminal, its lines are folded to fit.
func WriteText(w io.Writer, text string) error {
	if columns := Columns(w); columns > 0 {
		text = folded(text, columns)
	}
	_, err := io.WriteString(w, text)
	return err
}

func folded(text string, columns int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.Join(Fold(strings.TrimSuffix(line, "\n"), columns), "\n") + "\n")
	}
	return b.String()
}

// Fold breaks a line at its last spaces before the end of the screen; the rest is indented.
func Fold(line string, columns int) (lines []string) {
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
		lines = append(lines, strings.TrimRight(string(rest[:end]), " "))
		rest = append([]rune(indent), []rune(strings.TrimLeft(string(rest[end:]), " "))...)
	}
	return append(lines, string(rest))
}

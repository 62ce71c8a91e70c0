package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// helpColumns is the width of help: that of the narrowest usual terminal.
const helpColumns = 80

// showHelp prints a command's description and its usage, as cobra does, in lines of helpColumns.
func showHelp(c *cobra.Command, _ []string) {
	about := c.Long
	if about == "" {
		about = c.Short
	}
	var lines []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(about), "\n\n") {
		if !strings.HasPrefix(paragraph, " ") {
			paragraph = strings.ReplaceAll(paragraph, "\n", " ")
		}
		lines = append(lines, folded(paragraph, 0), "")
	}
	for line := range strings.SplitSeq(strings.TrimRight(c.UsageString(), "\n"), "\n") {
		lines = append(lines, folded(line, lastColumn(line)))
	}
	fmt.Fprintln(c.OutOrStdout(), strings.Join(lines, "\n"))
}

// lastColumn is where the text of the last column of a row of commands or flags begins; 0 for other lines.
func lastColumn(line string) int {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	name, _, found := strings.Cut(line[indent:], "   ")
	if !found || indent == 0 {
		return 0
	}
	rest := line[indent+len(name):]
	return indent + len(name) + len(rest) - len(strings.TrimLeft(rest, " "))
}

// folded breaks a line at spaces, and indents all but its first row. It does not break words, nor the examples, which
// are indented and have one column.
func folded(line string, indent int) string {
	if utf8.RuneCountInString(line) <= helpColumns || indent == 0 && strings.HasPrefix(line, " ") {
		return line
	}
	var b strings.Builder
	b.WriteString(line[:indent])
	column := indent
	for i, word := range strings.Fields(line[indent:]) {
		size := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+size > helpColumns:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += size
	}
	return b.String()
}

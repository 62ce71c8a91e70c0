package command

import (
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

const helpColumns = 80

// Narrow makes the help of a command and of those below it fit 80 columns. Examples and lines that begin with a space
// stay as they are.
func Narrow(c *cobra.Command) {
	c.SetUsageTemplate(strings.ReplaceAll(c.UsageTemplate(), ".FlagUsages ", ".FlagUsagesWrapped 80 "))
	narrow(c)
}

func narrow(c *cobra.Command) {
	c.Long = fill(c.Long)
	for _, below := range c.Commands() {
		narrow(below)
	}
}

// fill breaks the lines of a text where 80 columns end.
func fill(text string) string {
	var b strings.Builder
	column := 0
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" || line[0] == ' ' {
			if column > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(line)
			column = 0
			continue
		}
		for _, word := range strings.Fields(line) {
			width := utf8.RuneCountInString(word)
			switch {
			case column > 0 && column+1+width > helpColumns:
				b.WriteByte('\n')
				column = 0
			case column > 0:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += width
		}
	}
	return b.String()
}

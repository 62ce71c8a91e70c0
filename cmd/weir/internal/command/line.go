package command

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Line returns the command as the user typed it, in a form that can be pasted into a shell.
func Line(c *cobra.Command) string {
	words := []string{c.CommandPath()}
	for _, arg := range c.Flags().Args() {
		words = append(words, Quote(arg))
	}

	c.Flags().Visit(func(f *pflag.Flag) {
		switch value := f.Value.(type) {
		case pflag.SliceValue:
			for _, one := range value.GetSlice() {
				words = append(words, "--"+f.Name, Quote(one))
			}
		default:
			words = append(words, "--"+f.Name)
			if f.Value.Type() != "bool" {
				words = append(words, Quote(f.Value.String()))
			}
		}
	})

	return strings.Join(words, " ")
}

// Quote returns a text as one word of the shell.
func Quote(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

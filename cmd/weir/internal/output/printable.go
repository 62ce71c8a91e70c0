package output

import "weir/internal/keytext"

// Printable makes text from outside safe for a terminal.
func Printable(text string) string { return keytext.Shown(text) }

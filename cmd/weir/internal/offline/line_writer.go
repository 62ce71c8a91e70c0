package offline

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"slices"

	"weir/cmd/weir/internal/output"
	"weir/pkg/request"
)

// A lineWriter shows lines as they come, in one of three forms. An error of writing stays in the buffered writer, and its
// next Flush returns it.
type lineWriter struct {
	out    *bufio.Writer
	form   string // text, json or plain
	lines  int
	read   int
	unread map[string]int
}

func newLineWriter(out *bufio.Writer, form string) *lineWriter {
	return &lineWriter{out: out, form: form, unread: map[string]int{}}
}

// choice shows how an input is read.
func (w *lineWriter) choice(input string, c request.Choice) {
	if w.form == "text" {
		w.printf("# %s: %s\n", input, c)
		if doubt := c.Doubt(); doubt != "" {
			w.printf("# %s: %s\n", input, doubt)
		}
	}
}

// empty shows that an input is empty.
func (w *lineWriter) empty(input string) {
	if w.form == "text" {
		w.printf("# %s: empty\n", input)
	}
}

func (w *lineWriter) write(l *line) {
	w.lines++
	if l.Unread == "" {
		w.read++
	} else {
		w.unread[l.Unread]++
	}

	switch {
	case w.form == "json":
		_ = output.JSON(w.out).Encode(l)
	case w.form == "plain":
		for _, h := range l.Hits {
			w.printf("%s\n", h.Key)
		}
	case l.Unread == noRequest:
		w.printf("%6d  no request %s\n", l.Line, l.Sample)
	case l.Unread != "":
		w.printf("%6d  not read (%s): %s: %s\n", l.Line, l.Unread, l.Why, l.Sample)
	default:
		w.writeText(l)
	}
}

func (w *lineWriter) writeText(l *line) {
	w.printf("%6d  %s\n", l.Line, l)
	for _, h := range l.Hits {
		cost := ""
		if h.Cost != 1 {
			cost = fmt.Sprintf(", cost %d", h.Cost)
		}
		w.printf("        counted by %s as %s%s\n", h.Rule, h.Key, cost)
	}
	for _, u := range l.Uncounted {
		w.printf("        not counted by %s: %s\n", u.Rule, u.Why)
	}
}

// end shows how many lines were read.
func (w *lineWriter) end() {
	if w.form != "text" {
		return
	}
	none := w.unread[noRequest]
	delete(w.unread, noRequest)
	w.printf("# %s read", output.Counted(w.read, "request"))
	for _, reason := range slices.Sorted(maps.Keys(w.unread)) {
		w.printf(", %s not read (%s)", output.Counted(w.unread[reason], "line"), reason)
	}

	if none > 0 {
		w.printf(", %s without a request", output.Counted(none, "line"))
	}
	w.printf("\n")
}

// outcome returns an error when nothing was read.
func (w *lineWriter) outcome() error {
	switch {
	case w.lines == 0:
		return errors.New("there was no line to read")
	case w.read == 0:
		return errors.New("no line could be read")
	}
	return nil
}

func (w *lineWriter) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(w.out, format, args...)
}

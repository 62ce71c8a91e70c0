package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"golang.org/x/term"
)

// Log makes a logger: level is debug, info, warn or error; format is text, json, or auto, which is text on a terminal
// and in journald, JSON lines elsewhere. Both write durations and addresses as text, and no text of more than longestText
// bytes. When to is a file that takes no lines, such as a pipe that no one reads, the program does not wait for it.
func Log(to io.Writer, level, format string) (*slog.Logger, error) {
	options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { return shortened(a) }}
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("the log level %q is not known; write debug, info, warn or error", level)
	}
	options.Level = l
	handler := func(to io.Writer) slog.Handler { return slog.NewTextHandler(to, options) }
	if format != "text" && (format != "auto" || !readByPeople(to)) {
		options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr { return inWords(groups, shortened(a)) }
		handler = func(to io.Writer) slog.Handler { return slog.NewJSONHandler(escaping{to}, options) }
	}

	// A buffer takes every line; a file may be a pipe that no one reads.
	if file, ok := to.(*os.File); ok {
		to = newOutlet(file, func(lines int) []byte {
			var line bytes.Buffer
			slog.New(handler(&line)).Error("lines of this log are lost, because its output did not take them", "lines", lines)
			return line.Bytes()
		})
	}
	return slog.New(handler(to)), nil
}

// escaping writes lines of JSON without characters that are not printable, such as those that change the direction of text:
// they can only stand in texts, and become \u202e there.
type escaping struct{ to io.Writer }

func (e escaping) Write(line []byte) (int, error) {
	hidden := func(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }
	if bytes.IndexFunc(line, hidden) < 0 {
		return e.to.Write(line)
	}

	var b bytes.Buffer
	for _, r := range string(line) {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	if _, err := e.to.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(line), nil
}

// longestText is how long a text or an error in a line is. An error may have what another server sent.
const longestText = 16 << 10

// shortened returns the beginning of a long text, with its length, and no secrets.
func shortened(a slog.Attr) slog.Attr {
	var text string
	switch v := a.Value.Any().(type) {
	case string:
		text = v
	case error:
		text = fmt.Sprint(v)
	}
	hidden := Hide(text)
	if len(hidden) <= longestText && hidden == text {
		return a
	}
	if text = hidden; len(text) <= longestText {
		return slog.String(a.Key, text)
	}
	return slog.String(a.Key, fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:longestText], ""), len(text)))
}

// inWords makes JSON show durations and addresses like the text format: "5.2s", not 5200000000, and "192.0.2.1:443",
// not an object.
func inWords(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case time.Duration:
		return slog.String(a.Key, v.String())
	case error, json.Marshaler:
	case fmt.Stringer:
		if p := reflect.ValueOf(v); p.Kind() != reflect.Pointer || !p.IsNil() {
			return slog.String(a.Key, v.String())
		}
	}
	return a
}

// readByPeople reports whether the output is a terminal or journald.
func readByPeople(to io.Writer) bool {
	file, ok := to.(*os.File)
	return ok && (term.IsTerminal(int(file.Fd())) || os.Getenv("JOURNAL_STREAM") != "")
}

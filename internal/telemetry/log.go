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
		handler = func(to io.Writer) slog.Handler { return slog.NewJSONHandler(to, options) }
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

// longestText is how long a text or an error in a line is. An error may have what another server sent.
const longestText = 16 << 10

// shortened returns the beginning of a long text, with its length.
func shortened(a slog.Attr) slog.Attr {
	var text string
	switch v := a.Value.Any().(type) {
	case string:
		text = v
	case error:
		text = fmt.Sprint(v)
	}
	if len(text) <= longestText {
		return a
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

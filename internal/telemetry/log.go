package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"
)

// Log makes a logger: level is debug, info, warn or error; format is text, json, or auto, which is text on a terminal
// and in journald, JSON lines elsewhere.
func Log(to io.Writer, level, format string) (*slog.Logger, error) {
	options := &slog.HandlerOptions{}
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("the log level %q is not known; write debug, info, warn or error", level)
	}
	options.Level = l
	if format == "text" || format == "auto" && readByPeople(to) {
		return slog.New(slog.NewTextHandler(to, options)), nil
	}
	return slog.New(slog.NewJSONHandler(to, options)), nil
}

// readByPeople says that a terminal or journald is at the other end.
func readByPeople(to io.Writer) bool {
	file, ok := to.(*os.File)
	return ok && (term.IsTerminal(int(file.Fd())) || os.Getenv("JOURNAL_STREAM") != "")
}

package offline

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/weir/internal/output"
	"weir/internal/keys"
	"weir/internal/regular"
	"weir/internal/telemetry"
)

// An asked is the result of one check of the live system, as `weir check --live --json` writes it.
type asked struct {
	Thing string `json:"thing"` // kafka, topic weir.hits, store, data, source file-1 …
	Holds bool   `json:"holds"`
	What  string `json:"what"` // what was found, or what is wrong and how to correct it
}

// livePatience is how long each of Kafka and the store may take to answer.
const livePatience = 10 * time.Second

// A liveCheck checks, one after the other, the things that a configuration names.
type liveCheck struct {
	settings *config.Config
	found    []asked
}

func askLive(ctx context.Context, settings *config.Config) []asked {
	l := &liveCheck{settings: settings}
	l.folder("data", settings.Data)
	l.store(ctx)
	l.inlineStore(ctx)
	l.kafka(ctx)
	for i := range settings.Collector.Sources {
		l.source(ctx, &settings.Collector.Sources[i])
	}
	for _, file := range settings.NamedFiles() {
		l.file(file)
	}
	return l.found
}

// file requires that a file of keys, of a certificate or of a password can be read.
func (l *liveCheck) file(file config.NamedFile) {
	if file.Keys {
		found, err := keys.Open(file.Path)
		if err != nil {
			l.judge(file.Key, err, "")
			return
		}
		l.holds(file.Key, "%s: %s", file.Path, output.Counted(len(found.All()), "key"))
		return
	}

	_, err := regular.ReadFile(file.Path)
	l.judge(file.Key, err, file.Path+": can be read")
}

func (l *liveCheck) holds(thing, format string, args ...any) {
	l.found = append(l.found, asked{thing, true, fmt.Sprintf(format, args...)})
}

func (l *liveCheck) fails(thing, format string, args ...any) {
	l.found = append(l.found, asked{thing, false, telemetry.Hide(fmt.Sprintf(format, args...))})
}

// judge notes the error, or, without one, what was found.
func (l *liveCheck) judge(thing string, err error, found string) {
	if err != nil {
		l.fails(thing, "%v", err)
		return
	}
	l.holds(thing, "%s", found)
}

// writeAsked writes one line for each check.
func writeAsked(to io.Writer, found []asked) error {
	var rows []string
	for _, one := range found {
		result := "ok"
		if !one.Holds {
			result = "ERROR"
		}
		rows = append(rows, fmt.Sprintf("  %s\t%s\t%s", result, one.Thing, strings.Join(strings.Fields(one.What), " ")))
	}
	var b strings.Builder
	output.Table(&b, rows)
	_, err := io.WriteString(to, b.String())
	return err
}

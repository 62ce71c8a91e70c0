package offline

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/pkg/backtest"
)

// inputs lists the files, which it does not open, the partitions of the topics, and the logs that other servers keep. It
// refuses a file that is named twice. end ends the connections.
func inputs(ctx context.Context, files []string, stdin io.Reader, settings *config.Config) (all []backtest.Input, end func(), err error) {
	var ends []func()
	end = func() {
		for _, one := range ends {
			one()
		}
	}
	var known []named
	seen := map[string]bool{}
	for _, file := range files {
		path, elsewhere := filepath.Clean(file), strings.HasPrefix(file, topicScheme) || isServed(file)
		if elsewhere {
			path = file
		}
		if seen[path] {
			return nil, end, exit.Wrongf("%s is named twice; its requests would count twice", file)
		}

		seen[path] = true
		if elsewhere {
			logs, close, err := inputsElsewhere(ctx, file, settings)
			if err != nil {
				return nil, end, err
			}
			all, ends = append(all, logs...), append(ends, close)
			continue
		}
		if file == "-" {
			all = append(all, backtest.Input{Path: "standard input", Reader: stdin})
			continue
		}

		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() { // opening it reports what is wrong
			if i := slices.IndexFunc(known, func(other named) bool { return os.SameFile(other.info, info) }); i >= 0 {
				return nil, end, exit.Wrongf("%s and %s are one file; its requests would count twice", known[i].name, file)
			}
			known = append(known, named{file, info})
		}

		all = append(all, backtest.Input{Path: file})
	}

	return all, end, nil
}

// inputsElsewhere are the partitions of a topic, or the logs that another server keeps.
func inputsElsewhere(ctx context.Context, file string, settings *config.Config) ([]backtest.Input, func(), error) {
	if isServed(file) {
		s, err := parseServed(file, time.Now(), settings)
		if err != nil {
			return nil, nil, err
		}
		return s.inputs(ctx)
	}
	t, err := parseTopic(file, time.Now())
	if err != nil {
		return nil, nil, err
	}
	return t.inputs(ctx, settings)
}

// A named is a regular file with the name that the user gave it; a file with links has several.
type named struct {
	name string
	info os.FileInfo
}

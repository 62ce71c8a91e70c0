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

// inputs lists the files, which it does not open, and the partitions of the topics. It refuses a file that is named
// twice. end ends the connections to topics.
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
		path, isTopic := filepath.Clean(file), strings.HasPrefix(file, topicScheme)
		if isTopic {
			path = file
		}
		if seen[path] {
			return nil, end, exit.Wrongf("%s is named twice; its requests would count twice", file)
		}

		seen[path] = true
		if isTopic {
			t, err := parseTopic(file, time.Now())
			if err != nil {
				return nil, end, err
			}
			partitions, close, err := t.inputs(ctx, settings)
			if err != nil {
				return nil, end, err
			}
			all, ends = append(all, partitions...), append(ends, close)
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

// A named is a regular file with the name that the user gave it; a file with links has several.
type named struct {
	name string
	info os.FileInfo
}

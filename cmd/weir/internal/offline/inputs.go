package offline

import (
	"io"
	"os"
	"path/filepath"
	"slices"

	"weir/cmd/internal/exit"
	"weir/pkg/backtest"
)

// inputs opens nothing: it lists the files, and refuses a file that is named twice.
func inputs(files []string, stdin io.Reader) ([]backtest.Input, error) {
	var all []backtest.Input
	var known []named
	seen := map[string]bool{}
	for _, file := range files {
		path := filepath.Clean(file)
		if seen[path] {
			return nil, exit.Wrongf("%s is named twice; its requests would count twice", file)
		}

		seen[path] = true
		if file == "-" {
			all = append(all, backtest.Input{Path: "standard input", Reader: stdin})
			continue
		}

		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() { // opening it reports what is wrong
			if i := slices.IndexFunc(known, func(other named) bool { return os.SameFile(other.info, info) }); i >= 0 {
				return nil, exit.Wrongf("%s and %s are one file; its requests would count twice", known[i].name, file)
			}
			known = append(known, named{file, info})
		}

		all = append(all, backtest.Input{Path: file})
	}

	return all, nil
}

// A named is a regular file with the name that the user gave it; a file with links has several.
type named struct {
	name string
	info os.FileInfo
}

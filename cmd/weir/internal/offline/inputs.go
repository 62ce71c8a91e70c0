package offline

import (
	"io"
	"os"
	"path/filepath"

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

		one := stat(file)
		if other := one.among(known); other != "" {
			return nil, exit.Wrongf("%s and %s are one file; its requests would count twice", other, file)
		}

		known = append(known, one)
		all = append(all, backtest.Input{Path: file})
	}

	return all, nil
}

// A named is a file with the name that the user gave it; a file with links has several.
type named struct {
	name string
	info os.FileInfo // nil unless it is a regular file; opening it reports what is wrong
}

func stat(name string) named {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return named{name, nil}
	}
	return named{name, info}
}

// among returns the name under which the file is already known; empty when it is not.
func (n named) among(known []named) string {
	for _, other := range known {
		if n.info != nil && other.info != nil && os.SameFile(n.info, other.info) {
			return other.name
		}
	}
	return ""
}

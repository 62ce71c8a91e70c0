package main

import (
	"io"
	"os"
	"path/filepath"

	"weir/pkg/backtest"
)

// inputs are the files, each of them and standard input once at most.
func inputs(files []string, stdin io.Reader) ([]backtest.Input, error) {
	var all []backtest.Input
	var known []named
	seen := map[string]bool{}
	for _, file := range files {
		path := filepath.Clean(file)
		if seen[path] {
			return nil, wrongf("%s is named twice; its requests would count twice", file)
		}

		seen[path] = true
		if file == "-" {
			all = append(all, backtest.Input{Path: "standard input", Reader: stdin})
			continue
		}

		one := stat(file)
		if other := one.among(known); other != "" {
			return nil, wrongf("%s and %s are one file; its requests would count twice", other, file)
		}

		known = append(known, one)
		all = append(all, backtest.Input{Path: file})
	}

	return all, nil
}

// A named is a file and the name that it was given; links give it several.
type named struct {
	name string
	info os.FileInfo // nil when it is no regular file: what is wrong with it is told when it is opened
}

func stat(name string) named {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return named{name, nil}
	}
	return named{name, info}
}

// among is the name under which the file is already known.
func (n named) among(known []named) string {
	for _, other := range known {
		if n.info != nil && other.info != nil && os.SameFile(n.info, other.info) {
			return other.name
		}
	}
	return ""
}

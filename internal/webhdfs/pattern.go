package webhdfs

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A pattern selects files by their paths.
type pattern struct {
	base  string   // the folder that all of them are in
	names []string // below it: ** stands for any number of folders
}

const anyFolders = "**"

// parsePattern reads a path. One without wildcards is a folder, with all that is below it.
func parsePattern(text string) (p pattern, err error) {
	if !strings.HasPrefix(text, "/") {
		return p, fmt.Errorf("%q is not a path in HDFS: write /logs/ or /logs/**/*.log", text)
	}
	names := strings.Split(strings.Trim(path.Clean(text), "/"), "/")
	first := slices.IndexFunc(names, func(name string) bool { return strings.ContainsAny(name, `*?[\`) })
	if first < 0 {
		return pattern{path.Clean(text), []string{anyFolders}}, nil
	}
	for _, name := range names[first:] {
		if _, err := path.Match(name, ""); err != nil || strings.Contains(name, anyFolders) && name != anyFolders {
			return p, fmt.Errorf("%q is not a pattern: ** stands for folders, and * for a part of a name", text)
		}
	}
	return pattern{"/" + strings.Join(names[:first], "/"), names[first:]}, nil
}

// CheckPath checks a path.
func CheckPath(text string) error {
	_, err := parsePattern(text)
	return err
}

// matches reports whether a file is one of the pattern.
func (p *pattern) matches(file string) bool { return match(p.names, p.below(file), false) }

// within reports whether a folder may have files of the pattern.
func (p *pattern) within(folder string) bool { return match(p.names, p.below(folder), true) }

func (p *pattern) below(at string) []string {
	return strings.Split(strings.TrimPrefix(strings.TrimPrefix(at, p.base), "/"), "/")
}

// match matches names, or with begins the first ones of longer paths. A ** at the end stands for files too.
func match(pattern, names []string, begins bool) bool {
	switch {
	case len(names) == 0:
		return begins || len(pattern) == 0
	case len(pattern) == 0:
		return false
	case pattern[0] == anyFolders:
		return len(pattern) == 1 || match(pattern[1:], names, begins) || match(pattern, names[1:], begins)
	}
	ok, _ := path.Match(pattern[0], names[0])
	return ok && match(pattern[1:], names[1:], begins)
}

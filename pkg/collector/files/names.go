package files

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/logfile"
)

// rotations are the endings that rotation adds to a file's name: access.log.1, access.log.2.gz, access.log-20260101,
// access.log-20260101-1767225600.zst, access.log.gz.
var rotations = regexp.MustCompile(`^([.-][0-9][0-9T:_.-]*?)?(\.gz|\.zst|\.bz2)?$`)

// stamp is what Caddy writes before the extension of a file that it has rotated, and Go's loggers like it:
// access-2026-01-01T08-00-00.000.log.gz, since Caddy 2.11 access-2026-01-01T08-00-00.000-size.log.gz.
var stamp = regexp.MustCompile(`-[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}-[0-9]{2}-[0-9]{2}\.[0-9]{3}(-[a-z]+(_[0-9]+)?)?$`)

// stampedOf returns the name of the live file from which a file with a stamp was rotated, and the ending with the stamp.
func stampedOf(name string) (live, suffix string, ok bool) {
	plain := name
	if logfile.NamedAsPacked(name) {
		plain = strings.TrimSuffix(name, filepath.Ext(name))
	}
	extension := filepath.Ext(plain)
	stem := strings.TrimSuffix(plain, extension)
	found := stamp.FindStringIndex(stem)
	if found == nil || found[0] == 0 {
		return "", "", false
	}
	return stem[:found[0]] + extension, name[found[0]:], true
}

// rotationOf returns the ending of a rotated file's name after the live file's name; ok is false when the file was not
// rotated from that one.
func rotationOf(live, name string) (suffix string, ok bool) {
	if of, suffix, ok := stampedOf(name); ok && of == live {
		return suffix, true
	}
	suffix, ok = strings.CutPrefix(name, live)
	return suffix, ok && suffix != "" && rotations.MatchString(suffix)
}

// liveOf returns the name without its rotation endings, and all names on the way to it, the longest first.
func liveOf(name string) (names []string) {
	for cut := len(name) - 1; cut > 0; cut-- {
		if rotations.MatchString(name[cut:]) {
			names = append(names, name[:cut])
		}
	}
	if live, _, ok := stampedOf(name); ok {
		names = append(names, live)
	}
	return names
}

// An aged is a file of a family with the attributes that order it by age.
type aged struct {
	suffix string // empty for the live file
	at     time.Time
}

// number is N of access.log.N or access.log.N.gz; 0 for other names.
func (a aged) number() int {
	text := a.suffix
	if logfile.NamedAsPacked(text) {
		text = strings.TrimSuffix(text, filepath.Ext(text))
	}
	n, err := strconv.Atoi(strings.TrimPrefix(text, "."))
	if err != nil || n > 9999 || !strings.HasPrefix(text, ".") {
		return 0
	}
	return n
}

func (a aged) dated() bool { return len(a.suffix) >= 9 && a.number() == 0 }

// oldestFirst sorts the files of a family: by number if all have one, by date if all have one, otherwise by
// modification time. The live file is the newest.
func oldestFirst[F any](files []F, age func(F) aged) {
	order := func(a, b aged) int { return a.at.Compare(b.at) }
	if all(files, age, func(a aged) bool { return a.number() > 0 }) {
		order = func(a, b aged) int { return b.number() - a.number() }
	} else if all(files, age, aged.dated) {
		order = func(a, b aged) int { return cmp.Compare(a.suffix, b.suffix) }
	}

	slices.SortStableFunc(files, func(x, y F) int {
		a, b := age(x), age(y)
		if a.suffix == "" || b.suffix == "" {
			return cmp.Compare(b.suffix, a.suffix) // the one without a suffix is last
		}
		return order(a, b)
	})
}

func all[F any](files []F, age func(F) aged, is func(aged) bool) bool {
	return !slices.ContainsFunc(files, func(f F) bool { a := age(f); return a.suffix != "" && !is(a) })
}

// A found is a file of a family's folder.
type found struct {
	path   string
	suffix string
	info   os.FileInfo

	compressed logfile.Kind // set by sniff
}

package tables

import (
	"fmt"
	"strings"
	"time"
)

// The versions of tables.
const (
	cellsVersion   = 1
	historyVersion = 2
)

// Needed is the version that tables need at least, with a history that is kept for so long, or with none.
func Needed(history time.Duration) int {
	if history > 0 {
		return historyVersion
	}
	return cellsVersion
}

// Migrations are the SQL that brings tables from each version to the next. Version 0 is that of no tables.
type Migrations []string

// Version is the version of tables when some of them may be missing: the last one that lacks nothing. The tables record theirs.
func (m Migrations) Version(recorded int, cells, history bool) int {
	switch {
	case recorded > len(m):
		return recorded
	case !cells:
		return 0
	case !history:
		return min(recorded, cellsVersion)
	}
	return recorded
}

// Due reports whether tables of a version are to be changed. A version that is needed is enough: tables that are older
// than the newest version are changed only for the sake of what they lack. The command prints the SQL, with %s for the
// version to begin from.
func (m Migrations) Due(version, needed int, create bool, command string) (bool, error) {
	switch {
	case version > len(m):
		return false, fmt.Errorf("%w: they have version %d, and this one knows %d", errNewer, version, len(m))
	case version >= needed:
		return false, nil
	case !create:
		return false, fmt.Errorf("%w (version %d of %d); run: %s", ErrMissing, version, len(m), fmt.Sprintf(command, flagFrom(version)))
	}
	return true, nil
}

// Failed is the error of a change that the database refused.
func (m Migrations) Failed(version int, why error, command string) error {
	return fmt.Errorf("the tables of inline limits cannot be made: %w; run: %s", why, fmt.Sprintf(command, flagFrom(version)))
}

func flagFrom(version int) string {
	if version == 0 {
		return ""
	}
	return fmt.Sprintf(" --from %d", version)
}

// From is the SQL for tables of a version.
func (m Migrations) From(version int) (string, error) {
	if version < 0 || version >= len(m) {
		return "", fmt.Errorf("tables of version %d cannot be changed to version %d; name one from 0, which is no tables, to %d", version, len(m), len(m)-1)
	}
	return strings.Join(m[version:], "\n"), nil
}

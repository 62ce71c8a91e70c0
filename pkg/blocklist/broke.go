package blocklist

import (
	"fmt"
	"strings"
)

const different = " different "

// IsDifferent reports whether the text of a limit is one of different values: 200 different paths within an hour.
func IsDifferent(limit string) bool { return strings.Contains(limit, different) }

// Broke is how a key broke a limit, in words, where count is of hits or requests: 201 hits broke 200/hour. A limit of
// different values is in words itself: more than 200 different paths within an hour. It is short, so that a list of 80
// columns shows what was counted.
func Broke(count int64, of, limit string) string {
	if IsDifferent(limit) {
		return "more than " + limit
	}
	return fmt.Sprintf("%d %s broke %s", count, of, limit)
}

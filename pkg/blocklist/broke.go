package blocklist

import (
	"fmt"
	"strings"
)

// IsDifferent reports whether the text of a limit is one in words: 200 different paths within an hour, 5 blocked addresses
// within 10 minutes.
func IsDifferent(limit string) bool {
	return strings.Contains(limit, " different ") || strings.Contains(limit, " blocked address")
}

// IsShare reports whether the text of a limit is one of a share: 50% of at least 20 requests within 10 minutes.
func IsShare(limit string) bool { return strings.Contains(limit, "% of at least ") }

// Broke is how a key broke a limit, in words, where count is of hits or requests: 201 hits broke 200/hour. A limit of
// different values or of a share is in words itself: more than 200 different paths within an hour. It is short, so that a list of 80
// columns shows what was counted.
func Broke(count int64, of, limit string) string {
	if IsDifferent(limit) || IsShare(limit) {
		return "more than " + limit
	}
	return fmt.Sprintf("%d %s broke %s", count, of, limit)
}

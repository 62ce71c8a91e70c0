package shown

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/cmd/weir/internal/output"
	"weir/internal/uncounted"
)

// Uncounted describes how many of a source's requests made no hit, and why; "" when all made one.
func Uncounted(requests int64, by map[string]int64) string {
	var all int64
	for _, n := range by {
		all += n
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("%s of %s not counted: %s", output.Grouped(int(all)), output.Counted(int(requests), "request"), Reasons(by))
}

// Lost counts what was lost of a source of a kind before it was read.
func Lost(kind string, n int64) string {
	unit := "record"
	if kind == "s3" {
		unit = "object"
	}
	return output.Counted(int(n), unit)
}

// Reasons describes why requests made no hit, the most frequent reason first.
func Reasons(by map[string]int64) string {
	byCount := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b))
	})
	texts := make([]string, len(byCount))
	for i, reason := range byCount {
		texts[i] = fmt.Sprintf("%s %s", output.Grouped(int(by[reason])), cmp.Or(uncounted.Words[reason], reason))
	}
	return strings.Join(texts, ", ")
}

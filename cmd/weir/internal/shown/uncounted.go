package shown

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/cmd/weir/internal/output"
)

// uncountedWords describe the reasons of weir_collector_uncounted_total.
var uncountedWords = map[string]string{
	"format": "not in the format", "time": "without a time that can be read", "address": "with an invalid address", "json": "not JSON",
	"envelope": "not in the envelope", "long": "too long", "ahead": "ahead of the clock", "start": "older than the configured start",
	"filtered": "in records that the filter only leaves out", "inline": "decided inline by all rules", "allowed": "allowed by the rules", "match": "matched by no rule",
	"expression": "on which an expression fails", "refused": "refused, by rules that count only served requests", "key": "without the key of any rule",
	"cost": "that cost nothing", "kafka": "refused by the topic",
}

// Uncounted describes how many of a source's requests made no hit, and why; "" when all made one.
func Uncounted(requests int64, uncounted map[string]int64) string {
	var all int64
	for _, n := range uncounted {
		all += n
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("%s of %s not counted: %s", output.Grouped(int(all)), output.Counted(int(requests), "request"), Reasons(uncounted))
}

// Reasons describes why requests made no hit, the most frequent reason first.
func Reasons(uncounted map[string]int64) string {
	byCount := slices.SortedFunc(maps.Keys(uncounted), func(a, b string) int {
		return cmp.Or(cmp.Compare(uncounted[b], uncounted[a]), cmp.Compare(a, b))
	})
	texts := make([]string, len(byCount))
	for i, reason := range byCount {
		texts[i] = fmt.Sprintf("%s %s", output.Grouped(int(uncounted[reason])), cmp.Or(uncountedWords[reason], reason))
	}
	return strings.Join(texts, ", ")
}

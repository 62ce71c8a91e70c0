// Package uncounted has the words for people about requests that do not count.
package uncounted

import (
	"maps"
	"slices"
	"strings"
)

// Words describe the reasons of weir_collector_uncounted_total.
var Words = map[string]string{
	"format": "not in the format", "time": "without a time that can be read", "address": "with an invalid address", "json": "not JSON",
	"envelope": "not in the envelope", "long": "too long", "ahead": "ahead of the clock", "start": "older than the configured start",
	"filtered": "in records that the filter only leaves out", "inline": "decided inline by all rules", "allowed": "allowed by the rules", "match": "matched by no rule",
	"expression": "on which an expression fails", "refused": "refused, by rules that count only served requests", "key": "without the key of any rule",
	"cost": "that cost nothing", "lost": "lost before they could be read", "sender": "from senders that may not send", "kafka": "refused by the topic",
	"seen": "that were seen before",
}

// intended are the reasons for which rules or the configuration leave requests out on purpose.
var intended = []string{"allowed", "cost", "filtered", "key", "match", "refused", "seen", "start"}

// Missing describes why nothing is read of a file of a source, which is a path or a pattern.
func Missing(file string) string {
	if strings.ContainsAny(file, `*?[\`) {
		return "matches no file"
	}
	return "does not exist"
}

// Lost returns how many requests of a source could not be read or judged, with their reasons, and without those that are
// left out on purpose. When no request counts at all it returns all of them, whatever the reasons: then the rules do not
// fit the log. Requests that all rules leave to an enforcer are no sign of that, nor are those that were seen before.
func Lost(requests int64, by map[string]int64) (lost int64, reasons map[string]int64) {
	all, every, unintended := int64(0), maps.Clone(by), map[string]int64{}
	delete(every, "inline")
	delete(every, "seen")
	for reason, n := range every {
		all += n
		if !slices.Contains(intended, reason) {
			lost += n
			unintended[reason] = n
		}
	}
	if all >= requests-by["seen"] {
		return all, every
	}
	return lost, unintended
}

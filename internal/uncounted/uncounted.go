// Package uncounted has the words for people about requests that do not count.
package uncounted

// Words describe the reasons of weir_collector_uncounted_total.
var Words = map[string]string{
	"format": "not in the format", "time": "without a time that can be read", "address": "with an invalid address", "json": "not JSON",
	"envelope": "not in the envelope", "long": "too long", "ahead": "ahead of the clock", "start": "older than the configured start",
	"filtered": "in records that the filter only leaves out", "inline": "decided inline by all rules", "allowed": "allowed by the rules", "match": "matched by no rule",
	"expression": "on which an expression fails", "refused": "refused, by rules that count only served requests", "key": "without the key of any rule",
	"cost": "that cost nothing", "kafka": "refused by the topic",
}

package kafka_test

import (
	"strings"

	"weir/test/locked"
)

// lines collects the output of a logger.
type lines struct{ locked.Buffer }

func (l *lines) all() []string { return strings.Split(l.String(), "\n") }

// has is a condition: some line has all the words.
func (l *lines) has(words ...string) func() bool {
	return func() bool { return l.count(words...) > 0 }
}

func (l *lines) count(words ...string) int {
	count := 0
	for _, line := range l.all() {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			count++
		}
	}
	return count
}

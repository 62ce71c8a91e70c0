package rule_test

import (
	"sync"
	"testing"
)

// Judges of one set run at the same time, under the race detector.
func TestJudgesOfOneSetAreApart(t *testing.T) {
	set := mustParse(t, fiveRules+"  - {match: 'any(split(path, \"/\"), # == \"orders\") and host == \"x\"'}\n")
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			judge, r := set.NewJudge(), sample()
			for range 500 {
				if hits := judge.Hits(r); len(hits) != 4 || string(hits[0].Key) != "203.0.113.7" {
					t.Errorf("%v", hits)
					return
				}
			}
		})
	}
	wait.Wait()
}

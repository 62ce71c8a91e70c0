package rule_test

import (
	"sync"
	"testing"
)

// Judges of one set are asked at once; the race detector looks on.
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

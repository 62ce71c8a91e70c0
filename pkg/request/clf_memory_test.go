package request

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestAMinuteThatIsRememberedChangesNoTime compares a memory with a reader without one, for times that are close to
// each other, and damaged ones.
func TestAMinuteThatIsRememberedChangesNoTime(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	zones := []*time.Location{time.UTC, berlin, time.FixedZone("", -12600)}
	edges := []string{"30/Jun/2015:23:59:60 +0000", "30/Jun/2015:23:59:59 +0000", "30/Jun/2015:23:59:09.12345", "15/May/2109:07:35:11 +0000",
		"15/May/2109:07:35:12 +0000", "01/Jan/1970:00:00:00 +0000", "31/Dec/1969:23:59:59 +0000", "01/Jan/1970:01:00:10 +0100", "30/Jun/2015:23:59:1a +0000"}
	var memory clfMemory
	at := time.Date(2026, 5, 4, 6, 25, 6, 0, time.UTC)
	remembered := 0
	for range 200_000 {
		at = at.Add(time.Duration(random.IntN(20_000)-9_000) * time.Millisecond)
		text := at.In(zones[random.IntN(40)/15]).Format("02/Jan/2006:15:04:05 -0700")
		switch random.IntN(20) {
		case 0:
			text = edges[random.IntN(len(edges))]
		case 1:
			text = mutated(random, text)
		}
		before := memory.start
		got, ok := memory.time(text, berlin)
		if want, wantOK := timeCLF(text, berlin); got != want || ok != wantOK {
			t.Fatalf("%q is %d, %v; anew %d, %v", text, got, ok, want, wantOK)
		}
		if memory.known && memory.start == before {
			remembered++
		}
	}
	if remembered < 50_000 {
		t.Errorf("only %d times were of the minute before", remembered)
	}
}

package whatif_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/topic"
	"weir/pkg/enforcer/whatif"
	"weir/pkg/hit"
	"weir/pkg/rule"
	"weir/pkg/window"
	"weir/test/running"
)

const rulesText = `
rules:
  - {name: per-ip, key: ip, limits: [10/min], block: {for: 5m}}
  - {name: served, key: ip, limits: [10/min], count: served}
  - {name: heavy, key: ip, limits: [100/min], cost: bytes / 1000}
`

// A stand is a topic of hits, and a collector that writes it.
type stand struct {
	t      *testing.T
	topic  *running.Topic
	rules  *rule.Set
	config whatif.Config
	at     int64 // position of the collector
}

func newStand(t *testing.T) *stand {
	t.Helper()
	topics, err := running.StartTopics(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(topics.Close)
	s := &stand{t: t}
	if s.topic, err = running.MakeTopic(t.Context(), topics, "weir.hits", 4); err != nil {
		t.Fatal(err)
	}
	if s.rules, _, err = rule.Parse("rules.yaml", []byte(rulesText)); err != nil {
		t.Fatal(err)
	}
	s.config = whatif.Config{Log: topics, Topic: "weir.hits", Retention: 48 * time.Hour, Late: 20 * time.Minute, Ahead: 10 * time.Second}
	return s
}

// A request counts for a key of a rule.
type request struct {
	rule, key string
	at, cost  int64 // cost 0 unblocks
}

// send sends requests as a collector does: one batch a partition.
func (s *stand) send(requests ...request) (batches []topic.Message) {
	s.t.Helper()
	names := []string{"per-ip", "served", "heavy"}
	for number := range s.topic.Partitions {
		w := hit.NewWriter()
		w.Reset(names)
		for _, r := range requests {
			of := map[string]int{"per-ip": 0, "served": 1, "heavy": 2}[r.rule]
			switch {
			case hit.Partition(r.rule, []byte(r.key), s.topic.Partitions) != number:
			case r.cost == 0:
				w.Unblock(of, []byte(r.key), running.Eight+r.at, "an order")
			default:
				w.Add(of, []byte(r.key), running.Eight+r.at, r.cost)
			}
		}
		b, err := w.Append(nil, hit.Header{Source: "access.log/1", From: s.at, To: s.at + 1, Clock: running.Eight + requests[len(requests)-1].at, Fingerprint: s.rules.Fingerprint()})
		if err != nil {
			s.t.Fatal(err)
		}
		batches = append(batches, topic.Message{Partition: number, Value: b})
	}
	s.at++
	if err := s.topic.Put(s.t.Context(), batches...); err != nil {
		s.t.Fatal(err)
	}
	return batches
}

// ask asks what limits would have done.
func (s *stand) ask(name string, limits ...string) *whatif.Answer {
	s.t.Helper()
	answer, err := whatif.Ask(s.t.Context(), s.config, s.question(name, limits...))
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

func (s *stand) question(name string, limits ...string) whatif.Question {
	s.t.Helper()
	one, _ := s.rules.Rule(name)
	q := whatif.Question{Rule: one, Fingerprint: s.rules.Fingerprint(), Since: time.Now().Add(-time.Hour)}
	for _, text := range limits {
		limit, err := rule.ParseLimit(text)
		if err != nil {
			s.t.Fatal(err)
		}
		q.Limits = append(q.Limits, limit)
	}
	return q
}

// every is n requests of a key, one each step of milliseconds.
func every(key string, n int, step int64) (all []request) {
	for i := range n {
		all = append(all, request{"per-ip", key, int64(i) * step, 1})
	}
	return all
}

func TestOtherLimitsAreCompared(t *testing.T) {
	s := newStand(t)
	s.send(append(every("203.0.113.7", 15, 1000), every("203.0.113.66", 60, 1000)...)...)
	s.send(append(every("198.51.100.1", 3, 1000), request{"served", "198.51.100.1", 4000, 1})...)

	a := s.ask("per-ip", "20/min", "1000/hour")
	if a.Keys != 3 || a.Hits != 78 || a.Partitions != 4 || a.Read != 4 || a.OnlyNow != 1 || a.OnlyOther != 0 {
		t.Errorf("%+v", a)
	}
	if want := (whatif.Outcome{[]string{"10/min"}, 2, 2, 50 + 5}); !reflect.DeepEqual(a.Now, want) {
		t.Errorf("now %+v", a.Now)
	}
	if want := (whatif.Outcome{[]string{"20/min", "1000/hour"}, 1, 1, 40}); !reflect.DeepEqual(a.Other, want) {
		t.Errorf("other %+v", a.Other)
	}
	if len(a.Top) != 2 || a.Top[0] != (whatif.Key{"203.0.113.66", 60, whatif.Verdict{running.Eight + 10_000, 1, 50}, whatif.Verdict{running.Eight + 20_000, 1, 40}}) || a.Top[1].Other.Refused != 0 {
		t.Errorf("%+v", a.Top)
	}

	text, err := json.Marshal(a)
	var again whatif.Answer
	if err != nil || json.Unmarshal(text, &again) != nil || !reflect.DeepEqual(a, &again) {
		t.Errorf("%v %s", err, text)
	}
	if stricter := s.ask("per-ip", "2/min"); stricter.OnlyOther != 1 || stricter.Other.Blocked != 3 {
		t.Errorf("%+v", stricter)
	}
}

// Hits that aggregators do not count do not count here: those that are there twice, damaged, ahead of time, or of another
// rule. An unblock lets the key begin again.
func TestHitsCountAsInAggregators(t *testing.T) {
	s := newStand(t)
	first := s.send(every("203.0.113.7", 11, 1000)...)
	if err := s.topic.Put(t.Context(), first...); err != nil {
		t.Fatal(err)
	}
	s.send(request{"per-ip", "203.0.113.7", 12_000, 0}, request{"per-ip", "203.0.113.7", 500_000, 1}, request{"per-ip", "203.0.113.7", 13_000, 1})
	if err := s.topic.Put(t.Context(), topic.Message{Value: []byte("damaged")}); err != nil {
		t.Fatal(err)
	}
	a := s.ask("per-ip", "5/min")
	if a.Hits != 12 || a.Now.Refused != 1 || a.Other.Refused != 6 {
		t.Errorf("%+v", a)
	}
	if len(a.Notes) != 2 || !strings.HasPrefix(a.Notes[0], "1 records of the hits could not be read") {
		t.Errorf("%q", a.Notes)
	}

	if a := s.ask("served", "5/min"); a.Hits != 0 || len(a.Notes) != 2 || !strings.HasPrefix(a.Notes[0], "The rule counts only requests that were not refused") {
		t.Errorf("%+v", a)
	}
	q := s.question("per-ip", "5/min")
	q.Fingerprint = "another"
	if a, err := whatif.Ask(t.Context(), s.config, q); err != nil || !strings.HasPrefix(a.Notes[0], "12 of the hits were counted before the rules were last changed") {
		t.Errorf("%+v %v", a, err)
	}
	q.Since = time.Now().Add(time.Hour)
	if a, err := whatif.Ask(t.Context(), s.config, q); err != nil || a.Hits != 0 || a.Read != 4 {
		t.Errorf("nothing since then: %+v %v", a, err)
	}
	s.send(request{"heavy", "203.0.113.7", 600_000, 70}, request{"heavy", "203.0.113.7", 601_000, 70})
	if a := s.ask("heavy", "1000/min"); a.Now.Blocked != 1 || a.Now.Refused != 70 || a.Other.Blocked != 0 {
		t.Errorf("%+v", a)
	}
}

// The outcome is that of each key alone, counted from a list.
func TestManyKeysAsAlone(t *testing.T) {
	s := newStand(t)
	random := rand.New(rand.NewPCG(1, 2))
	alone := map[string][]request{}
	for batch := range 20 {
		var some []request
		for i := range 300 {
			r := request{"per-ip", fmt.Sprintf("203.0.113.%d", min(random.IntN(60), random.IntN(60))), int64(batch)*60_000 + int64(i)*200, 1}
			some = append(some, r)
			alone[r.key] = append(alone[r.key], r)
		}
		s.send(some...)
	}

	a := s.ask("per-ip", "12/min", "40/10m")
	for i, outcome := range []*whatif.Outcome{&a.Now, &a.Other} {
		q := s.question("per-ip", "12/min", "40/10m")
		one := *q.Rule
		if i == 1 {
			one.Limits = q.Limits
		}
		policy, err := one.Policy(s.config.Late, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := whatif.Outcome{Limits: outcome.Limits}
		for _, requests := range alone {
			state, blocks := &window.State{}, int64(0)
			for _, r := range requests {
				o := policy.Hit(state, running.Eight+r.at, 1)
				if o.Event == window.Broke {
					blocks++
				}
				if o.Event != window.Counted {
					want.Refused++
				}
			}
			if want.Blocks += blocks; blocks > 0 {
				want.Blocked++
			}
		}
		if !reflect.DeepEqual(*outcome, want) || want.Blocked < 5 {
			t.Errorf("%+v, not %+v", *outcome, want)
		}
	}
	if a.Keys != len(alone) || len(a.Top) != 20 {
		t.Errorf("%d keys of %d, %d shown", a.Keys, len(alone), len(a.Top))
	}
}

// Partitions whose keys take too much memory end the reading, and the answer is of those before. A question without time
// or memory for one partition has no answer.
func TestTheBounds(t *testing.T) {
	s := newStand(t)
	var small, large []request
	for i := range 2000 {
		key := fmt.Sprintf("10.0.%d.%d", i>>8, i&255)
		one := request{"per-ip", key, int64(i), 1}
		if hit.Partition("per-ip", []byte(key), 4) == 3 {
			large = append(large, one)
		} else if len(small) < 30 {
			small = append(small, one)
		}
	}
	s.send(append(small, large...)...)
	s.config.MaxBytes = 30_000
	a := s.ask("per-ip", "20/min")
	if a.Read != 3 || a.Keys != 30 || !strings.HasPrefix(a.Notes[0], "Only 3 of 4 partitions were counted") {
		t.Errorf("%+v", a)
	}
	s.config.MaxBytes = 1
	if _, err := whatif.Ask(t.Context(), s.config, s.question("per-ip", "20/min")); !errors.Is(err, whatif.ErrTooMuch) {
		t.Error(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	q := s.question("per-ip", "20/min")
	turns := 0
	q.Turn = func() func() {
		turns++
		cancel()
		return func() { turns-- }
	}
	if _, err := whatif.Ask(ctx, s.config, q); !errors.Is(err, context.Canceled) || turns != 0 {
		t.Errorf("%v, %d turns", err, turns)
	}
}

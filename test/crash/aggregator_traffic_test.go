package crash

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"weir/internal/topic"
	"weir/pkg/hit"
	"weir/pkg/rule"
)

// fireRules break in every way: several limits, offences that last longer each time, blocks that are extended, offences
// that are forgotten, a shadow.
const fireRules = `rules:
  - {name: burst, key: ip, limits: [20/10s, 60/min, 200/10m], block: {for: 20m, then: [1h, 48h], forget: 24h}}
  - {name: login, key: user, limits: [5/min, 15/hour], block: {for: 48h, forget: 48h}}
  - {name: stubborn, key: ip, limits: [10/min], block: {for: 4h, forget: 1h, extend: true}}
  - {name: forgiving, key: [user, path], limits: [8/30s, 30/10m], block: {for: 5m, then: [30m, 12h, 96h], forget: 15m}, mode: shadow}
`

const (
	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute
)

// Traffic makes the batches of several sources over a span of request time. Most keys keep their limits; a small part,
// the offenders, come in bursts again and again.
type traffic struct {
	t          testing.TB
	random     *rand.Rand
	rules      []string
	keys       int // a rule
	partitions int
	from, to   int64 // request time
	sources    []*sender
	recent     []pair // what came in a burst just now
	sent       []topic.Message
	hits       int
}

// A sender is one source.
type sender struct {
	name     string
	position int64
	behind   int64 // of its clock, in milliseconds
}

func newTraffic(t testing.TB, seed uint64, rules *rule.Set, keys, partitions int) *traffic {
	f := &traffic{t: t, random: rand.New(rand.NewPCG(seed, 5)), keys: keys / len(rules.Rules), partitions: partitions}
	for _, r := range rules.Rules {
		f.rules = append(f.rules, r.Name)
	}
	for i := range 6 {
		f.sources = append(f.sources, &sender{name: fmt.Sprintf("fire/%d", i), position: 1, behind: int64(i) * 5 * second})
	}
	return f
}

// keyText is the n-th key of a rule in its canonical form.
func keyText(ruleName string, n int) string {
	switch ruleName {
	case "burst", "stubborn":
		return fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255)
	case "login":
		return fmt.Sprintf("user-%d", n)
	}
	return fmt.Sprintf("user-%d /page/%d", n/3, n%3)
}

// cut makes the batches of one call of some source at a point of the span, and sometimes sends others again, or
// contradicts them.
func (f *traffic) cut(hits int, passed float64) []topic.Message {
	s := f.sources[f.random.IntN(len(f.sources))]
	clock := f.from + int64(passed*float64(f.to-f.from)) - s.behind
	header := hit.Header{Source: s.name, From: s.position, To: s.position + 1 + f.random.Int64N(5000), Clock: clock, Fingerprint: "fire"}
	s.position = header.To
	writers := make([]*hit.Writer, f.partitions)
	for p := range writers {
		writers[p] = hit.NewWriter()
		writers[p].Reset(f.rules)
	}
	for made := 0; made < hits; {
		made += f.some(writers, clock)
	}
	f.hits += hits
	var messages []topic.Message
	for p, w := range writers {
		if w.Len() > 0 {
			messages = append(messages, f.batches(p, w, header)...)
		}
	}
	f.sent = append(f.sent[max(0, len(f.sent)-500):], messages...)
	return f.disturb(messages, header)
}

// some adds a few hits and returns how many.
func (f *traffic) some(writers []*hit.Writer, clock int64) int {
	switch n := f.random.IntN(1000); {
	case n < 12:
		return f.burst(writers, clock)
	case n < 14 && len(f.recent) > 0:
		f.unblock(writers, clock)
		return 1
	case n < 16 && len(f.recent) > 0: // too much older than its key's newest
		f.add(writers, f.recent[f.random.IntN(len(f.recent))], clock-11*minute-f.random.Int64N(5*minute), 1)
	case n < 17: // too far ahead of the clock
		f.add(writers, f.anyone(), clock+11*second+f.random.Int64N(hour), 1)
	case n < 60: // late
		f.add(writers, f.anyone(), clock-f.random.Int64N(8*minute), 1)
	case n < 100:
		f.add(writers, f.anyone(), clock-f.random.Int64N(5*second), 1+f.random.Int64N(4))
	default:
		f.add(writers, f.anyone(), clock-f.random.Int64N(5*second), 1)
	}
	return 1
}

// anyone is a key of many; some of them come more often than others.
func (f *traffic) anyone() pair {
	name := f.rules[f.random.IntN(len(f.rules))]
	share := f.random.Float64()
	return pair{name, keyText(name, int(share*share*float64(f.keys)))}
}

// burst adds the hits of an offender, in any order, some of them late.
func (f *traffic) burst(writers []*hit.Writer, clock int64) int {
	name := f.rules[f.random.IntN(len(f.rules))]
	of := pair{name, keyText(name, f.random.IntN(max(1, f.keys/25)))}
	f.recent = append(f.recent[max(0, len(f.recent)-50):], of)
	hits := 4 + f.random.IntN(60)
	within := (1 + f.random.Int64N(40)) * second
	for range hits {
		f.add(writers, of, clock-f.random.Int64N(within), 1)
	}
	return hits
}

func (f *traffic) add(writers []*hit.Writer, of pair, at, cost int64) {
	p := hit.Partition(of.rule, []byte(of.key), f.partitions)
	if !writers[p].Add(f.number(of.rule), []byte(of.key), at, cost) {
		f.t.Fatal("a batch is full")
	}
}

func (f *traffic) unblock(writers []*hit.Writer, clock int64) {
	of := f.recent[f.random.IntN(len(f.recent))]
	p := hit.Partition(of.rule, []byte(of.key), f.partitions)
	if !writers[p].Unblock(f.number(of.rule), []byte(of.key), clock, fmt.Sprintf("unblock-%d", f.hits)) {
		f.t.Fatal("a batch is full")
	}
}

func (f *traffic) number(name string) int {
	for i, other := range f.rules {
		if name == other {
			return i
		}
	}
	f.t.Fatal(name)
	return -1
}

// batches are a partition's batches of one call: mostly one, sometimes another part with an unblock or with no effect.
func (f *traffic) batches(p int, w *hit.Writer, header hit.Header) []topic.Message {
	if f.random.IntN(10) > 0 {
		return []topic.Message{f.message(p, w, header)}
	}
	header.More = true
	first := f.message(p, w, header)
	w.Reset(f.rules)
	for w.Len() == 0 {
		if of := f.anyone(); hit.Partition(of.rule, []byte(of.key), f.partitions) == p {
			w.Add(f.number(of.rule), []byte(of.key), header.Clock, 1)
		}
	}
	header.Part, header.More = 1, false
	return []topic.Message{first, f.message(p, w, header)}
}

func (f *traffic) message(p int, w *hit.Writer, header hit.Header) topic.Message {
	value, err := w.Append(nil, header)
	if err != nil {
		f.t.Fatal(err)
	}
	return topic.Message{Partition: p, Value: value}
}

// disturb adds batches that were sent before, and some that contradict the new ones.
func (f *traffic) disturb(messages []topic.Message, header hit.Header) []topic.Message {
	for f.random.IntN(4) == 0 {
		messages = append(messages, f.sent[f.random.IntN(len(f.sent))])
	}
	if f.random.IntN(15) > 0 {
		return messages
	}
	w := hit.NewWriter()
	w.Reset(f.rules)
	of := f.anyone()
	w.Add(f.number(of.rule), []byte(of.key), header.Clock, 1000)
	header.From--
	header.To += int64(f.random.IntN(2))
	return append(messages, f.message(hit.Partition(of.rule, []byte(of.key), f.partitions), w, header))
}

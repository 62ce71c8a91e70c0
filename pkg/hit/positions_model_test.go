package hit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// A collector as the design has it: it journals a cut before it sends it, sends what it does not know to have
// arrived again, and makes a cut again from its journal after a crash. Whatever it sends, every line is
// counted once.
type modelCollector struct {
	source string
	cuts   []Header // journalled, each cut's parts one after another
	sent   int      // of those, how many are known to have arrived
}

func (c *modelCollector) cut(r *rand.Rand) {
	from := int64(0)
	if n := len(c.cuts); n > 0 {
		from = c.cuts[n-1].To
	}
	from += int64(r.IntN(2) * r.IntN(50)) // lines that have no hit in this partition
	to := from + 1 + int64(r.IntN(20))
	parts := 1 + r.IntN(2)*r.IntN(3)
	for part := range parts {
		c.cuts = append(c.cuts, cut(c.source, from, to, part, parts))
	}
}

// send sends what is outstanding, in order, until something goes wrong; sometimes from further back.
func (c *modelCollector) send(r *rand.Rand, log *[]Header) {
	from := c.sent
	if r.IntN(4) == 0 {
		from = r.IntN(c.sent + 1)
	}
	for n := from; n < len(c.cuts); n++ {
		if r.IntN(6) == 0 {
			return
		}
		*log = append(*log, c.cuts[n])
		if r.IntN(6) == 0 {
			return // arrived, and the answer lost
		}
		c.sent = max(c.sent, n+1)
	}
}

func checksumOf(h Header) uint64 { return uint64(h.From)*31 + uint64(h.To)*17 + uint64(h.Part) }

func TestEveryBatchIsCountedOnce(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 11))
		collectors := []*modelCollector{{source: "a"}, {source: "b"}, {source: "c"}}
		var log []Header
		for range 200 {
			c := collectors[r.IntN(3)]
			if r.IntN(2) == 0 {
				c.cut(r)
			}
			c.send(r, &log)
		}
		for _, c := range collectors {
			log = append(log, c.cuts[c.sent:]...)
		}
		p := NewPositions(3, time.Hour)
		counted := map[Header]int{}
		for n, h := range log {
			switch v := p.Judge(h, checksumOf(h), int64(n)); v {
			case Apply:
				counted[h]++
			case Conflict, Full:
				t.Fatalf("seed %d: %+v: %v", seed, h, v)
			}
			if r.IntN(10) == 0 {
				p = restored(t, p)
			}
		}
		for _, c := range collectors {
			for _, h := range c.cuts {
				if counted[h] != 1 {
					t.Fatalf("seed %d: %+v is counted %d times", seed, h, counted[h])
				}
			}
		}
	}
}

func restored(t *testing.T, p *Positions) *Positions {
	t.Helper()
	other := NewPositions(p.limit, p.retention)
	if err := other.Read(p.Append(nil)); err != nil {
		t.Fatal(err)
	}
	return other
}

// A slowPositions keeps all that was ever sent, and says of each batch what the sentences of Positions'
// comment say.
type slowPositions struct {
	limit     int
	retention int64
	log       []judged
}

type judged struct {
	Header
	checksum uint64
	at       int64 // of the log: the latest so far
	verdict  Verdict
}

func (s *slowPositions) judge(h Header, checksum uint64, at int64) Verdict {
	if n := len(s.log); n > 0 {
		at = max(at, s.log[n-1].at)
	}
	s.log = append(s.log, judged{h, checksum, at, s.verdict(h, checksum, at)})
	return s.log[len(s.log)-1].verdict
}

func (s *slowPositions) verdict(h Header, checksum uint64, now int64) Verdict {
	last, known := s.last(h.Source, now)
	if !known && s.alive(now) >= s.limit {
		return Full
	}
	sameCut := h.From == last.From && h.To == last.To
	switch {
	case !known, h.From >= last.To:
		return Apply
	case sameCut && last.More && h.Part == last.Part+1:
		return Apply
	case h.To < last.To:
		return Seen
	case sameCut && h.Part < last.Part, sameCut && h.Part == last.Part && checksum == last.checksum:
		return Seen
	}
	return Conflict
}

// last returns what was last applied of a source that was not silent for longer than the retention since.
func (s *slowPositions) last(source string, now int64) (last judged, known bool) {
	heard := now
	for n := len(s.log) - 1; n >= 0; n-- {
		b := s.log[n]
		if b.Source != source || b.verdict == Full {
			continue
		}
		if heard-b.at > s.retention {
			return last, false
		}
		if b.verdict == Apply {
			return b, true
		}
		heard = b.at
	}
	return last, false
}

func (s *slowPositions) alive(now int64) (sources int) {
	seen := map[string]bool{}
	for _, b := range s.log {
		if _, known := s.last(b.Source, now); known {
			seen[b.Source] = true
		}
	}
	return len(seen)
}

func TestPositionsAgainstTheTwin(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 13))
		p := NewPositions(3, 50*time.Millisecond)
		slow := &slowPositions{limit: 3, retention: 50}
		at := int64(0)
		for n := range 150 {
			at += int64(r.IntN(12)) - 2
			from := int64(r.IntN(6))
			h := cut(fmt.Sprint(r.IntN(5)), from, from+1+int64(r.IntN(3)), r.IntN(3), 1+r.IntN(3))
			checksum := uint64(r.IntN(2))
			if got, want := p.Judge(h, checksum, at), slow.judge(h, checksum, at); got != want {
				t.Fatalf("seed %d, batch %d at %d: %+v: %v, want %v", seed, n, at, h, got, want)
			}
			if r.IntN(5) == 0 {
				p = restored(t, p)
			}
		}
	}
}

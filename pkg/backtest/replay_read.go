package backtest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"weir/pkg/attempts"
	"weir/pkg/inline"
)

// A replayedID is the attempts of the memory that have one id in the records.
type replayedID struct {
	at  int64 // of the first
	ids []inline.ID

	passed []int32 // of the strategy: what it has let through of them
}

// A replayed is a record.
type replayed struct {
	from       int32
	order      uint64
	at         int64
	id         inline.ID
	settlement bool
	rule       int32 // of a settlement; -1 is all
	cost       int64 // likewise; inline.Kept if it has only ended
	first, n   int32 // of an attempt's takes
	without    bool  // the shared store failed, so that the attempt is not among its counts
}

type replayedTake struct {
	rule, key int32
	given     int32 // the verdict
	cost      int64
}

// texts are numbered from 0 on.
type texts struct {
	numbers map[string]int32
	all     []string
}

func (t *texts) number(text string) int32 {
	n, known := t.numbers[text]
	if !known {
		n = int32(len(t.all))
		t.numbers[text], t.all = n, append(t.all, text)
	}
	return n
}

func (r *replay) read(ctx context.Context, in Input, progress func(done, total int64)) error {
	var done atomic.Int64
	s, err := openSource(ctx, in, &done)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it was only read
	lines := bufio.NewScanner(s)
	lines.Buffer(nil, longestRecord)
	for n := 0; lines.Scan(); n++ {
		if n%10_000 == 0 && progress != nil {
			progress(done.Load(), 0)
		}
		if len(r.records) == maxReplayed {
			return fmt.Errorf("%s: %w; name fewer files", in.Path, errManyRecords)
		}
		r.add(bytes.TrimSpace(lines.Bytes()))
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", in.Path, err)
	}
	return nil
}

// add keeps a record.
func (r *replay) add(line []byte) {
	if len(line) == 0 {
		return
	}
	if attempts.Parse(line, &r.line) != nil {
		r.report.Unread++
		return
	}
	one := replayed{from: r.words.number(r.line.From), order: r.line.Order, at: int64(r.line.Time), rule: -1, cost: r.line.Cost, first: int32(len(r.takes)), without: r.line.Store != "" || r.refusedByQueue()}
	if one.order == 0 {
		one.from = r.words.number("") // counted in a store that all enforcers share
	}
	if id, err := inline.ParseID(r.line.Attempt); err == nil {
		one.id = id
	}
	if one.settlement = r.line.Kind == attempts.Settlement; one.settlement {
		if r.line.Ended {
			one.cost = inline.Kept
		}
		r.settled[one.id] = true
		if r.line.Rule != "" {
			one.rule = r.words.number(r.line.Rule)
		}
	}
	for i := range r.line.Takes {
		t := &r.line.Takes[i]
		at, known := r.rules[t.Rule]
		if !known {
			r.report.LeftOut[t.Rule]++
			continue
		}
		r.takes = append(r.takes, replayedTake{rule: int32(at), key: r.words.number(t.Key), given: r.words.number(t.Verdict), cost: t.Cost})
		one.n++
	}
	r.records = append(r.records, one)
	r.report.First, r.report.Last = min(r.report.First, Instant(one.at)), max(r.report.Last, Instant(one.at))
}

// refusedByQueue reports whether a queue has refused the attempt that was read: how full it was is not known here.
func (r *replay) refusedByQueue() bool {
	return slices.ContainsFunc(r.line.Takes, func(t attempts.Take) bool {
		return t.Verdict == attempts.Refused && strings.HasSuffix(t.Limit, " queued")
	})
}

// sort puts the records into the order in which they were decided, and drops those that were written twice.
func (r *replay) sort() {
	slices.SortStableFunc(r.records, func(a, b replayed) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.order, b.order), cmp.Compare(a.at, b.at))
	})
	r.records = slices.CompactFunc(r.records, func(a, b replayed) bool { return a.order != 0 && a.from == b.from && a.order == b.order })
	if len(r.records) == 0 {
		r.report.First = 0
	}
}

package enforcer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/sleep"
	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/pkg/attempts"
	"weir/pkg/hit"
	"weir/pkg/inline"
	"weir/pkg/request"
)

// A History is the topic of attempts at inline rules.
type History struct {
	Appender   topic.Appender
	Partitions int
}

const (
	historyLines = 16_384                // that wait to be given to the appender
	historyBytes = 8 << 20               // of them
	historyBatch = 512                   // lines given to it in one call
	historyPause = 10 * time.Millisecond // for which a line waits for others
	longestText  = 1024                  // of what a client has sent, in bytes
)

// A history writes attempts to their topic. Requests put lines into its queue and never wait: while it is full, attempts
// are lost and counted. A goroutine gives them to the appender.
type history struct {
	to      History
	from    string
	queue   chan *historyLine
	held    atomic.Int64 // bytes in the queue
	lost    atomic.Int64
	dropped prometheus.Counter
	faults  *telemetry.Faults
	lines   sync.Pool // of *historyLine

	sequences []uint64 // by partition; run owns them
	messages  []topic.Message
}

// A historyLine is one record.
type historyLine struct {
	record    attempts.Record
	key, text []byte
	partition int
}

// newHistory returns nil when attempts are not kept.
func newHistory(c *Config, faults *telemetry.Faults) *history {
	if c.History == nil {
		return nil
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	h := &history{to: *c.History, from: hex.EncodeToString(id[:]), queue: make(chan *historyLine, historyLines), faults: faults,
		sequences: make([]uint64, c.History.Partitions)}
	h.lines.New = func() any { return new(historyLine) }
	h.dropped = prometheus.NewCounter(prometheus.CounterOpts{Name: "unused"})
	if c.Metrics != nil {
		telemetry.Queue(c.Metrics, "attempts", historyBytes, func() float64 { return float64(h.held.Load() + h.to.Appender.Held()) })
		h.dropped = telemetry.Dropped(c.Metrics, "attempts")
	}
	return h
}

// An about is what an attempt was about, as far as the door knew it.
type about struct {
	ip                                     netip.Addr
	user, method, host, path, query, agent string
}

// add adds the fields of a request that are not known yet.
func (a *about) add(q *request.Request) {
	if !a.ip.IsValid() {
		a.ip = q.IP
	}
	for _, field := range [...]struct {
		to   *string
		text string
	}{{&a.user, q.User}, {&a.method, q.Method}, {&a.host, q.Host}, {&a.path, q.Path}, {&a.agent, q.Agent}} {
		if *field.to == "" {
			*field.to = field.text
		}
	}
	if a.query == "" && a.path == q.Path {
		a.query = q.Query
	}
}

// attempted notes an attempt that was decided, now if the store does not state when.
func (h *history) attempted(r *ruling, t *attempt, now int64) {
	l := h.lines.Get().(*historyLine)
	v := &t.verdict
	takes := l.record.Takes[:0]
	for j := range t.wants {
		w, taken := &t.wants[j], &v.Taken[j]
		one := attempts.Take{Rule: w.Rule.Name, Key: string(w.Key), Cost: w.Cost, Verdict: verdictOf(r, t, j), Limit: r.limits[t.rules[j]].policies[taken.Limit].limit, Remaining: taken.Remaining}
		if isKnown(taken.Again) {
			one.Again = attempts.Instant(taken.Again)
		}
		takes = append(takes, one)
	}

	a := &t.about
	at := cmp.Or(v.At, now)
	l.record = attempts.Record{Kind: attempts.Attempt, Time: attempts.Instant(at), Admitted: v.Admitted, Takes: takes, From: h.from, Order: v.Order,
		User: bounded(a.user), Method: bounded(a.method), Host: bounded(a.host), Path: shownPath(a.path, a.query), Agent: request.Sample(a.agent)}
	if v.Attempt != (inline.ID{}) {
		l.record.Attempt = v.Attempt.String()
	}
	if v.OnError != inline.Answered {
		l.record.Store = v.OnError.String()
	}
	if a.ip.IsValid() {
		l.record.IP = a.ip.String()
	}
	l.key = append(append(append(l.key[:0], takes[0].Rule...), ' '), takes[0].Key...)
	l.partition = hit.Partition(takes[0].Rule, t.wants[0].Key, h.to.Partitions)
	h.put(l)
}

// settled notes that an attempt was settled.
func (h *history) settled(id inline.ID, rule string, cost int64, when inline.Moment) {
	if h == nil {
		return
	}
	l := h.lines.Get().(*historyLine)
	l.record = attempts.Record{Kind: attempts.Settlement, Time: attempts.Instant(when.At), Attempt: id.String(), Rule: rule, Cost: cost, From: h.from, Order: when.Order}
	if cost == inline.Kept {
		l.record.Cost, l.record.Ended = 0, true
	}
	l.key = append(l.key[:0], l.record.Attempt...)
	l.partition = hit.Partition("", l.key, h.to.Partitions)
	h.put(l)
}

// verdictOf is the verdict of one rule.
func verdictOf(r *ruling, t *attempt, j int) string {
	admits, of := t.verdict.Taken[j].Admitted, t.wants[j].Rule
	switch {
	case t.verdict.OnError == inline.Allow || t.verdict.OnError == inline.Refuse:
		return attempts.Failed
	case t.wants[j].Known:
		return attempts.Known
	case admits && t.verdict.Admitted:
		return attempts.Admitted
	case admits:
		return attempts.Other
	case !of.Shadow:
		return attempts.Refused
	case r.Shadow || r.limits[t.rules[j]].enforced.Shadow:
		return attempts.Shadow
	}
	return attempts.Paused
}

func bounded(text string) string {
	if len(text) <= longestText {
		return text
	}
	return strings.ToValidUTF8(text[:longestText], "")
}

// shownPath is a path with its query, as samples of logs are shown.
func shownPath(path, query string) string {
	if query == "" {
		return request.Sample(path)
	}
	return request.Sample(path + "?" + withoutValues(query))
}

// withoutValues is the beginning of a query with *** for each value, whatever it contains.
func withoutValues(query string) string {
	const ends = "&;"
	var b strings.Builder
	for query != "" && b.Len() <= longestText {
		end := strings.IndexAny(query, ends)
		if end < 0 {
			end = len(query)
		}
		name, _, valued := strings.Cut(query[:end], "=")
		b.WriteString(bounded(name))
		if valued {
			b.WriteString("=***")
		}
		next := min(end+1, len(query))
		b.WriteString(query[end:next])
		query = query[next:]
	}
	return b.String()
}

// put gives a line to the queue, or loses it.
func (h *history) put(l *historyLine) {
	l.text = l.record.Append(l.text[:0])
	clear(l.record.Takes) // a line that waits for its next use keeps no text of a request
	l.record = attempts.Record{Takes: l.record.Takes[:0]}
	size := int64(len(l.text) + len(l.key))
	if h.held.Add(size) <= historyBytes {
		select {
		case h.queue <- l:
			return
		default:
		}
	}
	h.held.Add(-size)
	h.lose(1)
	h.lines.Put(l)
}

func (h *history) lose(n int64) {
	h.lost.Add(n)
	h.dropped.Add(float64(n))
}

const (
	historyRetry   = 50 * time.Millisecond
	historyReports = 10 * time.Second // of losses; the log has one a minute at most
)

// run gives lines to the appender until the context is done, and then those that are in the queue.
func (h *history) run(ctx context.Context) {
	if h == nil {
		return
	}
	reports := time.NewTicker(historyReports)
	defer reports.Stop()
	for {
		select {
		case l := <-h.queue:
			// Each write of a process without Kafka is synced to the disk.
			if len(h.queue) < historyBatch {
				sleep.For(ctx, historyPause)
			}
			h.write(ctx, h.gather(l))
		case <-reports.C:
		case <-ctx.Done():
			for len(h.queue) > 0 {
				h.write(ctx, h.gather(<-h.queue))
			}
			h.report()
			return
		}
		h.report()
	}
}

// gather makes messages of a line and those that wait behind it.
func (h *history) gather(first *historyLine) []topic.Message {
	h.messages = h.messages[:0]
	for next := first; ; next = <-h.queue {
		l := next // of this message alone: it is used again when that is done
		h.held.Add(-int64(len(l.text) + len(l.key)))
		h.sequences[l.partition]++
		l.text = attempts.AppendSequence(l.text, h.sequences[l.partition])
		h.messages = append(h.messages, topic.Message{Partition: l.partition, Key: l.key, Value: l.text, Done: func(_ int64, err error) {
			if err != nil {
				h.lose(1)
			}
			h.lines.Put(l)
		}})
		if len(h.messages) == historyBatch || len(h.queue) == 0 {
			return h.messages
		}
	}
}

// write gives messages to the appender, and waits while that is full. At the end it does not wait.
func (h *history) write(ctx context.Context, messages []topic.Message) {
	for {
		err := h.to.Appender.TrySend(messages...)
		switch {
		case err == nil:
			return
		case !errors.Is(err, topic.ErrFull), ctx.Err() != nil:
			h.lose(int64(len(messages)))
			return
		}
		h.report()
		sleep.For(ctx, historyRetry)
	}
}

// report logs losses.
func (h *history) report() {
	if n := h.lost.Swap(0); n > 0 {
		h.faults.Note("attempts", fmt.Errorf("%d attempts are missing in their topic: more came than could be written", n))
	}
}

package kinesis

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"weir/internal/amazon"
	"weir/internal/sleep"
	"weir/pkg/collector/ordered"
)

// A shard allows five calls a second for all who read it, and 2 MiB.
const (
	behindEvery = 250 * time.Millisecond // between calls while more waits
	busyEvery   = 300 * time.Millisecond // while records come
	idleEvery   = time.Second
	busyFor     = 10 * time.Second // after a record
	bytesSecond = 2 << 20

	firstLimit   = 10 // records
	mostLimit    = 10_000
	mostBytes    = 1 << 20
	leastBytes   = 64 << 10
	shardsBytes  = 64 << 20 // of one page of all shards
	pageLines    = 2000
	sampleOfLong = 1 << 10

	passingFor = 10 * time.Second // an error of the server's own is not shown for so long
	soonGone   = 10 * time.Minute // before the retention, each page shows whether records were deleted
	tipEvery   = time.Hour
	tipNumber  = 1
)

// A shard is a log.
type shard struct {
	stream *Stream
	id     string
	keys   keyRange
	memory *ordered.Memory

	identity  string // of the stream
	retention time.Duration
	at        ordered.Place // after the last page
	place     place         // that
	anchored  bool          // the next record is the one of the place, if the stream still has it
	iterator  string        // empty: it has to be asked for
	records   []types.Record
	users     [][]byte // what is left of the record of the place
	over      bool     // the shard is closed, and all was fetched
	gone      bool     // the server does not have the shard any more
	foreign   bool     // the server does not know the place

	limit  int32
	full   bool          // more waits
	behind time.Duration // the newest record is so much newer
	next   time.Time     // of the next call
	fresh  time.Time     // when the last record came
	failed time.Time     // since then, calls fail by errors of the server's own

	tip     time.Time // all records that came before are read
	tipKept time.Time // as the journal has it
	tipNext time.Time // as tip, once all that was fetched is read

	missed int64
	why    string
}

func (s *shard) String() string { return s.stream.options.Stream + "/" + s.id }

// Identity implements ordered.Identified.
func (s *shard) Identity() string { return s.identity }

// Close notes that the shard is read to its end, if it is.
func (s *shard) Close() {
	if s.over && len(s.records) == 0 && len(s.users) == 0 || s.gone {
		s.stream.end(s.id)
	}
}

// Extent looks at the shard.
func (s *shard) Extent(ctx context.Context, was *ordered.Known) (e ordered.Extent, err error) {
	now, err := s.stream.look(ctx)
	if err != nil {
		return e, err
	}
	e = ordered.Extent{Identity: now.identity, First: place{}.ordered(0), Last: placeAt(s.stream.began).ordered(0)}
	listed := now.shards[s.id]
	switch {
	case listed == nil && (was == nil || was.Identity != now.identity):
		return e, ordered.ErrEnded
	case listed == nil: // Read reports that
		s.gone = true
		return e, nil
	case was != nil && was.Identity != now.identity:
		e.Other = "the stream was deleted and made again"
	case was != nil && s.foreign:
		e.Other = "the server does not know the record that was read last"
	}
	if (was == nil || e.Other != "") && !s.stream.options.Once && !s.stream.isFirst(listed) {
		return e, ordered.ErrLater
	}
	e.Begin = e.First
	s.gone, s.foreign, s.at = false, false, ordered.Place{Position: -1}
	s.keys, s.identity, s.retention = listed.keys, now.identity, now.retention
	if s.stream.options.Once {
		_, err = s.iteratorAt(ctx, place{}) // whether the shard can be read
	}
	return e, err
}

// Since returns the place before the records that came at a time or later.
func (s *shard) Since(_ context.Context, at time.Time) (ordered.Place, error) {
	began := s.stream.began
	if at = at.Add(-s.stream.options.Now().Sub(began)); at.After(began) { // the server refuses times to come
		at = began
	}
	return placeAt(at).ordered(0), nil
}

// Remember implements ordered.Remembering.
func (s *shard) Remember(m *ordered.Memory) {
	s.memory, s.tip = m, time.Time{}
	if seconds, err := strconv.ParseInt(string(m.Values()[tipNumber]), 10, 64); err == nil {
		s.tip = time.Unix(seconds, 0)
	}
	s.tipKept = s.tip
}

// Read returns the records after a place.
func (s *shard) Read(ctx context.Context, after ordered.Place) (page ordered.Page, err error) {
	if after != s.at {
		if err := s.restore(after); err != nil {
			return page, err
		}
	}
	if s.gone {
		return s.leave()
	}
	if len(s.records) == 0 && len(s.users) == 0 {
		switch {
		case s.over && s.stream.options.Once, s.stream.options.Once && !s.tipNext.IsZero():
			return page, nil
		case s.over:
			return page, ordered.ErrEnded
		}
		if err := s.keepTip(ctx); err != nil {
			return page, err
		}
		if err := s.fetch(ctx); err != nil {
			s.at = ordered.Place{Position: -1}
			return page, err
		}
	}
	s.fill(&page)
	page.Waiting = int64(len(s.records) + len(s.users))
	if s.full {
		page.Waiting++ // at least
	}
	page.Missed, page.Why = s.missed, s.why
	s.missed, s.why = 0, ""
	return page, nil
}

// leave ends a shard that the server does not have any more.
func (s *shard) leave() (page ordered.Page, err error) {
	if s.over {
		return page, ordered.ErrEnded
	}
	s.over, s.records, s.users = true, nil, nil
	return ordered.Page{Missed: 1, Why: "the shard was deleted before it was read to its end"}, nil
}

// restore takes up reading at a place.
func (s *shard) restore(after ordered.Place) (err error) {
	if s.place, err = placeOf(after.ID); err != nil {
		return err
	}
	s.at, s.anchored = after, s.place.sequence != ""
	s.iterator, s.records, s.users, s.over, s.full = "", nil, nil, false, false
	s.tipNext = time.Time{}
	return nil
}

// keepTip notes that all that was fetched is read.
func (s *shard) keepTip(ctx context.Context) error {
	if s.tipNext.IsZero() {
		return nil
	}
	s.tip = s.tipNext
	if s.tip.Sub(s.tipKept) < tipEvery {
		return nil
	}
	s.tipKept = s.tip
	return s.memory.Keep(ctx, tipNumber, strconv.AppendInt(nil, s.tip.Unix(), 10))
}

// fetch asks for records.
func (s *shard) fetch(ctx context.Context) error {
	sleep.For(ctx, min(idleEvery, time.Until(s.next)))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.next = time.Now().Add(idleEvery)
	if s.stream.identity() != s.identity {
		return ordered.ErrOther
	}
	if s.place.sequence != "" && s.retention > 0 && s.behind > s.retention-soonGone {
		s.iterator, s.anchored = "", true
	}
	if s.iterator == "" {
		iterator, err := s.iteratorAt(ctx, s.place)
		if codeOf(err) == invalid && s.place.sequence != "" && s.identity != "" { // of this stream: take passes what was read
			iterator, err = s.iteratorAt(ctx, place{})
		}
		if err != nil {
			return s.judge(err, "kinesis:GetShardIterator")
		}
		s.iterator = iterator
	}

	client, err := s.stream.connected(ctx)
	if err != nil {
		return err
	}
	asked, began := s.limit, s.stream.options.Now()
	call, cancel := context.WithTimeout(ctx, amazon.Patience)
	defer cancel()
	answer, err := client.GetRecords(call, &kinesis.GetRecordsInput{ShardIterator: &s.iterator, Limit: &asked})
	if err != nil {
		return s.judge(err, "kinesis:GetRecords")
	}
	s.failed = time.Time{}
	s.iterator = aws.ToString(answer.NextShardIterator)
	if s.over = answer.NextShardIterator == nil; s.over {
		s.stream.stale() // it has children
	}
	s.behind = max(0, time.Duration(aws.ToInt64(answer.MillisBehindLatest))*time.Millisecond)
	s.full = !s.over && (len(answer.Records) >= int(asked) || s.behind > 0)
	s.tipNext = time.Time{}
	if !s.full {
		s.tipNext = began
	}
	s.pace(answer.Records)
	return s.take(answer.Records)
}

// iteratorAt returns an iterator at a place: for the record of the place, which shows whether the stream still has it.
func (s *shard) iteratorAt(ctx context.Context, at place) (string, error) {
	client, err := s.stream.connected(ctx)
	if err != nil {
		return "", err
	}
	input := &kinesis.GetShardIteratorInput{StreamName: &s.stream.options.Stream, ShardId: &s.id, ShardIteratorType: types.ShardIteratorTypeTrimHorizon}
	switch {
	case at.sequence != "":
		input.ShardIteratorType, input.StartingSequenceNumber = types.ShardIteratorTypeAtSequenceNumber, &at.sequence
	case at.ms > 0:
		input.ShardIteratorType, input.Timestamp = types.ShardIteratorTypeAtTimestamp, aws.Time(time.UnixMilli(at.ms))
	}
	ctx, cancel := context.WithTimeout(ctx, amazon.Patience)
	defer cancel()
	answer, err := client.GetShardIterator(ctx, input)
	if err != nil {
		return "", err
	}
	if aws.ToString(answer.ShardIterator) == "" {
		return "", errors.New("the server gives no iterator")
	}
	return *answer.ShardIterator, nil
}

// judge decides what an error means. nil means that the next call may succeed.
func (s *shard) judge(err error, right string) error {
	s.full = true
	switch code := codeOf(err); {
	case code == expired:
		s.iterator, s.anchored = "", s.place.sequence != ""
		return nil
	case code == notFound:
		s.stream.stale()
		return ordered.ErrOther
	case code == invalid && s.place.sequence != "" && s.identity == "":
		s.foreign = true
		return ordered.ErrOther
	case passes(err):
		now := s.stream.options.Now()
		if s.failed.IsZero() {
			s.failed = now
		}
		if now.Sub(s.failed) < passingFor {
			return nil
		}
		if code == "ProvisionedThroughputExceededException" {
			return errors.New("the shard gives no records: all who read it share 5 calls and 2 MiB a second (ProvisionedThroughputExceededException)")
		}
	}
	err = amazon.Explain(err, right+" on the stream "+s.stream.options.Stream)
	s.stream.refused(err)
	return err
}

// pace decides when the next call is, and for how many records, from the last ones.
func (s *shard) pace(records []types.Record) {
	now, size := time.Now(), 0
	for i := range records {
		size += len(records[i].Data)
	}
	if n := int64(len(records)); n > 0 {
		s.fresh = now
		s.limit = int32(min(max(1, s.stream.pageBytes()*n/int64(max(size, 1))), 2*int64(s.limit), mostLimit))
	}
	every := idleEvery
	switch {
	case s.full:
		every = min(idleEvery, max(behindEvery, time.Duration(size)*time.Second/bytesSecond))
	case now.Sub(s.fresh) < busyFor:
		every = busyEvery
	}
	s.next = now.Add(every)
}

// pageBytes is how many bytes to ask for at once.
func (s *Stream) pageBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(mostBytes, max(leastBytes, shardsBytes/int64(max(1, len(s.state.shards)))))
}

// take takes the records of an answer that come after the place.
func (s *shard) take(records []types.Record) error {
	for i := range records {
		r := &records[i]
		sequence := aws.ToString(r.SequenceNumber)
		if !isSequence(sequence) {
			return fmt.Errorf("%.*q is not the sequence number of a record", longestSequence, sequence)
		}
		switch order := compare(sequence, s.place.sequence); {
		case order < 0:
			continue
		case order == 0 && s.anchored && s.place.part > 0:
			s.users = split(r.Data, &s.keys)
			s.users = s.users[min(s.place.part, len(s.users)):]
		case order > 0:
			if s.anchored {
				s.lose(r)
			}
			s.records = append(s.records, *r)
		}
		s.anchored = false
	}
	return nil
}

// lose notes that the record of the place is gone, and perhaps others after it. r is the first that is there.
func (s *shard) lose(r *types.Record) {
	now := s.stream.options.Now()
	if s.place.part == 0 && (s.retention == 0 || !s.tip.IsZero() && now.Sub(s.tip) < s.retention) {
		return // all that came since then is still there
	}
	s.missed++
	s.why = fmt.Sprintf("records were deleted after the stream's retention of %s, before they were read; the first that it has came at %s, and how many were before is not known",
		s.retention, aws.ToTime(r.ApproximateArrivalTimestamp).UTC().Format(time.RFC3339))
}

// fill makes a page of what was fetched.
func (s *shard) fill(page *ordered.Page) {
	size := 0
	for len(page.Entries) < pageLines && size < 2*mostBytes {
		if len(s.users) == 0 {
			if len(s.records) == 0 {
				break
			}
			r := s.records[0]
			s.records[0], s.records = types.Record{}, s.records[1:]
			sequence := aws.ToString(r.SequenceNumber)
			if compare(sequence, s.place.sequence) <= 0 {
				continue // the server gave it twice
			}
			s.place = place{sequence: sequence}
			s.users = split(r.Data, &s.keys)
			continue
		}
		value := bytes.TrimRight(s.users[0], "\r\n")
		s.users[0], s.users = nil, s.users[1:]
		s.place.part++
		if len(s.users) == 0 {
			s.place.part = 0
		}
		s.at = s.place.ordered(s.at.Position + 1)
		entry := ordered.Entry{Value: value, After: s.at}
		if len(value) > ordered.LongestEntry {
			entry.Value, entry.Long = value[:sampleOfLong], true
		}
		size += len(value)
		page.Entries = append(page.Entries, entry)
	}
}

// compare compares sequence numbers.
func compare(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

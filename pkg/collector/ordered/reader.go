package ordered

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/internal/sleep"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/pkg/request"
)

const sampleEntries = 500 // from which the form is found out

// A reader reads a log from where the journal has it. One goroutine uses it; the fetcher has one of its own.
type reader struct {
	source *source
	of     *followed
	log    Log
	key    logKey

	name    string // in the journal and in the batches
	note    note   // in the journal with each cut
	from    Place  // to begin at
	reached int64  // the request time there
	stream  *pipeline.Stream
	fed     bool // a page was read
	soon    *time.Timer

	entries []Entry // those that are being read
	at      int     // index of the one that is being read
	before  Place   // of the last one before them
}

// run reads until the context is done, or the log has to be looked at again.
func (r *reader) run(ctx context.Context) error {
	if err := r.resume(ctx); err != nil {
		return err
	}
	if log, ok := r.log.(Remembering); ok {
		log.Remember(&Memory{r.source.kept, r.key, r.name})
	}

	member := r.of.memberNow()
	member.Wait(false)
	member.Idle(false)
	r.before, r.soon = r.from, time.NewTimer(soon)
	defer r.soon.Stop()
	r.stream = r.source.in.NewStream(pipeline.StreamConfig{
		Log: r.of.name, Source: r.name, Position: r.from.Position, Reached: r.reached,
		Journal: r.source.kept.cuts, Send: r.source.kept.cuts.Send, Keep: r.keep,
		Member: member, NotBefore: pace.NoTime, LateNotes: true,
	})
	defer r.stream.Close()
	r.stream.SetBehind(true)
	err := pipeline.Contained(func() error { return r.readAll(ctx) })
	if pipeline.IsPanic(err) {
		r.stream.Abandon() // the journal has its noted cuts
		return err
	}

	patient, done := pipeline.Draining(ctx)
	defer done()
	if _, left := r.stream.Leave(patient); left != nil {
		r.source.in.Logger().Info("left in the journal", "log", r.of.name, "why", left)
		if errors.Is(err, ErrEnded) { // it has ended once the rest is sent
			return ErrOther
		}
	}
	return err
}

// resume determines where to continue.
func (r *reader) resume(ctx context.Context) error {
	r.name = r.source.kept.find(r.key)
	if r.name == "" {
		extent, err := r.log.Extent(ctx, nil)
		if err != nil {
			return err
		}
		extent.Other, extent.Begin = "nothing is stored about it", extent.First
		if !r.of.missing {
			if extent.Begin, err = r.start(ctx, extent); err != nil {
				return err
			}
		}
		return r.begin(ctx, extent, false)
	}

	was, err := r.source.kept.cuts.Standing(ctx, r.name)
	if err != nil {
		return err
	}
	ok := false
	if was != nil {
		r.note, ok = readNote(was.Note)
	}
	if !ok {
		return fmt.Errorf("the journal has no position of %s", r.name) // it had one when it was opened
	}
	r.from, r.reached = Place{was.Position, r.note.ID}, was.Reached

	extent, err := r.log.Extent(ctx, &Known{r.note.Identity, r.from})
	if err != nil {
		return err
	}
	r.source.kept.forget(ctx, r.key)
	if extent.Other == "" {
		return nil
	}
	return r.begin(ctx, extent, extent.Identity == r.note.Identity)
}

// start returns where a log begins about which nothing is stored.
func (r *reader) start(ctx context.Context, extent Extent) (Place, error) {
	switch start := r.source.config.Start; {
	case start.Latest:
		return extent.Last, nil
	case start.Before > 0:
		return r.log.Since(ctx, r.source.in.Now().Add(-start.Before))
	}
	return extent.First, nil
}

// begin begins a new log, which the journal has before any entry is read.
func (r *reader) begin(ctx context.Context, extent Extent, again bool) error {
	in, stored := r.source.in, r.name != ""
	r.name, r.from, r.reached = nameOf(r.key, extent.Identity, again), extent.Begin, pace.NoTime
	r.note = note{Source: r.key.source, Log: r.key.log, Identity: extent.Identity, ID: r.from.ID, Begun: in.Now().UnixMilli()}
	if err := r.source.kept.begin(ctx, r.name, r.from.Position, r.note); err != nil {
		return err
	}

	say := in.Logger().Info
	if stored {
		say = in.Logger().Error
	}
	say("a log begins as a new source", "log", r.of.name, "why", extent.Other, "from", r.from.Position, "id", r.name)
	r.of.begun(in)
	return nil
}

// A fetched is a page, or why there is none.
type fetched struct {
	page Page
	err  error
}

// A handover is where the fetcher puts one page at a time. Then it announces the page, and asks for the next one when
// that was taken. An announcement may come after its page was taken.
type handover struct {
	pages       chan fetched
	more, taken chan struct{}
}

// readAll reads pages, and asks for the next one meanwhile.
func (r *reader) readAll(ctx context.Context) error {
	fetching, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	pages := handover{pages: make(chan fetched, 1), more: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
	running.Go(func() { r.fetch(fetching, &pages) })

	for {
		if err := r.stream.Wait(ctx, pages.more); err != nil {
			return err
		}
		select {
		case got := <-pages.pages:
			if err := r.feedFetched(ctx, &got, &pages); err != nil {
				return err
			}
			if err := r.feedSoon(ctx, &got.page, &pages); err != nil {
				return err
			}
		default: // feedSoon took it
		}
	}
}

// feedFetched feeds a page, and lets the next one be asked for meanwhile.
func (r *reader) feedFetched(ctx context.Context, got *fetched, pages *handover) error {
	pages.taken <- struct{}{}
	if got.err != nil {
		return got.err
	}
	return r.feed(ctx, &got.page)
}

// soon is how long a page may take that goes into the same cut.
const soon = 2 * time.Millisecond

// feedSoon feeds the page after a live one, if that comes soon: it has the entries that came while the first one waited
// for others.
func (r *reader) feedSoon(ctx context.Context, before *Page, pages *handover) error {
	if len(before.Entries) == 0 || before.Waiting > 0 || r.source.in.Batch() == 0 {
		return nil
	}
	r.soon.Reset(soon)
	defer r.soon.Stop()
	select {
	case got := <-pages.pages:
		return r.feedFetched(ctx, &got, pages)
	case <-r.soon.C:
	case <-ctx.Done():
	}
	return nil
}

// fetch asks for pages until the context is done or an error.
func (r *reader) fetch(ctx context.Context, to *handover) {
	after := r.from
	for {
		var got fetched
		got.err = pipeline.Contained(func() (err error) {
			got.page, err = r.log.Read(ctx, after)
			return err
		})
		after = got.page.End(after)
		to.pages <- got // the one before was taken
		sleep.Wake(to.more)
		if got.err != nil {
			return
		}
		select {
		case <-to.taken:
		case <-ctx.Done():
			return
		}
	}
}

// End is the place after a page that was read after a place.
func (p *Page) End(after Place) Place {
	if p.Start > after.Position {
		after.Position = p.Start
	}
	if n := len(p.Entries); n > 0 {
		after = p.Entries[n-1].After
	}
	return after
}

// feed gives the entries of a page to the stream.
func (r *reader) feed(ctx context.Context, page *Page) error {
	if !r.fed {
		r.source.in.MendedOf(r.of.name, "read")
		r.fed = true
	}
	r.stream.SetBehind(page.Waiting > 0 || len(page.Entries) > 0)
	r.of.waits(page.Waiting+int64(len(page.Entries)), r.source.in.Now())
	if page.Missed > 0 {
		r.source.in.Uncounted(pipeline.ReasonLost, page.Missed)
		r.source.in.Logger().Error("not read: requests are not counted", "log", r.of.name, "why", page.Why)
	}
	if page.Remarks != "" {
		r.source.in.Logger().Warn("reading went on", "log", r.of.name, "because", page.Remarks)
	}
	if page.Trouble != nil {
		r.source.in.TroubleOf(r.of.name, "open", page.Trouble)
	} else {
		r.source.in.MendedOf(r.of.name, "open")
	}
	if err := r.skip(ctx, page); err != nil {
		return err
	}

	r.entries, r.at = page.Entries, 0
	r.learn()
	if err := r.addAll(ctx, page); err != nil {
		return err
	}

	r.before, r.entries = page.End(r.before), nil
	r.stream.SetBehind(page.Waiting > 0)
	r.stream.Show() // what is not sent, before that nothing waits
	r.of.waits(page.Waiting, r.source.in.Now())
	return nil
}

// addAll gives the entries to the stream, and has them acknowledged when Kafka has them. Hits that Kafka refuses are counted,
// and it would refuse them again.
func (r *reader) addAll(ctx context.Context, page *Page) error {
	add := func() error {
		for i := range page.Entries {
			r.at = i
			if err := r.add(ctx, &page.Entries[i]); err != nil {
				return err
			}
		}
		return nil
	}
	log, ok := r.log.(Acknowledged)
	if !ok || len(page.Entries) == 0 {
		return add()
	}

	r.source.in.Redelivered(page.Again)
	last := page.Entries[len(page.Entries)-1].After.Position
	return r.stream.Together(ctx, add, func(pipeline.Outcome, error) { log.Acknowledge(last) })
}

func (r *reader) add(ctx context.Context, e *Entry) error {
	if e.Long {
		return r.stream.Lost(ctx, e.Value, pipeline.ReasonLong, e.After.Position)
	}
	return r.stream.Add(ctx, e.Value, e.After.Position)
}

// skip goes on to where the entries of a page begin. It counts those before them that were deleted.
func (r *reader) skip(ctx context.Context, page *Page) error {
	from := r.stream.Position()
	if page.Start <= from {
		return nil
	}
	if page.Lost > 0 {
		r.source.in.Uncounted(pipeline.ReasonLost, page.Lost)
		r.source.in.Logger().Error("entries were deleted before they were read: their requests are not counted", "log", r.of.name,
			"entries", page.Lost, "from", from, "to", page.Start)
	}
	return r.stream.Skip(ctx, page.Start)
}

// learn finds out the form where it is not configured.
func (r *reader) learn() {
	if !r.stream.Learns() || len(r.entries) == 0 {
		return
	}
	var sample []string
	for _, e := range r.entries[:min(len(r.entries), sampleEntries)] {
		if !e.Long {
			sample = append(sample, request.Text(e.Value))
		}
	}
	if choice := r.stream.Learn(sample, r.note.choice()); !r.stream.Learns() && choice != nil {
		r.note.Envelope, r.note.Format = choice.Envelope, choice.Format
	}
}

// keep returns the note for a position.
func (r *reader) keep(position int64) []byte {
	r.note.ID = r.idAt(position)
	return r.note.bytes()
}

// idAt is the ID of the last entry up to a position, which is that of the entry that is being read or of the one before.
func (r *reader) idAt(position int64) string {
	for i := min(r.at, len(r.entries)-1); i >= 0; i-- {
		if r.entries[i].After.Position <= position {
			return r.entries[i].After.ID
		}
	}
	return r.before.ID
}

package blocklist

import (
	"errors"
	"fmt"
	"io"
)

// Reasons why a list is not written or not read.
var (
	ErrNoList    = errors.New("there is no complete list yet")
	ErrNotYet    = errors.New("that version has not been reached here yet")
	ErrOtherList = errors.New("it is another list")
	ErrWentBack  = errors.New("it is older than the current list")
)

// A captured Set is all of it at one instant, or its changes since a version.
type captured struct {
	header  Header
	list    frozen   // of a snapshot
	changes []Change // of a delta
	newest  []Change // of a snapshot: the newest record of the log, if it is known
	local   []*Order
}

// maxDelta is how many records a delta has at most.
const maxDelta = 16 << 10

// capture takes the changes after a version, at most so many, or everything when the Set does not know these.
func (s *Set) capture(after Version, most int) (captured, error) {
	most = min(max(most, 1), maxDelta)
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.State()
	switch {
	case !state.Whole:
		return captured{}, ErrNoList
	case s.NotYet(after):
		return captured{}, fmt.Errorf("%w: it is %v", ErrNotYet, state.Version)
	}

	c := captured{header: Header{Version: state.Version, After: after.Offset, AsOf: state.AsOf}, local: s.pending.orders()}
	// A delta is possible while the ring still has the records after that version.
	if after.List == state.Version.List {
		if changes, ok := s.ring.after(after.Offset, most); ok {
			fitting := fitting(changes, most*usualBytes)
			// There may be more: the follower asks for them with the version that it has then.
			if len(changes) == most || len(fitting) < len(changes) {
				c.header.Version.Offset = fitting[len(fitting)-1].Offset
			}
			changes = fitting
			c.changes = changes
			return c, nil
		}
	}

	if newest, ok := s.ring.at(state.Version.Offset); ok && newest.Offset > 0 {
		c.newest = []Change{newest}
	}
	c.header.Snapshot, c.header.After = true, -1
	c.list = s.list.Load().freeze()
	return c, nil
}

// LeadsTo returns the version that WriteSome leads to, or an earlier one when the Set changes meanwhile.
func (s *Set) LeadsTo(after Version, most int) Version {
	c, err := s.capture(after, most)
	if err != nil {
		return s.Version()
	}
	return c.header.Version
}

// usualBytes is the length that records have at most on average: of longer ones a delta has fewer.
const usualBytes = 128

// fitting returns the first changes that have so many bytes together, and at least one.
func fitting(changes []Change, most int) []Change {
	for i, c := range changes {
		if most -= len(c.Key) + len(c.Value); most < 0 {
			return changes[:max(i, 1)]
		}
	}
	return changes
}

// WriteAfter writes in the binary form the changes after a version. When the Set does not know these, it writes a
// snapshot; for the zero Version it always does. The errors are ErrNoList and ErrNotYet, before anything is written,
// and those of the writing.
func (s *Set) WriteAfter(to io.Writer, after Version, nowMilli int64) error {
	return s.WriteSome(to, after, nowMilli, maxDelta)
}

// WriteSome is WriteAfter with at most so many changes, and fewer long ones.
func (s *Set) WriteSome(to io.Writer, after Version, nowMilli int64, most int) error {
	c, err := s.capture(after, most)
	if err != nil {
		return err
	}
	return c.write(to, nowMilli)
}

func (c *captured) write(to io.Writer, now int64) error {
	w := NewWriter(to, c.header)
	for _, change := range c.changes {
		w.Record(change)
	}

	if c.header.Snapshot {
		c.list.inForce(now, func(h Held) bool { return w.held(h.rule, h.record) == nil })
		for _, change := range c.newest {
			w.Record(change)
		}
	}

	// Behind the records: an order that waits overrides records of its target.
	for _, o := range c.local {
		if err := w.Order(o); err != nil {
			return fmt.Errorf("writing the list: %w", err)
		}
	}

	return w.Close()
}

// WriteSnapshot writes the list in the binary form, to be kept: orders that wait for the log are not written as such.
// It returns the header.
func (s *Set) WriteSnapshot(to io.Writer, nowMilli int64) (Header, error) {
	c, err := s.capture(Version{}, maxDelta)
	if err != nil {
		return Header{}, err
	}
	c.local = nil
	return c.header, c.write(to, nowMilli)
}

// WriteChanges is WriteAfter without snapshots: when the Set does not know the changes after the version, it writes
// nothing and returns false.
func (s *Set) WriteChanges(to io.Writer, after Version, nowMilli int64) (Header, bool, error) {
	c, err := s.capture(after, maxDelta)
	if err != nil || c.header.Snapshot {
		return Header{}, false, err
	}
	return c.header, true, c.write(to, nowMilli)
}

// Read reads the output of WriteAfter or WriteSnapshot when it is complete. A snapshot replaces the list; a delta is
// applied to it. After an error the Set is unchanged. ErrOtherList and ErrWentBack report a list that was readable but
// cannot follow the current one: of another name or an earlier epoch; of an earlier offset. ErrFull and ErrLarge
// report one that has more than the Set's limits.
func (s *Set) Read(from io.Reader, nowMilli int64) (Header, error) {
	r, err := NewReader(from)
	if err != nil {
		return Header{}, err
	}
	r.most = s.limits.largest()
	return s.read(r, nowMilli)
}

// ReadAll is Read for a source that ends with the list: more bytes behind it are an error.
func (s *Set) ReadAll(from io.Reader, nowMilli int64) (Header, error) {
	r, err := NewReader(from)
	if err != nil {
		return Header{}, err
	}
	r.alone = true
	return s.read(r, nowMilli)
}

func (s *Set) read(r *Reader, nowMilli int64) (Header, error) {
	if err := s.follows(r.Header); err != nil {
		return r.Header, err
	}
	if r.Header.Snapshot {
		return r.Header, s.readSnapshot(r, nowMilli)
	}
	return r.Header, s.readDelta(r, nowMilli)
}

// ReadKept is Read for a list that was kept for the next start. Orders that waited for the log are active but no longer
// wait for it, as in a list of WriteSnapshot. The caller that sends them to the log keeps them elsewhere.
func (s *Set) ReadKept(from io.Reader, nowMilli int64) (Header, error) {
	r, err := NewReader(from)
	if err != nil {
		return Header{}, err
	}
	if err := s.follows(r.Header); err != nil || r.Header.Snapshot {
		return r.Header, err
	}

	return r.Header, s.readChanges(r, func(local []*Order) {
		for _, o := range local {
			if value, err := o.Append(nil); err == nil {
				_ = s.list.Load().apply(Change{Key: o.RecordKey(), Value: value}, nowMilli) // it was active
			}
		}
		s.edits.Add(uint64(len(local)))
	}, nowMilli)
}

// follows returns an error for a list that cannot follow the current one.
func (s *Set) follows(h Header) error {
	held := s.Version()
	switch {
	case held == (Version{}):
	case h.Version.List.Name != held.List.Name:
		return fmt.Errorf("%w: %v, but the current one is %v", ErrOtherList, h.Version.List, held.List)
	case h.Version.List.Epoch < held.List.Epoch:
		return fmt.Errorf("%w: %v, but the current one is %v", ErrOtherList, h.Version.List, held.List)
	case h.Version.List == held.List && h.Version.Offset < held.Offset:
		return fmt.Errorf("%w: %v, but the current one is %v", ErrWentBack, h.Version, held)
	}

	// A delta fits exactly one version. A gap would lose records without a trace.
	if !h.Snapshot && (!s.Whole() || h.Version.List != held.List || h.After != held.Offset) {
		return fmt.Errorf("%w: changes after %d, but the current list is %v", ErrOtherList, h.After, held)
	}
	return nil
}

func (s *Set) readSnapshot(r *Reader, now int64) error {
	f := s.Fill()
	f.content.limits.Entries, f.content.limits.Bytes = s.limits.Entries+maxLocal, 2*s.limits.Bytes // see content.full
	local, err := r.each(func(change Change) error {
		// The records of a snapshot have no offset, except the one that names the end of the log.
		if change.Offset > 0 && change.Offset == r.Header.Version.Offset {
			f.newest.set(change)
			return nil
		}
		err := f.Apply(now, change)
		// A list that was kept had room, so the rest of it counts more than what does not fit any more.
		if errors.Is(err, ErrDamaged) || errors.Is(err, ErrFull) && r.most != (size{}) {
			return err
		}
		return nil // records of a later version of weir are left out
	})
	if err == nil {
		f.content.limits = s.limits
		f.swap(State{Version: r.Header.Version, Whole: true, AsOf: r.Header.AsOf}, local, now)
	}
	return err
}

// each calls record for all records, and returns the orders that wait for the log when the list was complete.
func (r *Reader) each(record func(Change) error) (local []*Order, err error) {
	// Nothing is believed before the end: until then the records only go where they change no active list.
	for {
		change, isLocal, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return local, nil
		case err != nil:
			return nil, err
		case isLocal:
			local, err = appendOrder(local, change)
		default:
			err = record(change)
		}

		if err != nil {
			return nil, err
		}
	}
}

// maxLocal bounds the orders that wait for the log.
const maxLocal = 64 << 10

func appendOrder(orders []*Order, c Change) ([]*Order, error) {
	o, err := decodeOrder(c.Key, c.Value)
	if errors.Is(err, ErrNewer) {
		return orders, nil
	}
	if err != nil {
		return orders, err
	}
	if len(orders) == maxLocal {
		return orders, fmt.Errorf("%w: more than %d orders wait for the log", ErrDamaged, maxLocal)
	}
	return append(orders, o), nil
}

func (s *Set) readDelta(r *Reader, now int64) error {
	return s.readChanges(r, func(local []*Order) { s.orderAbove(local, now) }, now)
}

// readChanges applies a delta, and calls order with its orders that wait for the log.
func (s *Set) readChanges(r *Reader, order func(local []*Order), now int64) error {
	var changes []Change
	local, err := r.each(func(change Change) error {
		if len(changes) == maxDelta {
			return fmt.Errorf("%w: more than %d records in a delta", ErrDamaged, maxDelta)
		}
		changes = append(changes, change.clone())
		return nil
	})
	if err != nil {
		return err
	}

	s.applyDelta(r.Header, changes, func() { order(local) }, now)
	return nil
}

func (c Change) clone() Change {
	own := Change{Offset: c.Offset, Key: append([]byte{}, c.Key...)}
	if c.Value != nil {
		own.Value = append([]byte{}, c.Value...)
	}
	return own
}

// set copies a record, into the memory of the one before.
func (c *Change) set(from Change) {
	c.Offset, c.Key = from.Offset, append(c.Key[:0], from.Key...)
	if from.Value == nil {
		c.Value = nil
	} else {
		c.Value = append(c.Value[:0], from.Value...)
	}
}

// applyDelta applies a complete delta. Records of later versions of weir, and those that do not fit, are left out.
func (s *Set) applyDelta(h Header, changes []Change, order func(), now int64) {
	_ = s.Apply(now, changes...) // as in the log: each of its readers leaves the same ones out
	s.mu.Lock()
	defer s.mu.Unlock()
	order()
	state := s.State()
	state.Version, state.AsOf = h.Version, max(state.AsOf, h.AsOf)
	s.state.Store(&state)
	s.notify()
}

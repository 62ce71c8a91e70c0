// Package objects reads the objects under a prefix of S3 as one log of package ordered. It finds them by listing the
// prefix, or by the events that S3 writes into a queue of SQS.
//
// # Positions
//
// The position of a line is the number of unpacked bytes read before and with it, over all objects. The place is the
// object that is being read: its key, its ETag and where it begins. It has a hash of the lines before a page too.
//
// Which objects were read is in the journal next to the place: for each one hashes of its key and its ETag, when it was
// written, where its last line ends, and the hash of its lines (48 bytes). An object belongs to those that were read if
// the place is not before that end. So an object that is listed twice is read once, whenever the process ends.
//
// # The delay
//
// An object appears at most the delay after the time that S3 gives it. Objects that are older than the delay, and all
// of whose hits Kafka has, are forgotten, unless an older object waits to be read. One time divides the objects that are
// forgotten from the others: an object that the listing has before it is not read. So the journal has the objects of one
// delay, however many the prefix has, and at most 1,048,576.
//
// An object that appears before that time is late. Late objects show by the number of objects of each day, which the
// journal has: they are counted, and never read. If another object of the same day is deleted between the same two
// listings, a late one is not noticed.
//
// # Events
//
// With a queue, no frontier divides objects, and each has to be written after the queue was given to the bucket. A
// message is deleted once all its objects are read, and Kafka has all of their hits. A message that comes again until
// then, or for one delay after its object was read, counts nothing. So objects are remembered by when they were read. They
// are forgotten only while messages can be received, and never within the first delay after a start.
//
// # Objects that are written again
//
// Under the same key, an object with another ETag is read from its beginning, unless it begins with all lines that were
// read of the one before. Then only what follows is read.
//
// # Objects that are being written
//
// A Growing store also has objects that are being written. They are looked at every second, and read up to the end of
// their last complete line. Their bytes never change, so the number of bytes alone says what was read, and reading begins
// there. Their entry has the hash of "open" in place of that of an ETag, and stays until they are closed; a record of its
// own has what was read before too, until Kafka has the hits of what follows. If a closed object is shorter than what was
// read of it, its end was cut off: that is reported, and what follows is read.
//
// Bounds. A listing keeps the 100,000 first objects that are not read, in the order in which they are read; the others
// are found by the next one. Of an object, two pages of about 1 MiB are in memory, and a line of 16 MiB at most.
package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"weir/internal/bucket"
	"weir/pkg/collector/ordered"
)

const (
	waitFor     = 500 * time.Millisecond
	listEvery   = 10 * time.Second
	whyMost     = 1 << 10 // bytes of causes in the log
	sampleBytes = 1 << 10 // of a line that is too long
)

// Options name objects.
type Options struct {
	URL   string // s3://bucket/prefix, or the name of the Store
	Delay time.Duration
	Store Store // nil: the bucket
	Where bucket.Options
	Queue string // the URL of the queue with events; empty lists the prefix
	Open  bool   // also objects that are being written; the Store is Growing

	ListEvery time.Duration // 0 is 10 s
	Now       func() time.Time
}

// A Store has objects.
type Store interface {
	// Look makes sure that there is the store, and that it can be listed.
	Look(ctx context.Context, prefix string) error

	// List calls each for every object whose key begins with a prefix.
	List(ctx context.Context, prefix string, each func(bucket.Object) error) error

	// Open opens an object.
	Open(ctx context.Context, o *bucket.Object) (*bucket.Body, error)
}

// Open makes the log of a prefix. It does not connect yet.
func Open(o Options) (ordered.Log, error) {
	l := &log{}
	name := ""
	if o.Store == nil {
		var err error
		if name, l.prefix, err = bucket.Parse(o.URL); err != nil {
			return nil, err
		}
		o.Store = bucket.New(name, o.Where)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ListEvery == 0 {
		o.ListEvery = listEvery
	}
	l.options, l.store = o, o.Store
	l.finder = &listing{log: l}
	if o.Queue != "" {
		l.finder = newEvents(l, name)
	}
	return l, nil
}

// A log is the objects of a prefix.
type log struct {
	options Options
	prefix  string
	store   Store
	finder  finder

	memory   *ordered.Memory
	restored bool // all below is as the journal has it
	known    known
	position int64    // of the last page
	found    *object  // the next one, if it is known
	reading  *reading // nil: the next object has to be opened
	missed   misses   // objects that are not read
	noted    misses   // those that the journal has as such already
	remarks  string
	unready  error // of an object that is being written, in this round
	trouble  error // of the round before
	failed   error // why an object could not be found or opened; the next listing tries again
}

// A finder finds the objects that have to be read.
type finder interface {
	look(ctx context.Context) error            // makes sure that it can
	reset()                                    // forgets what it found
	find(ctx context.Context) (*object, error) // the next one; the one before is read, or missed. nil when there is none now
	waiting() int64                            // how many are known that find has not returned
	more() bool                                // find returns one at once
}

// An object is an object to read.
type object struct {
	bucket.Object
	when time.Time // of its requests, as far as its name shows it; else when it was written
	was  *entry    // what was read under its key before; nil for nothing

	message *message // with a queue
}

// A place is the ID of an ordered.Place.
type place struct {
	Since int64  `json:"since,omitempty"` // objects of this Unix second or before are not read
	Key   string `json:"key,omitempty"`   // of the object that is being read
	ID    string `json:"id,omitempty"`    // its own, if it has one
	ETag  string `json:"etag,omitempty"`
	Begin int64  `json:"begin,omitempty"` // the position of its first byte
	Page  int64  `json:"page,omitempty"`  // bytes of it before the page
	Chain uint64 `json:"chain,omitempty"` // the hash of the lines in them
	Bytes bool   `json:"bytes,omitempty"` // the number of bytes alone says what was read
}

// first is the place at the position 0.
func (p place) first() ordered.Place {
	text, _ := json.Marshal(p) // it is made of numbers and texts
	return ordered.Place{ID: string(text)}
}

// object is the one that is being read.
func (p *place) object() *bucket.Object { return &bucket.Object{Key: p.Key, ID: p.ID} }

func placeOf(o ordered.Place) (p place, err error) {
	if err := json.Unmarshal([]byte(o.ID), &p); err != nil || p.Begin > o.Position || p.Begin+p.Page > o.Position || p.Page < 0 {
		return p, fmt.Errorf("%q is not a place in objects", o.ID)
	}
	return p, nil
}

func (l *log) String() string { return l.options.URL }

// Close ends a transfer.
func (l *log) Close() { l.leave() }

func (l *log) leave() {
	if l.reading != nil {
		l.reading.close()
		l.reading = nil
	}
}

// Extent makes sure that there is the bucket. A bucket that was made again is the same log: its objects are others.
func (l *log) Extent(ctx context.Context, _ *ordered.Known) (e ordered.Extent, err error) {
	l.restored = false
	if err := l.finder.look(ctx); err != nil {
		return e, missing(err)
	}
	return ordered.Extent{First: place{}.first(), Last: place{Since: l.options.Now().Unix() - 1}.first()}, nil
}

func missing(err error) error {
	if errors.Is(err, bucket.ErrMissing) {
		return ordered.ErrMissing
	}
	return err
}

// Since returns the place before the objects that were written at a time or later.
func (l *log) Since(_ context.Context, at time.Time) (ordered.Place, error) {
	return place{Since: at.Unix() - 1}.first(), nil
}

// Remember implements ordered.Remembering.
func (l *log) Remember(m *ordered.Memory) { l.memory, l.restored = m, false }

// restore takes up reading at a place.
func (l *log) restore(ctx context.Context, after ordered.Place) error {
	at, err := placeOf(after)
	if err != nil {
		return err
	}
	l.leave()
	l.found, l.position, l.missed = nil, after.Position, misses{}
	if err := l.known.load(ctx, l.memory, after.Position, at.Since); err != nil {
		return err
	}
	l.finder.reset()
	of := at.object()
	was := l.known.find(of.Identity(), at.ETag)
	switch unfinished := at.Key != "" && (was == nil || was.end < after.Position); {
	case unfinished && at.Bytes:
		err = l.known.add(&entry{key: hashOf(of.Identity()), etag: openMark, modified: l.options.Now().Unix(), end: after.Position, bytes: after.Position - at.Begin})
	case unfinished:
		err = l.resume(ctx, at)
	}
	if err != nil {
		return err
	}
	l.restored = true
	return nil
}

// Read returns lines of the object that is being read.
func (l *log) Read(ctx context.Context, after ordered.Place) (ordered.Page, error) {
	page, err := l.read(ctx, after)
	if err != nil {
		l.restored = false
	}
	return page, missing(err)
}

func (l *log) read(ctx context.Context, after ordered.Place) (page ordered.Page, err error) {
	if !l.restored || l.position != after.Position {
		if err := l.restore(ctx, after); err != nil {
			return page, err
		}
	}
	for end := time.Now().Add(2 * waitFor); time.Now().Before(end) && !l.full(&page, after); {
		more, err := l.readSome(ctx, &page)
		if err != nil && len(page.Entries) == 0 {
			return page, err
		}
		if err != nil || !more { // lines before an object that cannot be read count; the next page has the error
			break
		}
	}
	// The journal has the objects that ended before any place after them can be there.
	if err := l.known.write(ctx); err != nil {
		return page, err
	}
	return l.add(page), nil
}

// readSome opens the next object, or reads some lines of it. more is false when there is nothing to read now.
func (l *log) readSome(ctx context.Context, page *ordered.Page) (more bool, err error) {
	if l.reading == nil {
		return l.next(ctx, len(page.Entries) == 0)
	}
	entries, ended, err := l.reading.page()
	if err != nil {
		return false, fmt.Errorf("%s: %w", l.reading.Key, err)
	}
	page.Entries = append(page.Entries, entries...)
	l.position = l.reading.begin + l.reading.at
	if ended {
		if err = l.finish(); err != nil { // the journal cannot have the object, so its lines must not count
			page.Entries = nil
		}
	}
	return true, err
}

// next opens the next object, if there is one. It waits for one only if it may.
func (l *log) next(ctx context.Context, mayWait bool) (ok bool, err error) {
	switch {
	case l.found != nil: // it is tried again
		l.failed = nil
	case !mayWait && !l.finder.more():
		return false, nil
	default:
		l.found, err = l.finder.find(ctx)
	}
	if err == nil && l.found != nil {
		err = l.open(ctx, l.found)
	}
	if err != nil {
		l.failed = err
		return false, err
	}
	ok, l.found = l.found != nil, nil
	return ok, nil
}

// full reports whether a page has enough: small objects share one, so that the journal is written once for them.
func (l *log) full(page *ordered.Page, after ordered.Place) bool {
	return l.position-after.Position >= pageBytes || len(page.Entries) >= pageLines || l.known.unwritten() >= recordMost && len(page.Entries) > 0
}

// add adds to a page what is known besides its lines.
func (l *log) add(page ordered.Page) ordered.Page {
	l.missed.add(l.noted.number, l.noted.why)
	page.Missed, page.Why, page.Remarks, page.Trouble = l.missed.number, l.missed.why, l.remarks, l.trouble
	l.missed, l.noted, l.remarks = misses{}, misses{}, ""
	page.Waiting = l.finder.waiting()
	later := l.failed != nil && l.options.Queue == "" // the next listing finds it again; a queue has it at once
	if later {
		page.Trouble = l.failed
	}
	if l.reading != nil || l.found != nil || later {
		page.Waiting++
	}
	return page
}

// misses are objects that are not read, or not to their end.
type misses struct {
	number int64
	why    string
}

func (m *misses) add(number int64, why string) {
	m.number += number
	if why == "" || len(m.why) >= whyMost {
		return
	}
	if m.why != "" {
		m.why += "; "
	}
	m.why += why
}

// miss notes that an object is not read, or not to its end.
func (l *log) miss(key, why string) { l.missed.add(1, key+": "+why) }

// finish notes that an object was read to its end.
func (l *log) finish() error {
	r := l.reading
	if r.damage != nil {
		l.miss(r.Key, fmt.Sprintf("what follows after %d unpacked bytes cannot be read: %v", r.at, r.damage))
	}
	l.leave()
	if l.options.Open {
		l.finder.(*listing).follow(&r.Object, r.Open)
	}
	if was := l.known.find(r.Identity(), openTag); r.Open && was != nil && was.bytes == r.at {
		return nil // no line was completed
	}
	remembered := r.Modified
	if l.options.Queue != "" {
		remembered = l.options.Now()
	}
	return l.known.add(&entry{
		key: hashOf(r.Identity()), etag: hashOf(r.ETag), modified: remembered.Unix(),
		end: r.begin + r.at, bytes: r.at, chain: r.compared(),
	})
}

// open opens an object, behind what was read of it.
func (l *log) open(ctx context.Context, o *object) error {
	if l.options.Open {
		return l.openGrowing(ctx, o)
	}
	return l.openClosed(ctx, o)
}

// openClosed opens an object, behind what was read of it under another ETag.
func (l *log) openClosed(ctx context.Context, o *object) error {
	body, err := l.get(ctx, &o.Object)
	switch {
	case errors.Is(err, bucket.ErrUnready): // a later listing finds it again
		return nil
	case err == nil && body == nil:
		return l.pass(o)
	}
	if err != nil {
		return err
	}
	if l.known.find(o.Identity(), body.ETag) != nil { // it was written again since it was found
		return body.Close()
	}
	r := newReading(body)
	if was := o.was; was != nil && was.bytes > 0 {
		same, err := r.skip(was.bytes, was.chain)
		if err != nil {
			r.close()
			return err
		}
		if !same {
			r.close()
			if body, err = l.get(ctx, &o.Object); body == nil || err != nil {
				return err
			}
			r = newReading(body)
		}
	}
	r.begin = l.position - r.at
	l.reading = r
	return nil
}

// pass notes that an object cannot be read, so that the next listing does not find it again. A message is deleted instead.
func (l *log) pass(o *object) error {
	if l.options.Queue != "" {
		return nil
	}
	return l.known.add(&entry{key: hashOf(o.Identity()), etag: missedHash(&o.Object), modified: o.Modified.Unix(), end: l.position})
}

// missedHash is in the place of the ETag's hash for an object that could not be read. If the object is written again, as
// it was or not, it is another one.
func missedHash(o *bucket.Object) uint64 {
	return hashOf(fmt.Sprintf("%s missed %d", o.ETag, o.Modified.Unix()))
}

// get opens an object. It is nil when it cannot be read any more.
func (l *log) get(ctx context.Context, o *bucket.Object) (*bucket.Body, error) {
	body, err := l.store.Open(ctx, o)
	if errors.Is(err, bucket.ErrGone) || errors.Is(err, bucket.ErrArchived) || errors.Is(err, bucket.ErrUnreadable) {
		l.miss(o.Key, err.Error())
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	return body, nil
}

// resume opens the object of a place. If it was written again and does not begin as the one before, what was not read of
// that is missed, and the finder finds the other one.
func (l *log) resume(ctx context.Context, at place) error {
	body, err := l.get(ctx, at.object())
	if body == nil || err != nil {
		return err
	}
	r := newReading(body)
	same, err := r.skip(at.Page, at.Chain)
	if err == nil && same {
		same, err = r.pass(l.position - at.Begin)
	}
	switch {
	case err != nil:
		r.close()
		return err
	case !same && body.ETag == at.ETag:
		r.close()
		return fmt.Errorf("%s: it has the same ETag as before and other lines", at.Key)
	case !same:
		r.close()
		l.miss(at.Key, "it was written again with other lines before it was read to its end")
		return nil
	}
	r.begin = at.Begin
	l.reading = r
	return nil
}

package objects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"weir/internal/bucket"
	"weir/internal/sleep"
)

const (
	heldMost    = 1000 // messages that are not deleted
	settleEvery = time.Second
	countEvery  = 10 * time.Second
	namedMost   = 1000 // messages about other objects that are reported
	nestedMost  = 3    // a notification in a notification
	longestKey  = 1024 // bytes, as S3 bounds them
)

// events finds objects by the messages of a queue.
type events struct {
	log   *log
	name  string // of the bucket
	queue *bucket.Queue

	unread  []*object
	reading *object
	held    map[string]*message // that are not deleted, by their IDs
	named   map[string]bool     // messages about other objects, by their IDs

	began   time.Time // when messages were first received
	settled time.Time
	forgot  time.Time
	counted time.Time
	inQueue int64 // then
}

// A message is a message whose objects are not all read, or whose hits Kafka may not have.
type message struct {
	bucket.Message
	received time.Time
	objects  int
	left     int   // of them, those that are not read
	end      int64 // the position after those that are
}

func newEvents(l *log, name string) *events {
	return &events{log: l, name: name, queue: bucket.NewQueue(l.options.Queue, l.options.Where), held: map[string]*message{}, named: map[string]bool{}}
}

// reset keeps a message if none of its objects was read. The others are received again.
func (e *events) reset() {
	if e.reading != nil {
		e.unread, e.reading = slices.Insert(e.unread, 0, e.reading), nil
	}
	maps.DeleteFunc(e.held, func(_ string, m *message) bool { return m.left < m.objects || m.left == 0 })
	e.unread = slices.DeleteFunc(e.unread, func(o *object) bool { return e.held[o.message.ID] != o.message })
}

func (e *events) waiting() int64 { return int64(len(e.unread)) + e.inQueue }

func (e *events) more() bool { return e.waiting() > 0 }

func (e *events) look(ctx context.Context) error {
	_, hidden, err := e.queue.State(ctx)
	if err == nil && 2*hidden > e.log.options.Delay {
		err = fmt.Errorf("the queue gives a message to others again after %s (its visibility timeout): set delay to %s or more", hidden, 2*hidden)
	}
	return err
}

func (e *events) find(ctx context.Context) (*object, error) {
	if e.reading != nil {
		e.done(e.reading.message)
		e.reading = nil
	}
	now := e.log.options.Now()
	if err := e.settle(ctx, now); err != nil {
		return nil, err
	}
	if len(e.unread) == 0 && len(e.held) < heldMost {
		if err := e.receive(ctx, now); err != nil {
			return nil, err
		}
	}
	for len(e.unread) > 0 {
		o := e.unread[0]
		e.unread[0], e.unread = nil, e.unread[1:]
		if e.log.known.find(o.Key, o.ETag) != nil { // it was read
			e.done(o.message)
			continue
		}
		o.was = e.log.known.byKey[hashOf(o.Key)]
		e.reading = o
		return o, nil
	}
	if len(e.held) >= heldMost {
		sleep.For(ctx, waitFor)
	}
	return nil, nil
}

// done notes that an object of a message needs no reading any more.
func (e *events) done(m *message) {
	m.left--
	m.end = max(m.end, e.log.position)
}

// receive receives messages, and puts their objects into the order in which they are read.
func (e *events) receive(ctx context.Context, now time.Time) error {
	if now.Sub(e.counted) > countEvery {
		waiting, _, err := e.queue.State(ctx)
		if err != nil {
			return err
		}
		e.inQueue, e.counted = waiting, now
	}
	received, err := e.queue.Receive(ctx)
	if err != nil {
		return err
	}
	if e.began.IsZero() {
		e.began = now
	}
	e.inQueue = max(0, e.inQueue-int64(len(received)))
	if len(received) == 0 {
		e.inQueue = 0
	}
	for _, one := range received {
		if was := e.held[one.ID]; was != nil {
			was.Receipt = one.Receipt
			continue
		}
		e.take(one, now)
	}
	slices.SortStableFunc(e.unread, func(a, b *object) int { return cmp.Or(a.when.Compare(b.when), cmp.Compare(a.Key, b.Key)) })
	return nil
}

// take takes the objects of a message. One about objects elsewhere only stays in the queue.
func (e *events) take(one bucket.Message, now time.Time) {
	all, err := eventsIn(one.Body)
	ours := all[:0:0]
	for _, o := range all {
		if o.bucket == e.name && strings.HasPrefix(o.key, e.log.prefix) {
			ours = append(ours, o)
		}
	}
	if err == nil && len(all) > 0 && len(ours) == 0 {
		err = fmt.Errorf("it is about s3://%s/%s", all[0].bucket, all[0].key)
	}
	if err != nil {
		if !e.named[one.ID] && len(e.named) < namedMost {
			e.named[one.ID] = true
			e.log.miss("a message stays in the queue", err.Error())
		}
		return
	}

	m := &message{Message: one, received: now, end: e.log.position}
	e.held[one.ID] = m
	for _, o := range ours {
		if !IsLog(o.key, o.size) {
			continue
		}
		when, ok := TimeOf(o.key)
		if !ok {
			when = o.at
		}
		m.objects++
		m.left++
		e.unread = append(e.unread, &object{Object: bucket.Object{Key: o.key, ETag: o.etag, Size: o.size}, when: when, message: m})
	}
}

// settle deletes the messages that are done, and forgets objects that were read long ago.
func (e *events) settle(ctx context.Context, now time.Time) error {
	if now.Sub(e.settled) < settleEvery {
		return nil
	}
	e.settled = now
	if err := e.log.known.write(ctx); err != nil {
		return err
	}
	sent, err := e.log.memory.Sent(ctx)
	if err != nil {
		return err
	}
	of := map[string]string{} // IDs by receipts
	for id, m := range e.held {
		if m.left == 0 && m.end <= sent {
			of[m.Receipt] = id
		}
	}
	deleted, err := e.queue.Delete(ctx, slices.Collect(maps.Keys(of)))
	for _, receipt := range deleted {
		delete(e.held, of[receipt])
	}
	if err != nil {
		return err
	}
	return e.forget(ctx, now, sent)
}

// forget forgets the objects that were read before the last delay. Messages about them may come as long as some could not
// be received or deleted.
func (e *events) forget(ctx context.Context, now time.Time, sent int64) error {
	delay := e.log.options.Delay
	if e.began.IsZero() || now.Sub(e.began) < delay || now.Sub(e.forgot) < delay/60 {
		return nil
	}
	for _, m := range e.held {
		if now.Sub(m.received) > delay/2 {
			return nil
		}
	}
	e.forgot = now
	k, before := &e.log.known, now.Add(-delay).Unix()
	if !k.hasOlder(before) {
		return nil
	}
	k.frontier = frontier{At: before}
	if err := k.keepFrontier(ctx); err != nil {
		return err
	}
	_ = k.forget(sent) // none moves away
	return nil
}

// An event is an object that was written.
type event struct {
	bucket, key, etag string
	size              int64
	at                time.Time
}

// notification is what S3, SNS and EventBridge write into a queue.
type notification struct {
	Records []record // of S3
	Event   string   // of S3, when the queue is set up

	Message string // of SNS, around one of S3

	Kind   string      `json:"detail-type"` // of EventBridge
	At     string      `json:"time"`
	Detail eventObject `json:"detail"`
}

type record struct {
	EventName string      `json:"eventName"`
	EventTime string      `json:"eventTime"`
	S3        eventObject `json:"s3"`
}

type eventObject struct {
	Bucket struct {
		Name string `json:"name"`
	} `json:"bucket"`
	Object struct {
		Key  string `json:"key"`
		Size int64  `json:"size"`
		ETag string `json:"eTag"` // of EventBridge: etag
	} `json:"object"`
}

func (o *eventObject) event(key, at string) event {
	when, _ := time.Parse(time.RFC3339, at) // it only orders objects
	return event{o.Bucket.Name, key, strings.Trim(o.Object.ETag, `"`), o.Object.Size, when}
}

var errNoEvent = errors.New("it is no event of S3")

// possible reports whether S3 can have an object with a key.
func possible(key string) bool { return key != "" && len(key) <= longestKey && utf8.ValidString(key) }

// eventsIn returns the objects that were written according to a message.
func eventsIn(body string) (all []event, err error) {
	for range nestedMost {
		var n notification
		if err := json.Unmarshal([]byte(body), &n); err != nil {
			return nil, errNoEvent
		}
		switch {
		case n.Message != "":
			body = n.Message
			continue
		case n.Kind == "Object Created" && !possible(n.Detail.Object.Key):
			return nil, errNoEvent
		case n.Kind == "Object Created":
			return []event{n.Detail.event(n.Detail.Object.Key, n.At)}, nil
		case n.Records == nil && n.Event != "s3:TestEvent":
			return nil, errNoEvent
		}
		for i := range n.Records {
			r := &n.Records[i]
			key, err := url.QueryUnescape(r.S3.Object.Key)
			switch {
			case r.S3.Bucket.Name == "" || err != nil || !possible(key):
				return nil, errNoEvent
			case strings.HasPrefix(r.EventName, "ObjectCreated:"):
				all = append(all, r.S3.event(key, r.EventTime))
			}
		}
		return all, nil
	}
	return nil, errNoEvent
}

package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"weir/internal/bucket"
	"weir/internal/logfile"
)

// A Growing store also gives objects that are being written, from one of their bytes on. An object's bytes never change,
// but its last ones may be cut off.
type Growing interface {
	Store

	// OpenFrom opens an object at a byte. At the object's end and behind it, there is nothing to read.
	OpenFrom(ctx context.Context, o *bucket.Object, from int64) (*bucket.Body, error)
}

// openTag is the ETag of an object that is being written.
const openTag = "open"

var openMark = hashOf(openTag)

// followEvery is how often objects that are being written are looked at.
const followEvery = time.Second

// openGrowing opens an object behind the bytes that were read of it, whether it is being written or not.
func (l *log) openGrowing(ctx context.Context, o *object) error {
	from, plain := int64(0), false
	if o.was != nil {
		from, plain = o.was.bytes, o.was.byBytes()
	}
	if !plain {
		kind, err := l.kindOf(ctx, o)
		switch {
		case errors.Is(err, errPassed):
			return nil
		case err != nil:
			return err
		case kind != logfile.Plain:
			return l.openClosed(ctx, o)
		}
	}

	body, err := l.part(ctx, o, from)
	if body == nil || err != nil {
		return err
	}
	switch {
	case !body.Open && body.Size < from:
		l.remark(fmt.Sprintf("%s: the last %d bytes that were read are not in it any more, as after a writer that ended before its file was closed; their lines have counted", o.Key, from-body.Size))
		from = body.Size
	case body.Open && o.was != nil && body.Size <= from && o.was.etag == openMark:
		l.finder.(*listing).follow(&body.Object, true)
		return body.Close() // nothing new
	}
	r := newReading(body)
	r.byBytes, r.at, r.begin = true, from, l.position-from
	r.unpacked = io.NopCloser(r.packed)
	l.reading = r
	return nil
}

var errPassed = errors.New("the object is passed")

// kindOf finds out how an object is packed, or for one that is no log, leaves it to openClosed.
func (l *log) kindOf(ctx context.Context, o *object) (logfile.Kind, error) {
	body, err := l.part(ctx, o, 0)
	if err != nil {
		return "", err
	}
	if body == nil {
		return "", errPassed
	}
	defer func() { _ = body.Close() }()
	head := make([]byte, logfile.HeadBytes)
	n, err := io.ReadFull(body, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", err
	}
	kind, err := logfile.KindOf(head[:n])
	if err != nil {
		return "none", nil // openClosed finds it again, once the object is closed
	}
	return kind, nil
}

// part opens an object at a byte. It is nil when it cannot be read now, or not any more.
func (l *log) part(ctx context.Context, o *object, from int64) (*bucket.Body, error) {
	body, err := l.store.(Growing).OpenFrom(ctx, &o.Object, from)
	switch {
	case errors.Is(err, bucket.ErrUnready):
		l.unready = fmt.Errorf("%s: %w", o.Key, err)
		return nil, nil
	case errors.Is(err, bucket.ErrGone):
		l.finder.(*listing).follow(&o.Object, false)
		l.miss(o.Key, err.Error())
		return nil, l.pass(o)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	case body.Open:
		body.ETag = openTag
	}
	return body, nil
}

// remark notes something that a person should know, and that loses nothing.
func (l *log) remark(text string) {
	if l.remarks != "" {
		text = "; " + text
	}
	if len(l.remarks) < whyMost {
		l.remarks += text
	}
}

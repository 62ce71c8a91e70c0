package journald

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"weir/internal/sleep"
	"weir/pkg/collector/ordered"
)

// Read returns the entries after a place.
func (l *log) Read(ctx context.Context, after ordered.Place) (page ordered.Page, err error) {
	at, err := placeOf(after)
	if err != nil {
		return page, err
	}
	if l.child != nil && l.at.position() != after.Position {
		l.stop()
	}
	if l.child != nil && l.follows && time.Since(l.looked) > cmp.Or(l.options.lookEvery, lookEvery) {
		if err := l.look(); err != nil {
			return page, err
		}
	}
	if l.child == nil {
		if err := l.settle(ctx, at); err != nil {
			return page, err
		}
		if page, err = l.start(at); err != nil {
			return page, err
		}
		if l.child == nil { // there is nothing to read
			sleep.For(ctx, waitFor)
			return page, nil
		}
	}
	err = l.fill(ctx, &page)
	if len(page.Entries) > 0 && err != nil && !errors.Is(err, ordered.ErrOther) {
		err = nil // the next call has it
	}
	if err == nil {
		page.Waiting, err = l.waiting(&page)
	}
	if l.options.Once && !l.over {
		page.Waiting = max(page.Waiting, 1)
	}
	return page, err
}

// look ends the child if there are other files to read than it has.
func (l *log) look() error {
	l.looked = time.Now()
	all, err := l.series()
	if err != nil {
		return err
	}
	if len(l.at.rest(all)) > 0 {
		l.stop()
	}
	for _, s := range all {
		for _, f := range s.from(l.at.number) {
			if s.id == l.at.series && !l.given[f.id] {
				l.stop()
			}
		}
	}
	return nil
}

// start starts a child that reads after a place. It starts none when there is nothing to read. The page has what was
// lost before.
func (l *log) start(at place) (page ordered.Page, err error) {
	all, err := l.series()
	if err != nil {
		return page, err
	}
	for {
		rest := at.rest(all)
		now := slices.IndexFunc(all, func(s *series) bool { return s.id == at.series })
		switch {
		case now < 0 && l.read != at.series && written(rest):
			return page, ordered.ErrOther
		case l.read == at.series && len(rest) > 0:
			at = at.next(all, rest[0])
			continue
		case now < 0:
			return page, nil
		}

		s := all[now]
		if missing := lostBefore(s, at.number); missing > 0 {
			at.number += missing
			page.Start = at.position()
			if len(l.options.Matches) == 0 {
				page.Lost = int64(missing)
			}
		}
		files := s.from(at.number)
		if len(files) == 0 && len(rest) > 0 {
			l.read = at.series
			continue
		}
		if len(files) == 0 {
			return page, nil
		}
		return page, l.startIn(at, s, files, rest)
	}
}

// lostBefore returns how many numbers of a series after a number are in no file any more.
func lostBefore(s *series, number uint64) uint64 {
	if s.head <= number+1 {
		return 0
	}
	return s.head - 1 - number
}

// startIn starts a child that reads files of a series.
func (l *log) startIn(at place, s *series, files []file, rest []*series) (err error) {
	l.at, l.tail, l.files, l.given = at, at.tail(), files, map[string]bool{}
	l.checked, l.looked, l.behind, l.reach = false, time.Now(), 0, s.tail
	for _, f := range files {
		l.given[f.id] = true
		if f.tail == s.tail && l.grows == nil {
			l.grows, _ = os.Open(f.path) // without it, less is known of what waits
		}
	}
	for _, later := range rest {
		l.behind += later.entries()
	}
	// The last number may belong to an entry that is just being written.
	l.end = max(1, s.tail) - 1
	filtered := len(l.options.Matches) > 0
	l.follows = !l.options.Once && len(rest) == 0 && (!filtered || l.end <= at.number+followFrom)

	arguments := append(argumentsFor(files), "--output-fields="+message)
	for _, field := range l.options.Fields {
		arguments[len(arguments)-1] += "," + field
	}
	arguments = append(arguments, cursorArgument(at.series, at.number+1))
	if l.follows {
		arguments = append(arguments, "--follow")
	}
	arguments = append(arguments, "--")
	l.child, err = startChild(append([]string{message}, l.options.Fields...), append(arguments, l.options.Matches...))
	if err != nil {
		l.stop()
	}
	return err
}

// fill reads entries of the child into a page.
func (l *log) fill(ctx context.Context, page *ordered.Page) error {
	size := 0
	for len(page.Entries) < pageEntries && size < pageBytes {
		wait := waitFor
		if len(page.Entries) > 0 {
			wait = 0
		}
		e, err := l.child.next(ctx, wait)
		if errors.Is(err, errNone) {
			return context.Cause(ctx)
		}
		if !l.checked && (err == nil || errors.Is(err, io.EOF)) {
			if l.checked = sameFiles(l.files); !l.checked {
				l.stop()
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			if len(page.Entries) > 0 { // the next call comes here again
				return nil
			}
			return l.ended(page)
		}
		if err != nil {
			l.stop()
			return err
		}
		if e.series != l.at.series {
			l.stop()
			return ordered.ErrOther
		}
		if e.number <= l.at.number {
			continue
		}
		if e.number > l.reach && !l.has(e.number) {
			l.stop()
			return nil
		}
		if l.lacks(&e) && l.doubts(&e) {
			l.stop()
			return nil
		}
		l.at.number, l.at.read, l.at.time = e.number, e.number, e.time
		entry := ordered.Entry{After: ordered.Place{Position: l.at.position(), ID: l.at.id(l.tail)}}
		entry.Value, entry.Long = l.value(&e)
		size += len(entry.Value)
		page.Entries = append(page.Entries, entry)
	}
	return nil
}

// has reports whether the files that the child was given have an entry of a number.
func (l *log) has(number uint64) bool {
	if l.grows == nil {
		return true // its file could not be opened
	}
	if now, ok, err := readHeaderAt(l.grows); err == nil && ok {
		l.reach = max(l.reach, now.tail)
	}
	return number <= l.reach
}

// sameFiles reports whether files still have their names, so that a child has opened these and no others.
func sameFiles(files []file) bool {
	for _, f := range files {
		now, ok, err := openFile(f.path)
		if err != nil || !ok || now.id != f.id {
			return false
		}
	}
	return true
}

// ended notes that a child has read its series to the end.
func (l *log) ended(page *ordered.Page) error {
	l.stop()
	switch {
	case l.follows:
		return errors.New("journalctl has ended, but should wait for entries")
	case l.behind > 0:
		l.read = l.at.series
	default:
		l.over = true
	}
	if l.end > l.at.number {
		page.Start = max(page.Start, l.at.base+int64(l.end))
	}
	return nil
}

// waiting returns how many entries follow a page, at most.
func (l *log) waiting(page *ordered.Page) (int64, error) {
	full := len(page.Entries) == pageEntries
	switch {
	case l.child == nil && l.doubt.number > l.at.number:
		return l.behind + 1, nil
	case l.child == nil || l.follows && len(l.options.Matches) > 0 && !full:
		return l.behind, nil
	}
	end := l.end
	if l.grows != nil {
		now, ok, err := readHeaderAt(l.grows)
		if err != nil {
			return 0, err
		}
		if ok {
			end = now.tail
		}
	}
	return l.behind + max(0, int64(end)-int64(l.at.number)), nil
}

// value returns the line or the record of an entry.
func (l *log) value(e *entry) (value []byte, long bool) {
	value = e.fields[message]
	if len(l.options.Fields) > 0 {
		texts := make(map[string]string, len(e.fields))
		for name, text := range e.fields {
			texts[name] = string(text)
		}
		value, _ = json.Marshal(texts) // it is made of texts
	}
	if e.long || len(value) > ordered.LongestEntry {
		return bytes.Clone(value[:min(len(value), sampleOfLong)]), true
	}
	return value, false
}

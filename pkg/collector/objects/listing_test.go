package objects

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"weir/internal/bucket"
	"weir/pkg/collector/ordered"
)

// A file is all that a store has, if it has it.
type file struct {
	bucket.Object
	text string
	away bool
}

func (f *file) Look(context.Context, string) error { return nil }

func (f *file) List(_ context.Context, _ string, each func(bucket.Object) error) error {
	if f.away {
		return nil
	}
	o := f.Object
	o.Open, o.Size = false, int64(len(f.text))
	return each(o)
}

func (f *file) Open(ctx context.Context, o *bucket.Object) (*bucket.Body, error) {
	return f.OpenFrom(ctx, o, 0)
}

func (f *file) OpenFrom(_ context.Context, _ *bucket.Object, from int64) (*bucket.Body, error) {
	o := f.Object
	o.Size = int64(len(f.text))
	return bucket.NewBody(o, io.NopCloser(strings.NewReader(f.text[from:])), func() {}), nil
}

// A follower lists a file whenever it reads.
type follower struct {
	*file
	log   *log
	place ordered.Place
}

func follow(t *testing.T) *follower {
	t.Helper()
	f := &file{Object: bucket.Object{Key: "/a", ID: "1", ETag: "1", Modified: time.Now().Add(-3 * time.Hour), Open: true}, text: "one\n"}
	opened, err := Open(Options{URL: "hdfs://", Delay: time.Hour, Store: f, Open: true, ListEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	l := opened.(*log)
	l.Remember(&ordered.Memory{})
	return &follower{f, l, place{}.first()}
}

func (f *follower) reads(t *testing.T, want string) {
	t.Helper()
	f.log.finder.(*listing).next = time.Time{}
	page, err := f.log.Read(t.Context(), f.place)
	if err != nil {
		t.Fatal(err)
	}
	f.place = page.End(f.place)
	got := ""
	for _, e := range page.Entries {
		got += string(e.Value) + " "
	}
	if got != want || page.Missed > 0 {
		t.Errorf("it reads %q, %+v; want %q", got, page, want)
	}
}

// restart forgets what the journal does not have.
func (f *follower) restart() { f.log.finder.(*listing).open = nil }

// After a restart, a file that is being written is looked at between the listings also if it has nothing new.
func TestAFileWithNothingNewIsFollowed(t *testing.T) {
	f := follow(t)
	f.reads(t, "one ")
	f.restart()
	f.reads(t, "")
	if n := len(f.log.finder.(*listing).open); n != 1 {
		t.Errorf("%d files are followed", n)
	}
}

// A listing may miss a file that is renamed meanwhile. The bytes that were read are remembered, however old the file is.
func TestAFileThatOneListingMissesIsReadOn(t *testing.T) {
	f := follow(t)
	f.reads(t, "one ")
	f.restart()
	f.away = true
	f.reads(t, "")
	f.reads(t, "")
	f.away, f.Object.Open = false, false
	f.text, f.ETag, f.Modified = "one\ntwo\n", "2", time.Now()
	f.reads(t, "two ")
}

// A shelf has objects. Some cannot be opened.
type shelf struct {
	keys    []string
	refused map[string]bool
}

func (s *shelf) Look(context.Context, string) error { return nil }

func (s *shelf) List(_ context.Context, _ string, each func(bucket.Object) error) error {
	for n, key := range s.keys {
		if err := each(bucket.Object{Key: key, ETag: "1", Size: 5, Modified: time.Now().Add(time.Duration(n-100) * time.Second)}); err != nil {
			return err
		}
	}
	return nil
}

func (s *shelf) Open(_ context.Context, o *bucket.Object) (*bucket.Body, error) {
	if s.refused[o.Key] {
		return nil, errors.New("it is refused")
	}
	return bucket.NewBody(*o, io.NopCloser(strings.NewReader("of "+o.Key+"\n")), func() {}), nil
}

// The lines before an object that cannot be opened count. Until it can be, each page has the reason, and that the object
// waits, also between the listings. If something was read, the next listing comes soon.
func TestAnObjectThatCannotBeOpenedStaysInTheStatus(t *testing.T) {
	store := &shelf{keys: []string{"a", "b", "c"}, refused: map[string]bool{"b": true}}
	opened, err := Open(Options{URL: "hdfs://", Delay: time.Hour, Store: store, ListEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	l := opened.(*log)
	l.Remember(&ordered.Memory{})
	at := place{}.first()
	read := func() (ordered.Page, error) {
		page, err := l.Read(t.Context(), at)
		at = page.End(at)
		return page, err
	}

	page, err := read()
	if err != nil || len(page.Entries) != 1 || string(page.Entries[0].Value) != "of a" || page.Waiting == 0 || page.Trouble == nil {
		t.Errorf("the first page is %+v, with the error %v", page, err)
	}
	for range 2 { // the second time after another listing, because a line was read
		if page, err = read(); err == nil || err.Error() != "b: it is refused" || len(page.Entries) > 0 {
			t.Fatalf("it reads %+v, with the error %v", page, err)
		}
	}
	if page, err = read(); err != nil || len(page.Entries) > 0 || page.Waiting == 0 || page.Trouble == nil {
		t.Errorf("between the listings it reads %+v, with the error %v", page, err)
	}
	store.refused["b"] = false
	l.finder.(*listing).next = time.Time{}
	if page, err = read(); err != nil || len(page.Entries) != 2 || page.Waiting != 0 || page.Trouble != nil {
		t.Errorf("then it reads %+v, with the error %v", page, err)
	}
}

// An object that can be opened when it is tried again is no trouble any more, also before the next listing.
func TestAnObjectThatIsOpenedAgainIsNoTrouble(t *testing.T) {
	store := &shelf{keys: []string{"a", "b"}, refused: map[string]bool{"b": true}}
	opened, err := Open(Options{URL: "hdfs://", Delay: time.Hour, Store: store, ListEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	opened.(*log).Remember(&ordered.Memory{})
	at := place{}.first()
	page, err := opened.Read(t.Context(), at)
	if err != nil || len(page.Entries) != 1 || page.Trouble == nil {
		t.Errorf("the first page is %+v, with the error %v", page, err)
	}
	store.refused["b"] = false
	page, err = opened.Read(t.Context(), page.End(at))
	if err != nil || len(page.Entries) != 1 || page.Waiting != 0 || page.Trouble != nil {
		t.Errorf("then it reads %+v, with the error %v", page, err)
	}
}

// Objects that the journal has as late are reported, though the object after them cannot be opened at first.
func TestLateObjectsAreReportedAfterAnError(t *testing.T) {
	store := &shelf{keys: []string{"a"}, refused: map[string]bool{"a": true}}
	opened, err := Open(Options{URL: "hdfs://", Delay: time.Hour, Store: store, ListEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	l := opened.(*log)
	l.Remember(&ordered.Memory{})
	l.noted.add(2, "two are late")
	if page, err := l.Read(t.Context(), place{}.first()); err == nil {
		t.Errorf("it reads %+v", page)
	}
	store.refused["a"] = false
	l.finder.(*listing).next = time.Time{}
	page, err := l.Read(t.Context(), place{}.first())
	if err != nil || len(page.Entries) != 1 || page.Missed != 2 || page.Why != "two are late" {
		t.Errorf("then it reads %+v, with the error %v", page, err)
	}
}

// The causes of many misses are as long as those of some.
func TestTheCausesOfManyMissesAreBounded(t *testing.T) {
	var m misses
	for range 10_000 {
		m.add(1, "a: it is gone")
	}
	if m.number != 10_000 || len(m.why) > whyMost+20 {
		t.Errorf("%d are missed, and their causes have %d bytes", m.number, len(m.why))
	}
}

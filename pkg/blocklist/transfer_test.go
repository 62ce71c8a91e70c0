package blocklist

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var list = ListID{"a", 1}

func record(t testing.TB, offset int64, e *Entry) Change {
	t.Helper()
	value, err := e.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return Change{offset, RecordKey(e.Rule, e.Key), value}
}

func ordered(t testing.TB, offset int64, o *Order) Change {
	t.Helper()
	value, err := o.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return Change{offset, o.RecordKey(), value}
}

func verdict(key string) *Entry {
	return &Entry{ID: "id-" + key, Rule: "per-ip", Key: key, Fields: map[string]string{"ip": key}, From: at, Until: at + 600_000, Decided: at, By: "weir", Level: 1}
}

func allow(value string) *Order {
	return &Order{ID: "allow-" + value, Kind: OrderAllow, Scope: "ip", Value: value, From: at, Until: Never, By: "ann", Why: "ours"}
}

// wholeSet makes a Set with these entries and two orders, as version a-1.N.
func wholeSet(t testing.TB, keys ...string) *Set {
	t.Helper()
	s := NewSet(Limits{})
	f := s.Fill()
	for i, key := range keys {
		if err := f.Apply(at, record(t, int64(i), verdict(key))); err != nil {
			t.Fatal(err)
		}
	}
	block := allow("10.0.0.0/8")
	block.Kind = OrderBlock
	if err := f.Apply(at, ordered(t, f.Last+1, block), ordered(t, f.Last+2, allow("10.1.0.0/16"))); err != nil {
		t.Fatal(err)
	}
	f.Swap(State{Version{list, f.Last}, true, at - 5}, at)
	return s
}

func lines(s *Set) []string {
	var all []string
	for e := range s.All(at) {
		text, _ := e.MarshalJSON()
		all = append(all, string(text))
	}
	for o := range s.Orders(at) {
		all = append(all, fmt.Sprintf("%+v", *o))
	}
	slices.Sort(all)
	return all
}

func written(t testing.TB, s *Set, after Version) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.WriteAfter(&b, after, at); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func sameLists(t *testing.T, got, want *Set) {
	t.Helper()
	if diff := cmp.Diff(lines(want), lines(got)); diff != "" {
		t.Fatal(diff)
	}
	if got.State() != want.State() {
		t.Fatalf("%+v, want %+v", got.State(), want.State())
	}
}

func TestASnapshotAndDeltasComeOver(t *testing.T) {
	from, to := wholeSet(t, "1.1.1.1", "2.2.2.2"), NewSet(Limits{})
	if h, err := to.Read(bytes.NewReader(written(t, from, to.Version())), at); err != nil || !h.Snapshot {
		t.Fatal(h, err)
	}
	sameLists(t, to, from)
	ended := verdict("1.1.1.1")
	ended.Ended = at
	err := from.Apply(at, record(t, 10, verdict("3.3.3.3")), record(t, 11, ended), Change{Offset: 12, Key: []byte("per-ip/2.2.2.2")})
	if err != nil {
		t.Fatal(err)
	}
	if h, err := to.Read(bytes.NewReader(written(t, from, to.Version())), at); err != nil || h.Snapshot {
		t.Fatal(h, err)
	}
	sameLists(t, to, from)
	if to.Version().String() != "a-1.12" {
		t.Error(to.Version())
	}
}

// A follower that moves to another enforcer by its version gets only the changes that it lacks.
func TestAFollowerMoves(t *testing.T) {
	one, other := wholeSet(t, "1.1.1.1"), wholeSet(t, "1.1.1.1")
	follower := NewSet(Limits{})
	read := func(from *Set) Header {
		t.Helper()
		h, err := follower.Read(bytes.NewReader(written(t, from, follower.Version())), at)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	read(one)
	for i := range int64(20) {
		c := record(t, 5+i, verdict(fmt.Sprintf("2.2.2.%d", i)))
		if err := errors.Join(one.Apply(at, c), other.Apply(at, c)); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if h := read(one); h.Snapshot {
				t.Fatal("a snapshot")
			}
		}
	}
	if h := read(other); h.Snapshot {
		t.Fatal("a snapshot")
	}
	sameLists(t, follower, other)
}

func TestAFollowerTooFarBehindGetsASnapshot(t *testing.T) {
	s := NewSet(Limits{Changes: 4})
	f := s.Fill()
	f.Swap(State{Version{list, 0}, true, at}, at)
	for i := range int64(10) {
		if err := s.Apply(at, record(t, i+1, verdict(fmt.Sprint(i)))); err != nil {
			t.Fatal(err)
		}
	}
	for after, snapshot := range map[int64]bool{0: true, 5: true, 6: false, 7: false, 10: false} {
		r, err := NewReader(bytes.NewReader(written(t, s, Version{list, after})))
		if err != nil || r.Header.Snapshot != snapshot {
			t.Errorf("after %d: %+v, %v", after, r.Header, err)
		}
		if _, _, known := s.Changes(Version{list, after}, 100); known == snapshot {
			t.Errorf("after %d: known %v", after, known)
		}
	}
	changes, to, _ := s.Changes(Version{list, 6}, 3)
	if len(changes) != 3 || changes[0].Offset != 7 || to.Offset != 9 {
		t.Error(changes, to)
	}
	if err := s.WriteAfter(io.Discard, Version{list, 11}, at); !errors.Is(err, ErrNotYet) || !s.NotYet(Version{list, 11}) {
		t.Error(err)
	}
	if err := NewSet(Limits{}).WriteAfter(io.Discard, Version{}, at); !errors.Is(err, ErrNoList) {
		t.Error(err)
	}
}

// TestCutAnywhere cuts a snapshot and a delta off at every byte, and changes each byte: the Set stays unchanged.
func TestCutAnywhere(t *testing.T) {
	from := wholeSet(t, "1.1.1.1", "2.2.2.2")
	if err := from.Order(allow("9.9.9.9"), at); err != nil {
		t.Fatal(err)
	}
	to := wholeSet(t, "1.1.1.1")
	before := lines(to)
	snapshot := written(t, from, Version{})
	if err := from.Apply(at, record(t, 5, verdict("3.3.3.3"))); err != nil {
		t.Fatal(err)
	}
	delta := written(t, from, Version{list, 3})
	to.Reach(State{Version{list, 3}, true, at - 5})
	state := to.State()
	for _, whole := range [][]byte{snapshot, delta} {
		for i := range whole {
			damaged := bytes.Clone(whole)
			damaged[i] ^= 4
			for name, b := range map[string][]byte{"cut": whole[:i], "changed": damaged} {
				if _, err := to.Read(bytes.NewReader(b), at); err == nil {
					t.Fatalf("%s at %d of %d: read", name, i, len(whole))
				}
				if to.State() != state {
					t.Fatalf("%s at %d of %d: %+v", name, i, len(whole), to.State())
				}
			}
		}
	}
	if diff := cmp.Diff(before, lines(to)); diff != "" {
		t.Error(diff)
	}
	if _, err := to.Read(bytes.NewReader(delta), at); err != nil {
		t.Error(err)
	}
}

func TestAnotherOrAnOlderListIsNotTaken(t *testing.T) {
	held := wholeSet(t, "1.1.1.1")
	held.Reach(State{Version{ListID{"a", 5}, 100}, true, at})
	before := lines(held)
	for name, test := range map[string]struct {
		version Version
		want    error
	}{
		"another name": {Version{ListID{"b", 9}, 200}, ErrOtherList},
		"older epoch":  {Version{ListID{"a", 4}, 200}, ErrOtherList},
		"older offset": {Version{ListID{"a", 5}, 99}, ErrWentBack},
	} {
		from := wholeSet(t, "5.5.5.5")
		from.Reach(State{test.version, true, at})
		if _, err := held.Read(bytes.NewReader(written(t, from, Version{})), at); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(before, lines(held)); diff != "" {
		t.Error(diff)
	}
	from := wholeSet(t, "5.5.5.5")
	from.Reach(State{Version{ListID{"a", 6}, 1}, true, at})
	if _, err := held.Read(bytes.NewReader(written(t, from, Version{})), at); err != nil {
		t.Error("a greater epoch:", err)
	}
	sameLists(t, held, from)
}

func TestPendingOrdersComeOver(t *testing.T) {
	from, to := wholeSet(t, "1.1.1.1"), NewSet(Limits{})
	asked := &Asked{Keys: []RuleKey{{"per-ip", []byte("1.1.1.1")}}}
	transfer := func() {
		t.Helper()
		if _, err := to.Read(bytes.NewReader(written(t, from, to.Version())), at); err != nil {
			t.Fatal(err)
		}
		if from.Local() != to.LocalAbove() {
			t.Fatalf("%q and %q", from.Local(), to.LocalAbove())
		}
	}
	transfer()
	pardon := &Order{ID: "p", Kind: OrderPardon, Rule: "per-ip", Key: "1.1.1.1", Pardons: "id-1.1.1.1", From: at, Until: Never, By: "ann", Why: "ours"}
	changed := from.Changed()
	if err := from.Order(pardon, at); err != nil {
		t.Fatal(err)
	}
	<-changed
	for _, s := range []*Set{from, to} {
		if s == to {
			transfer()
		}
		if s.Check(asked, at).Entry.Found() || len(s.Pending()) != 1 || s.Local() == "" {
			t.Fatal("the pardon is not in force")
		}
	}
	late := NewSet(Limits{}) // by a snapshot
	if _, err := late.Read(bytes.NewReader(written(t, to, Version{})), at); err != nil || late.Check(asked, at).Entry.Found() || late.Local() != from.Local() {
		t.Fatal(err)
	}
	if err := from.Apply(at, ordered(t, 7, pardon)); err != nil {
		t.Fatal(err)
	}
	transfer()
	for _, s := range []*Set{from, to} {
		if s.Check(asked, at).Entry.Found() || len(s.Pending()) != 0 || s.Local() != "" {
			t.Fatal("the pardon still waits, or is not in force")
		}
	}
}

// A source that lost orders before the log had them, with its disk or because its machine was set back, is noticed, and a
// snapshot shows what it has. An order that the log brought is not lost.
func TestOrdersThatTheSourceLost(t *testing.T) {
	block := &Order{ID: "b", Kind: OrderBlock, Scope: "ip", Value: "9.9.9.9", From: at, Until: Never, By: "ann", Why: "w"}
	lift := *block
	lift.ID, lift.From, lift.Ended = "l", at+1, at+1
	pardon := &Order{ID: "p", Kind: OrderPardon, Rule: "per-ip", Key: "1.1.1.1", Pardons: "id-1.1.1.1", From: at, Until: Never, By: "ann", Why: "w"}
	for name, c := range map[string]struct{ had, has []*Order }{
		"a block":                   {[]*Order{block}, nil},
		"an unblock":                {[]*Order{pardon}, nil},
		"the end of a block":        {[]*Order{&lift}, nil},
		"one of two":                {[]*Order{block, pardon}, []*Order{pardon}},
		"the newer one of a target": {[]*Order{block, &lift}, []*Order{block}},
	} {
		t.Run(name, func(t *testing.T) {
			from, back, to := wholeSet(t, "1.1.1.1"), wholeSet(t, "1.1.1.1"), NewSet(Limits{})
			read := func(source *Set, after Version) {
				t.Helper()
				if _, err := to.Read(bytes.NewReader(written(t, source, after)), at); err != nil {
					t.Fatal(err)
				}
			}
			read(from, Version{})
			for set, orders := range map[*Set][]*Order{from: c.had, back: c.has} {
				for _, o := range orders {
					if err := set.Order(o, at); err != nil {
						t.Fatal(err)
					}
				}
			}
			read(from, to.Version())
			if to.LostAbove() || to.Local() != from.Local() {
				t.Fatal("an order is lost, or did not come")
			}
			read(back, to.Version())
			if !to.LostAbove() || to.Local() != from.Local() {
				t.Fatal("it is not noticed, or the orders are gone before the snapshot is there")
			}
			read(back, Version{})
			for _, key := range []string{"1.1.1.1", "9.9.9.9"} {
				asked := &Asked{IP: netip.MustParseAddr(key), Keys: []RuleKey{{"per-ip", []byte(key)}}}
				if got, want := to.Check(asked, at+2).Entry.Found(), back.Check(asked, at+2).Entry.Found(); to.LostAbove() || got != want {
					t.Errorf("%s is blocked: %t, at the source %t", key, got, want)
				}
			}
		})
	}
}

// Records of an order's target that the log has before the order itself are older than the order.
func TestAPendingOrderIsTheLast(t *testing.T) {
	s := wholeSet(t)
	mine := allow("10.0.0.0/8")
	if err := s.Order(mine, at); err != nil {
		t.Fatal(err)
	}
	others := allow("10.0.0.0/8")
	others.ID, others.Kind = "other", OrderBlock
	ask := &Asked{IP: parsed("10.9.9.9")}
	if err := s.Apply(at, ordered(t, 9, others)); err != nil || !s.Check(ask, at).Allowed.Found() {
		t.Fatal("the other's order is in force", err)
	}
	f := s.Fill() // the log is read again
	if err := f.Apply(at, ordered(t, 9, others)); err != nil {
		t.Fatal(err)
	}
	f.Swap(State{Version{list, 9}, true, at}, at)
	if !s.Check(ask, at).Allowed.Found() {
		t.Fatal("after another reading the other's order is in force")
	}
	if err := s.Apply(at, ordered(t, 10, mine), ordered(t, 11, others)); err != nil || !s.Check(ask, at).Entry.Found() {
		t.Fatal("the last of the log is not in force", err)
	}
	if err := s.Order(mine, at); err != nil {
		t.Fatal(err)
	}
	f = s.Fill()
	if err := f.Apply(at, ordered(t, 12, mine), ordered(t, 13, others)); err != nil {
		t.Fatal(err)
	}
	f.Swap(State{Version{list, 13}, true, at}, at)
	if !s.Check(ask, at).Entry.Found() || len(s.Pending()) != 0 {
		t.Fatal("an order that a reading brought still waits")
	}
}

func TestJSONComesOver(t *testing.T) {
	s := wholeSet(t, "1.1.1.1", "2.2.2.2")
	var b bytes.Buffer
	if err := s.WriteJSONAfter(&b, Version{}, at, nil); err != nil {
		t.Fatal(err)
	}
	first := `{"v":1,"list":"a-1","version":"a-1.3","as_of":"2018-04-17T06:25:10.995Z"}`
	if got, _, _ := strings.Cut(b.String(), "\n"); got != first {
		t.Errorf("%s, want %s", got, first)
	}
	var want []string
	for e := range s.All(at) {
		text, _ := e.MarshalJSON()
		want = append(want, string(text))
	}
	want = append(want, string(must(allow("10.1.0.0/16").Entry().MarshalJSON())))
	slices.Sort(want)
	got, err := readJSON(b.Bytes())
	slices.Sort(got)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for i := range b.Len() - 1 { // the last line's end may be missing
		if _, err := readJSON(b.Bytes()[:i]); err == nil {
			t.Fatalf("cut at %d of %d it was read", i, b.Len())
		}
	}
	ended := verdict("1.1.1.1")
	ended.Ended = at + 1
	_ = s.Apply(at, record(t, 9, ended), Change{Offset: 10, Key: []byte("x/y")}, Change{Offset: 11, Key: []byte("per-ip/9"), Value: []byte{9}})
	b.Reset()
	if err := s.WriteJSONAfter(&b, Version{list, 3}, at, func(e *Entry) bool { return e.Rule == "per-ip" }); err != nil {
		t.Fatal(err)
	}
	if got, err := readJSON(b.Bytes()); err != nil || len(got) != 1 || !strings.Contains(got[0], `"ended"`) || !strings.Contains(b.String(), `"after":"a-1.3"`) {
		t.Errorf("%v %v", err, b.String())
	}
}

func must(text []byte, _ error) []byte { return text }

func readJSON(b []byte) (all []string, err error) {
	r, err := NewJSONReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, string(must(e.MarshalJSON())))
	}
}

func TestWaitReturnsAtAChange(t *testing.T) {
	s := wholeSet(t, "1.1.1.1")
	v := s.Version()
	for name, change := range map[string]func() error{
		"record": func() error { return s.Apply(at, record(t, 9, verdict("2.2.2.2"))) },
		"order":  func() error { return s.Order(allow("8.8.8.8"), at) },
	} {
		local, done := s.Local(), make(chan struct{})
		go func() {
			defer close(done)
			s.Wait(t.Context(), v, local)
		}()
		if err := change(); err != nil {
			t.Fatal(name, err)
		}
		<-done
		v = s.Version()
	}
}

// A delta ends with a record before which everything is in it, however long the records are.
func TestADeltaHasABound(t *testing.T) {
	s := NewSet(Limits{})
	f := s.Fill()
	f.Swap(State{Version{list, 0}, true, at}, at)
	for i := range int64(10) {
		if err := s.Apply(at, record(t, i+1, verdict(fmt.Sprint(strings.Repeat("k", 200), i)))); err != nil {
			t.Fatal(err)
		}
	}
	for most, want := range map[int]int64{0: 1, 1: 1, 3: 1, 12: 3, 100: 10, 1 << 20: 10} {
		var b bytes.Buffer
		if err := s.WriteSome(&b, Version{list, 0}, at, most); err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(&b)
		if err != nil || r.Header.Version.Offset != want || s.LeadsTo(Version{list, 0}, most).Offset != want {
			t.Errorf("of at most %d: to %d, %v; it should reach %d, %v", most, r.Header.Version.Offset, s.LeadsTo(Version{list, 0}, most), want, err)
		}
	}
}

// A reader of a list as JSON ends, too.
func TestAJSONListWithoutAnEnd(t *testing.T) {
	before := largestJSON
	defer func() { largestJSON = before }()
	set := wholeSet(t, "1.1.1.1", "2.2.2.2", "3.3.3.3")
	var b bytes.Buffer
	if err := set.WriteJSONAfter(&b, Version{}, at, nil); err != nil {
		t.Fatal(err)
	}
	for _, most := range []size{{records: 2}, {bytes: 300}} {
		largestJSON = most
		r, err := NewJSONReader(bytes.NewReader(b.Bytes()))
		for err == nil {
			_, err = r.Next()
		}
		if !errors.Is(err, ErrLarge) {
			t.Errorf("%+v: %v", most, err)
		}
	}
}

// A list that is as large as it may be comes over, and back from the disk, also after its records became longer.
func TestAFullListComesOver(t *testing.T) {
	limits := Limits{Bytes: 4 * chunkBytes}
	full := NewSet(limits)
	for offset := range int64(6000) {
		e := verdict(fmt.Sprintf("10.0.%d.%d", offset%3000>>8, offset%3000&255))
		e.Why = strings.Repeat("x", 300+200*int(offset/3000))
		if err := full.Apply(at, record(t, offset+1, e)); err != nil && !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
	}
	full.Reach(State{Version{list, 6000}, true, at})
	if c := full.list.Load(); full.LeftOut() == 0 || c.bytes() <= limits.Bytes {
		t.Fatalf("%d left out, %d bytes", full.LeftOut(), c.bytes())
	}
	for name, read := range map[string]func(*Set, io.Reader, int64) (Header, error){"followed": (*Set).Read, "kept": (*Set).ReadAll} {
		other := NewSet(limits)
		if _, err := read(other, bytes.NewReader(written(t, full, Version{})), at); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sameLists(t, other, full)
	}
}

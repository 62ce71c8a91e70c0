package blocklist

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
)

func parsed(ip string) netip.Addr { return netip.MustParseAddr(ip) }

func TestCheckAllocatesNothing(t *testing.T) {
	s := wholeSet(t, "1.1.1.1", "2.2.2.2")
	host := allow("x")
	host.Scope, host.Value, host.Kind = "host", "example.org", OrderBlock
	if err := s.Order(host, at); err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]*Asked{
		"a verdict":        {IP: parsed("1.1.1.1"), Keys: []RuleKey{{"per-ip", []byte("1.1.1.1")}, {"login", []byte("x")}}},
		"nothing":          {IP: parsed("3.3.3.3"), User: "alice", Keys: []RuleKey{{"per-ip", []byte("3.3.3.3")}}},
		"a blocked prefix": {IP: parsed("10.2.3.4")},
		"an allowed one":   {IP: parsed("10.1.2.3")},
		"a blocked host":   {Fields: []Field{{"host", "example.org"}}},
		"an IPv4 in IPv6":  {IP: parsed("::ffff:10.2.3.4")},
	} {
		if allocations := testing.AllocsPerRun(100, func() { s.Check(a, at) }); allocations > 0 {
			t.Errorf("%s: %v allocations", name, allocations)
		}
	}
	if !s.Check(&Asked{IP: parsed("::ffff:10.2.3.4")}, at).Entry.Found() {
		t.Error("IPv4 in IPv6 passes")
	}
}

// Looking at a request may take long, and one without an entry is not looked at.
func TestOnlyRequestsWithAnEntryAreLookedAt(t *testing.T) {
	s := wholeSet(t, "1.1.1.1")
	var looked []int
	covered := false
	a := &Asked{
		Keys:    []RuleKey{{"per-ip", []byte("3.3.3.3")}, {"per-ip", []byte("1.1.1.1")}, {"login", []byte("1.1.1.1")}},
		Covered: func(i int) bool { looked = append(looked, i); return covered },
	}
	if s.Check(a, at).Entry.Found() || !slices.Equal(looked, []int{1}) {
		t.Errorf("it looked at %v", looked)
	}
	if covered = true; !s.Check(a, at).Entry.Found() {
		t.Error("a block that covers the request")
	}
}

func TestTheAnswerNamesTheReason(t *testing.T) {
	s := wholeSet(t, "1.1.1.1")
	answer := s.Check(&Asked{Keys: []RuleKey{{"per-ip", []byte("1.1.1.1")}}}, at)
	if h := answer.Entry; h.Rule() != "per-ip" || h.Key() != "1.1.1.1" || h.Until() != at+600_000 || h.Shadow() || h.Order() != nil || h.Entry().ID != "id-1.1.1.1" {
		t.Errorf("%+v", h.Entry())
	}
	if h := s.Check(&Asked{IP: parsed("10.2.3.4")}, at).Entry; h.Rule() != "manual" || h.Key() != "10.0.0.0/8" || h.Until() != Never || h.Order().Kind != OrderBlock || h.Entry().Order != OrderBlock {
		t.Errorf("%+v", h.Entry())
	}
	if s.Check(&Asked{Keys: []RuleKey{{"per-ip", []byte("1.1.1.1")}}}, at+600_000).Entry.Found() {
		t.Error("an entry is in force at its end")
	}
}

// An old owner's late record changes nothing.
func TestALateRecordChangesNothing(t *testing.T) {
	s := wholeSet(t)
	now, late := verdict("1.1.1.1"), verdict("1.1.1.1")
	now.Generation, now.Offset, now.Ended = 2, 10, at
	for i, where := range [][2]int64{{1, 99}, {2, 9}} {
		late.Generation, late.Offset = where[0], where[1]
		if err := s.Apply(at, record(t, 10, now), record(t, 11, late)); err != nil || s.Check(&Asked{Keys: []RuleKey{{"per-ip", []byte("1.1.1.1")}}}, at).Entry.Found() {
			t.Errorf("%d: the late record is in force, %v", i, err)
		}
	}
}

// Hits that waited when a client was let in again lead to blocks that begin before that, with other ids.
func TestAnUnblockEndsOnlyEarlierBlocks(t *testing.T) {
	s := wholeSet(t, "1.1.1.1")
	pardon := &Order{ID: "p", Kind: OrderPardon, Rule: "per-ip", Key: "1.1.1.1", Pardons: "id-1.1.1.1", From: at + 500, Until: Never, By: "ann", Why: "ours"}
	before, after := verdict("1.1.1.1"), verdict("1.1.1.1")
	before.ID, before.From, before.Offset = "before", at+500, 1
	after.ID, after.From, after.Offset = "after", at+501, 2
	asked := &Asked{Keys: []RuleKey{{"per-ip", []byte("1.1.1.1")}}}
	if err := s.Apply(at, ordered(t, 10, pardon), record(t, 11, before)); err != nil || s.Check(asked, at).Entry.Found() {
		t.Error("a block that began before the pardon is in force", err)
	}
	if err := s.Apply(at, record(t, 12, after)); err != nil || !s.Check(asked, at).Entry.Found() {
		t.Error("a block that began after the pardon is not in force", err)
	}
}

func TestEntriesThatDoNotFitAreLeftOut(t *testing.T) {
	s := NewSet(Limits{Entries: 2})
	err := s.Apply(at, record(t, 1, verdict("1.1.1.1")), record(t, 2, verdict("2.2.2.2")), record(t, 3, verdict("3.3.3.3")), record(t, 4, verdict("2.2.2.2")))
	if !errors.Is(err, ErrFull) || s.LeftOut() != 1 {
		t.Fatal(err, s.LeftOut())
	}
	later := verdict("4.4.4.4")
	later.From, later.Until = at+600_000, at+900_000
	if err := s.Apply(at+601_000, record(t, 5, later)); err != nil { // earlier ones have ended, and are forgotten after it
		err = s.Apply(at+601_000, record(t, 5, later))
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Counts(); len(got) != 2 || got[0] != (Count{Rule: "per-ip", Mode: Enforce, Entries: 1}) {
		t.Error(got)
	}
}

// Long records fill a list, too. Those that are there can still change, as when a block ends.
func TestLongEntriesThatDoNotFitAreLeftOut(t *testing.T) {
	s := NewSet(Limits{Bytes: 1 << 20})
	long := func(i int) *Entry {
		e := verdict(fmt.Sprintf("10.0.%d.%d", i>>8, i&255))
		e.Why = strings.Repeat("x", 900)
		return e
	}
	for i := range 3000 {
		if err := s.Apply(at, record(t, int64(i+1), long(i))); err != nil && !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
	}
	if left := s.LeftOut(); left < 1700 || left > 2300 {
		t.Errorf("%d of 3000 left out", left)
	}
	ended := long(0)
	ended.Ended, ended.Offset = at, 4000
	if err := s.Apply(at, record(t, 4000, ended)); err != nil {
		t.Error(err)
	}
}

// In a full list, people can still pause, allow, block and change their minds.
func TestAFullListTakesOrders(t *testing.T) {
	for name, limits := range map[string]Limits{"entries": {Entries: 1000}, "bytes": {Bytes: chunkBytes}} {
		t.Run(name, func(t *testing.T) {
			s := NewSet(limits)
			for i := range int64(3000) {
				_ = s.Apply(at, record(t, i+1, verdict(fmt.Sprintf("10.0.%d.%d", i>>8, i&255))))
			}
			if s.LeftOut() == 0 {
				t.Fatal("it is not full")
			}
			for _, value := range []string{"10.0.0.0/16", "10.1.0.0/16"} {
				for _, days := range []int64{1, 2} {
					o := &Order{ID: fmt.Sprint(value, days), Kind: OrderAllow, Scope: "ip", Value: value, From: at + days, Until: at + days*86_400_000, By: "ann", Why: "mine"}
					if err := s.Order(o, at); err != nil {
						t.Fatal(err)
					}
				}
			}
			if answer := s.Check(&Asked{IP: netip.MustParseAddr("10.0.0.1"), Keys: []RuleKey{{"per-ip", []byte("10.0.0.1")}}}, at+5); !answer.Allowed.Found() {
				t.Error(answer)
			}

			s.Reach(State{Version{list, 3000}, true, at})
			other := NewSet(limits)
			if _, err := other.Read(bytes.NewReader(written(t, s, Version{})), at); err != nil {
				t.Fatal(err)
			}
			sameLists(t, other, s)
		})
	}
}

// Ended records are forgotten gradually, and their room is used again.
func TestRoomIsUsedAgain(t *testing.T) {
	s := NewSet(Limits{})
	now := int64(at)
	for i := range 200_000 {
		e := verdict(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
		e.From, e.Until, e.Decided = now, now+20_000, now
		if err := s.Apply(now, record(t, int64(i), e)); err != nil {
			t.Fatal(err)
		}
		now += 10
	}
	c := s.list.Load()
	chunks := 0
	for _, chunk := range c.view.Load().chunks {
		if chunk != nil {
			chunks++
		}
	}
	if c.held > 2200 || len(c.ends) > 2200 || chunks > 4 || len(c.view.Load().slots) > 8192 {
		t.Errorf("%d records, %d ends, %d chunks, %d slots are held of 2000 entries in force", c.held, len(c.ends), chunks, len(c.view.Load().slots))
	}
}

// Readers see every entry that stays, whatever the writer moves meanwhile.
func TestReadersDuringWrites(t *testing.T) {
	s := wholeSet(t, "1.1.1.1")
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			a := &Asked{IP: parsed("10.2.2.2"), Keys: []RuleKey{{"per-ip", []byte("1.1.1.1")}, {"per-ip", []byte("never")}}}
			for {
				select {
				case <-stop:
					return
				default:
				}
				answer := s.Check(a, at)
				if !answer.Entry.Found() || answer.Entry.Entry() == nil {
					t.Error("an entry was not found")
					return
				}
			}
		})
	}
	for i := range 30_000 {
		e := verdict(fmt.Sprint(i % 7000))
		e.Offset = int64(i)
		if err := s.Apply(at, record(t, int64(i), e)); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 0 {
			for range s.All(at) {
				break
			}
		}
	}
	close(stop)
	readers.Wait()
}

func TestARulePaused(t *testing.T) {
	s := wholeSet(t, "1.1.1.1")
	pause := &Order{ID: "p", Kind: OrderPause, Rule: "per-ip", From: at, Until: at + 1000, By: "ann", Why: "a mistake"}
	a := &Asked{IP: parsed("10.2.2.2"), Keys: []RuleKey{{"per-ip", []byte("1.1.1.1")}}}
	if err := s.Order(pause, at); err != nil {
		t.Fatal(err)
	}
	if got := s.Check(a, at); !got.Paused || got.Entry.Rule() != "manual" {
		t.Errorf("%+v", got)
	}
	if got := s.Check(a, at+1000); got.Paused {
		t.Error("paused at the pause's end")
	}
	all := *pause
	all.ID, all.Rule = "q", EveryRule
	if err := s.Order(&all, at); err != nil {
		t.Fatal(err)
	}
	if got := s.Check(a, at); !got.Paused || got.Entry.Found() {
		t.Errorf("%+v", got)
	}
	all.Ended = at
	if err := s.Order(&all, at); err != nil || s.Check(a, at).Entry.Rule() != "manual" {
		t.Error("the pause that was lifted is in force")
	}
}

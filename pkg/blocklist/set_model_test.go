package blocklist

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/address"
)

// slow is a list written like the documentation: a map of the records, with a look at all of them for each question.
type slow map[string]Record

func (s slow) apply(c Change, now int64) {
	key := string(c.Key)
	r, err := DecodeRecord(c.Key, c.Value)
	switch {
	case err != nil:
	case r.Entry != nil:
		old := s[key].Entry
		if old != nil && s.until(old) > now && (old.Generation > r.Entry.Generation || old.Generation == r.Entry.Generation && old.Offset > r.Entry.Offset) {
			return
		}
		s[key] = r
	default:
		s[key] = r
	}
}

func (s slow) until(e *Entry) int64 { return keepUntil(e.Until, e.Ended) }

func (s slow) entries(now int64) map[string]*Entry {
	found := map[string]*Entry{}
	for key, r := range s {
		if r.Entry == nil || r.Entry.Ended != 0 || r.Entry.Until <= now {
			continue
		}
		pardon := s["manual/pardon/"+key].Order
		if pardon == nil || pardon.Ended != 0 || pardon.Until <= now || pardon.Pardons != r.Entry.ID && r.Entry.From > pardon.From {
			found[key] = r.Entry
		}
	}
	return found
}

func (s slow) orders(now int64) map[string]*Order {
	found := map[string]*Order{}
	for key, r := range s {
		if r.Order != nil && r.Order.Ended == 0 && r.Order.Until > now {
			found[key] = r.Order
		}
	}
	return found
}

// shown is an answer that can be compared. It has all possible entries, because several may last equally long.
type shown struct {
	Entry, Shadow, Allowed bool
	Until, ShadowUntil     int64
	Paused                 bool
}

func (s slow) check(a *Asked, now int64) (answer shown) {
	orders := s.orders(now)
	if orders["manual/pause/*"] != nil {
		return shown{Paused: true}
	}
	var block *Order // of addresses: the longest prefix
	for _, o := range orders {
		covers := o.Scope == scopeUser && o.Value == a.User || o.Scope == scopeIP && o.Prefix().Contains(a.IP)
		for _, f := range a.Fields {
			covers = covers || o.Scope == f.Name && o.Value == f.Value
		}
		switch {
		case !covers:
		case o.Kind == OrderAllow:
			return shown{Allowed: true}
		case orders["manual/pause/manual/"+o.Scope] != nil:
		case o.Scope == scopeIP && (block == nil || o.Prefix().Bits() > block.Prefix().Bits()):
			block = o
		case o.Scope != scopeIP:
			answer.Entry, answer.Until = true, max(answer.Until, o.Until)
		}
	}
	if block != nil {
		answer.Entry, answer.Until = true, max(answer.Until, block.Until)
	}
	entries := s.entries(now)
	for _, k := range a.Keys {
		e := entries[k.Rule+"/"+string(k.Key)]
		switch {
		case e == nil:
		case e.Mode == Shadow:
			answer.Shadow, answer.ShadowUntil = true, max(answer.ShadowUntil, e.Until)
		case orders["manual/pause/"+e.Rule] != nil:
			answer.Paused = true
		default:
			answer.Entry, answer.Until = true, max(answer.Until, e.Until)
		}
	}
	return answer
}

func show(a Answer) shown {
	s := shown{Entry: a.Entry.Found(), Shadow: a.Shadow.Found(), Allowed: a.Allowed.Found(), Paused: a.Paused}
	if s.Entry {
		s.Until = a.Entry.Until()
	}
	if s.Shadow {
		s.ShadowUntil = a.Shadow.Until()
	}
	return s
}

// A world makes records and requests of few rules, users and addresses, so that they meet.
type world struct {
	*rand.Rand
	now    int64
	offset int64
}

func (w *world) address() netip.Addr {
	if w.IntN(4) == 0 {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 7: byte(w.IntN(2)), 15: byte(w.IntN(3))})
	}
	return netip.AddrFrom4([4]byte{10, byte(w.IntN(2)), byte(w.IntN(2)), byte(w.IntN(4))})
}

func (w *world) rule() string { return []string{"a", "b", "c"}[w.IntN(3)] }
func (w *world) user() string { return []string{"alice", "bob", "m/a"}[w.IntN(3)] }

func (w *world) until() int64 { return w.now + 1 + w.Int64N(20_000) }

func (w *world) entry() *Entry {
	e := &Entry{Rule: w.rule(), By: "weir", From: w.now - w.Int64N(1000), Until: w.until(), Decided: w.now, Mode: Mode(w.IntN(4) / 3),
		Generation: w.Int64N(2), Offset: w.Int64N(50)}
	if w.IntN(3) == 0 {
		e.Key = w.user()
		e.Fields = map[string]string{"user": e.Key}
	} else {
		e.Key = w.address().String()
		e.Fields = map[string]string{"ip": e.Key}
	}
	e.ID = fmt.Sprint(e.Rule, e.Key, w.IntN(2))
	switch w.IntN(8) {
	case 0:
		e.Ended = w.now
	case 1:
		e.Until = Never
	}
	return e
}

func (w *world) order() *Order {
	o := &Order{ID: fmt.Sprint(w.Uint64()), Kind: OrderBlock, From: w.now, Until: w.until(), By: "x", Why: "y"}
	switch w.IntN(6) {
	case 0:
		o.Kind, o.Rule = OrderPause, []string{"a", "b", "*", "c"}[w.IntN(4)]
	case 1:
		e := w.entry()
		o.Kind, o.Rule, o.Key, o.Pardons, o.Until = OrderPardon, e.Rule, e.Key, e.ID, Never
	case 2:
		o.Scope, o.Value = "user", w.user()
	case 3:
		o.Scope, o.Value = "host", "example.org"
	default:
		single := w.address()
		o.Scope, o.Value = "ip", address.Text(netip.PrefixFrom(single, single.BitLen()-w.IntN(3)*8).Masked())
	}
	if o.Scope != "" && w.IntN(3) == 0 {
		o.Kind = OrderAllow
	}
	if w.IntN(3) == 0 {
		o.Ended = w.now
	}
	return o
}

func (w *world) change(t *testing.T) Change {
	w.offset++
	c := Change{Offset: w.offset}
	var err error
	if w.IntN(3) > 0 {
		e := w.entry()
		c.Key = RecordKey(e.Rule, e.Key)
		c.Value, err = e.Append(nil)
	} else {
		o := w.order()
		c.Key = o.RecordKey()
		c.Value, err = o.Append(nil)
	}
	if w.IntN(10) == 0 {
		c.Value = nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) asked() *Asked {
	a := &Asked{IP: w.address(), User: w.user()}
	for _, rule := range []string{"a", "b", "c"} {
		a.Keys = append(a.Keys, RuleKey{rule, []byte(a.IP.String())}, RuleKey{rule, []byte(a.User)})
	}
	if w.IntN(2) == 0 {
		a.Fields = []Field{{"host", "example.org"}}
	}
	return a
}

// TestSetModel compares a Set with the slow list: after each record, as time goes on, for every question.
func TestSetModel(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), now: at}
			s, twin := NewSet(Limits{}), slow{}
			for step := range 2000 {
				c := w.change(t)
				if err := s.Apply(w.now, c); err != nil {
					t.Fatal(err)
				}
				twin.apply(c, w.now)
				if w.IntN(4) == 0 {
					w.now += w.Int64N(1500)
				}
				compareChecks(t, w, s, twin)
				if step%100 == 0 {
					compareLists(t, w, s, twin)
				}
			}
			if s.Version().Offset != w.offset {
				t.Errorf("the version is %v after record %d", s.Version(), w.offset)
			}
		})
	}
}

func compareChecks(t *testing.T, w *world, s *Set, twin slow) {
	t.Helper()
	for range 4 {
		a := w.asked()
		if got, want := show(s.Check(a, w.now)), twin.check(a, w.now); got != want {
			t.Fatalf("after record %d, of %v:\ngot  %+v\nwant %+v", w.offset, a, got, want)
		}
	}
}

func compareLists(t *testing.T, w *world, s *Set, twin slow) {
	t.Helper()
	entries, orders := twin.entries(w.now), twin.orders(w.now)
	gotOrders := map[string]*Order{}
	for o := range s.Orders(w.now) {
		gotOrders[string(o.RecordKey())] = o
	}
	if diff := cmp.Diff(orders, gotOrders); diff != "" {
		t.Fatal(diff)
	}
	got, want := map[string]*Entry{}, entries
	for key, o := range orders {
		if o.Kind == OrderBlock {
			want[key] = o.Entry()
		}
	}
	counted := 0
	for e := range s.All(w.now) {
		key := e.Rule + "/" + e.Key
		if e.Order != 0 {
			for scope := range e.Fields {
				key = "manual/" + scope + "/" + e.Key
			}
		}
		got[key] = e
		counted++
	}
	if diff := cmp.Diff(want, got); diff != "" || counted != len(got) {
		t.Fatal(diff, counted)
	}
	compareFind(t, w, s, want, orders)
}

func compareFind(t *testing.T, w *world, s *Set, entries map[string]*Entry, orders map[string]*Order) {
	t.Helper()
	for _, text := range []string{w.address().String(), "10.0.0.0/15", "user:" + w.user(), w.user(), "host:example.org"} {
		var got, want []string
		for r := range s.Find(text, w.now) {
			if r.Order != nil {
				got = append(got, string(r.Order.RecordKey()))
			} else {
				got = append(got, r.Entry.Rule+"/"+r.Entry.Key)
			}
		}
		for key, e := range entries {
			if e.Order == 0 && finds(text, e) {
				want = append(want, key)
			}
		}
		for key, o := range orders {
			if finds(text, o.Entry()) {
				want = append(want, key)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", text, got, want)
		}
	}
}

func finds(text string, e *Entry) bool {
	if e.Key == text {
		return true
	}
	wanted, err := address.Parse(text)
	for name, value := range e.Fields {
		field, bad := address.Parse(value)
		if name+":"+value == text || err == nil && name == "ip" && bad == nil && wanted.Overlaps(field) {
			return true
		}
	}
	return strings.Contains(text, "\x00")
}

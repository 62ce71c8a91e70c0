package blocklist

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/netip"
	"testing"

	"github.com/cespare/xxhash/v2"
)

func guardedEntry(key string) *Entry {
	e := entry()
	e.Key, e.ID = key, "id-"+key
	e.Fields = map[string]string{"ip": key}
	e.Mode, e.Guarded = Shadow, true
	return e
}

// A program that does not know guards must not enforce a guarded entry. For it the value is of a later version, which it
// leaves out: the version is not its own, and the value ends with a checksum.
func TestAGuardedEntryIsOfALaterVersion(t *testing.T) {
	for _, byShare := range []bool{false, true} {
		e := guardedEntry("203.0.113.7")
		e.ByShare = byShare
		isOfALaterVersion(t, e, map[bool]byte{false: 2, true: 3}[byShare])
	}
}

func isOfALaterVersion(t *testing.T, e *Entry, version byte) {
	value, err := e.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if value[0] != version || !sealed(value) {
		t.Errorf("%x", value)
	}
	other := append([]byte{5 - version}, value[1:len(value)-8]...) // the flags are of the other version
	if _, err := Decode(RecordKey(e.Rule, e.Key), binary.LittleEndian.AppendUint64(other, xxhash.Sum64(other))); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v, want %v", err, ErrDamaged)
	}
	if err := checkVersion(value, 2); !errors.Is(err, ErrNewer) { // as programs read it that know version 1
		t.Errorf("%v, want %v", err, ErrNewer)
	}
	got, err := Decode(RecordKey(e.Rule, e.Key), value)
	if err != nil || !got.Guarded || got.ByShare != e.ByShare || got.Mode != Shadow || got.Count != e.Count {
		t.Errorf("%+v %v, want %+v", got, err, e)
	}
	for cut := range value {
		if _, err := Decode(RecordKey(e.Rule, e.Key), value[:cut]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}

	text, err := json.Marshal(e)
	var shown Entry
	if err != nil || json.Unmarshal(text, &shown) != nil || !shown.Guarded || shown.ByShare != e.ByShare || !bytes.Contains(text, []byte(`"guarded_by":"`+GuardedBy(e.ByShare)+`"`)) || shown.Mode != Shadow {
		t.Errorf("%s %v", text, err)
	}
	plain := entry()
	if text, _ := json.Marshal(plain); containsGuarded(text) {
		t.Errorf("%s", text)
	}

	e.Mode = Enforce
	if _, err := e.Append(nil); !errors.Is(err, ErrEntry) {
		t.Errorf("%v, want %v", err, ErrEntry)
	}
}

func containsGuarded(text []byte) bool {
	var members map[string]any
	_ = json.Unmarshal(text, &members)
	_, has := members["guarded"]
	return has
}

// A block that the guard lets through takes the place of the key's guarded entry, also when the guarded one comes again.
func TestABlockReplacesAGuardedEntry(t *testing.T) {
	s := NewSet(Limits{})
	guarded := guardedEntry("203.0.113.7")
	block := *guarded
	block.ID, block.From, block.Until, block.Offset, block.Mode, block.Guarded = "another", guarded.From+60_000, guarded.Until+60_000, guarded.Offset+1, Enforce, false
	now := block.From + 1
	asked := &Asked{IP: netip.MustParseAddr(guarded.Key), Keys: []RuleKey{{guarded.Rule, []byte(guarded.Key)}}}
	for i, one := range []*Entry{guarded, &block, guarded} {
		value, err := one.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(now, Change{Offset: int64(i), Key: RecordKey(one.Rule, one.Key), Value: value}); err != nil {
			t.Fatal(err)
		}
		answer, rules := s.Check(asked, now), s.Guarded(now)
		if refuses := i > 0; answer.Entry.Found() != refuses || answer.Shadow.Found() == refuses || len(rules) == 0 != refuses {
			t.Errorf("record %d: %v, shadow %v, guarded %+v", i, answer.Entry.Found(), answer.Shadow.Found(), rules)
		}
	}
}

// Guarded entries refuse no one, until a person confirms their rule, and only as long as that lasts.
func TestGuardedEntriesAreEnforcedWhileTheirRuleIsConfirmed(t *testing.T) {
	s := NewSet(Limits{})
	e, other := guardedEntry("203.0.113.7"), guardedEntry("203.0.113.8")
	other.Rule = "other"
	plain := entry()
	plain.Key, plain.Fields = "203.0.113.9", map[string]string{"ip": "203.0.113.9"}
	var changes []Change
	for i, one := range []*Entry{e, other, plain} {
		value, err := one.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, Change{Offset: int64(i), Key: RecordKey(one.Rule, one.Key), Value: value})
	}
	now := e.From + 1
	if err := s.Apply(now, changes...); err != nil {
		t.Fatal(err)
	}
	asks := func(one *Entry) *Asked {
		return &Asked{IP: netip.MustParseAddr(one.Key), Keys: []RuleKey{{one.Rule, []byte(one.Key)}}}
	}
	wants := func(at int64, refuses map[*Entry]bool) {
		t.Helper()
		modes := map[string]Mode{}
		for one := range s.All(at) {
			modes[one.Key] = one.Mode
			if one.Guarded != (one.Key != plain.Key) {
				t.Errorf("%+v", one)
			}
		}
		for one, refused := range refuses {
			answer := s.Check(asks(one), at)
			if answer.Entry.Found() != refused || answer.Shadow.Found() == refused || (modes[one.Key] == Enforce) != refused {
				t.Errorf("at %d, %s: %v, shadow %v, mode %v; want %v", at, one.Key, answer.Entry.Found(), answer.Shadow.Found(), modes[one.Key], refused)
			}
		}
	}

	wants(now, map[*Entry]bool{e: false, other: false, plain: true})
	if got := s.Guarded(now); len(got) != 2 || got[0] != (GuardedRule{Rule: "per-ip", Entries: 1}) {
		t.Errorf("%+v", got)
	}
	confirm := &Order{ID: "c", Kind: OrderConfirm, Rule: "per-ip", From: now, Until: now + 1000, By: "ann", Why: "an attack"}
	edits := s.Edits()
	if err := s.Order(confirm, now); err != nil {
		t.Fatal(err)
	}
	if s.Edits() == edits {
		t.Error("readers that keep the list do not see that it refuses others")
	}
	wants(now, map[*Entry]bool{e: true, other: false, plain: true})
	wants(now+1000, map[*Entry]bool{e: false, other: false, plain: true})
	if got := s.Guarded(now); len(got) != 2 || got[0].ConfirmedUntil != confirm.Until {
		t.Errorf("%+v", got)
	}

	// A pause beats a confirmation.
	pause := &Order{ID: "p", Kind: OrderPause, Rule: "per-ip", From: now, Until: now + 1000, By: "ann", Why: "a mistake"}
	if err := s.Order(pause, now); err != nil {
		t.Fatal(err)
	}
	if answer := s.Check(asks(e), now); answer.Entry.Found() || !answer.Paused {
		t.Errorf("%+v", answer)
	}
	pause.ID, pause.Ended = "p2", now
	confirm.ID, confirm.Ended = "c2", now
	for _, lifted := range []*Order{pause, confirm} {
		if err := s.Order(lifted, now); err != nil {
			t.Fatal(err)
		}
	}
	wants(now, map[*Entry]bool{e: false, other: false, plain: true})
}

func TestAConfirmationIsOfOneRule(t *testing.T) {
	o := &Order{ID: "c", Kind: OrderConfirm, Rule: "per-ip", From: 1, Until: Never, By: "ann", Why: "an attack"}
	value, err := o.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	record, err := DecodeRecord(o.RecordKey(), value)
	if err != nil || *record.Order != *o {
		t.Errorf("%+v %v, want %+v", record.Order, err, o)
	}
	if e := o.Entry(); e.Key != "per-ip" || e.Order != OrderConfirm || e.Fields["rule"] != "per-ip" {
		t.Errorf("%+v", e)
	}
	for _, rule := range []string{"", EveryRule, "a/b"} {
		o.Rule = rule
		if _, err := o.Append(nil); !errors.Is(err, ErrOrder) {
			t.Errorf("%q: %v", rule, err)
		}
	}
}

// Followers of an enforcer get guarded entries and confirmations as it has them: in a snapshot, and as changes.
func TestFollowersOfGuardedEntries(t *testing.T) {
	e := guardedEntry("203.0.113.7")
	value, err := e.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	now, of := e.From+1, ListID{Name: "l", Epoch: 1}
	s, follower := NewSet(Limits{}), NewSet(Limits{})
	if err := s.Apply(now, Change{Offset: 1, Key: RecordKey(e.Rule, e.Key), Value: value}); err != nil {
		t.Fatal(err)
	}
	s.Reach(State{Version: Version{of, 1}, Whole: true, AsOf: now})
	refuses := func(want bool) {
		t.Helper()
		var b bytes.Buffer
		if err := s.WriteAfter(&b, follower.Version(), now); err != nil {
			t.Fatal(err)
		}
		if _, err := follower.Read(&b, now); err != nil {
			t.Fatal(err)
		}
		answer := follower.Check(&Asked{Keys: []RuleKey{{e.Rule, []byte(e.Key)}}}, now)
		if answer.Entry.Found() != want || answer.Shadow.Found() == want {
			t.Errorf("refused is %v, shadow %v, want %v", answer.Entry.Found(), answer.Shadow.Found(), want)
		}
	}
	refuses(false)

	o := &Order{ID: "c", Kind: OrderConfirm, Rule: e.Rule, From: now, Until: now + 1000, By: "ann", Why: "an attack"}
	for offset, ended := range []int64{0, now} {
		o.Ended = ended
		value, err := o.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(now, Change{Offset: 2 + int64(offset), Key: o.RecordKey(), Value: value}); err != nil {
			t.Fatal(err)
		}
		refuses(ended == 0)
	}
}

// The numbers of a rule follow its entries, and tell which bound of the guard they exceed.
func TestWhichBoundIsExceeded(t *testing.T) {
	s := NewSet(Limits{})
	now, offset := int64(0), int64(0)
	apply := func(e *Entry) {
		t.Helper()
		value, err := e.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		now = e.From + 1
		if err := s.Apply(now, Change{Offset: offset, Key: RecordKey(e.Rule, e.Key), Value: value}); err != nil {
			t.Fatal(err)
		}
		offset++
	}
	first, second := guardedEntry("203.0.113.7"), guardedEntry("203.0.113.8")
	second.ByShare = true
	apply(first)
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "most_new"},
		{func() { apply(second) }, "most_new, 1 of them most_share"},
		{func() { first.Ended = now; apply(first) }, "most_share"},
	} {
		step.change()
		if got := s.Guarded(now); len(got) != 1 || got[0].Beyond() != step.want {
			t.Errorf("%+v, want %s", got, step.want)
		}
	}
}

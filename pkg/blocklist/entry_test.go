package blocklist

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"
)

const at = 1523946311_000 // 2018-04-17T06:25:11Z

// entry is a typical verdict.
func entry() *Entry {
	return &Entry{
		ID: "a8db0922c11bcce6", Rule: "per-ip", Key: "203.0.113.7", Fields: map[string]string{"ip": "203.0.113.7"},
		From: at, Until: at + 600_000, Decided: at + 5, Limit: "10/min", Count: 11, Level: 1, By: "weir", Generation: 1, Offset: 4711,
	}
}

// entries are of all kinds.
func entries() []*Entry {
	ended := entry()
	ended.Ended, ended.Mode = at+1, Shadow
	ordered := entry()
	ordered.Until, ordered.Source, ordered.By, ordered.Why, ordered.Limit, ordered.Count, ordered.Level = Never, Manual, "alice", "she <asked> & \"why\"", "", 0, 0
	pair := entry()
	pair.Rule, pair.Key, pair.Fields = "login", `al\x20ice /login`, map[string]string{"user": "al ice", "path": "/login"}
	bare := &Entry{ID: "x", Rule: "r", Key: "/", From: 0, Until: 1}
	return []*Entry{entry(), ended, ordered, pair, bare}
}

func TestEntryComesBack(t *testing.T) {
	for _, e := range entries() {
		value, err := e.Append([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(RecordKey(e.Rule, e.Key), value[len("before"):])
		if diff := cmp.Diff(e, got); err != nil || diff != "" {
			t.Errorf("%v: %v, %s", e, err, diff)
		}
	}
}

// The bytes must not change: topics contain them.
func TestBytesStay(t *testing.T) {
	for i, want := range []string{
		"0100106138646230393232633131626363653601e724b0b5baa4da58c0cf240a0631302f6d696e0b010477656972000102697000",
		"0105106138646230393232633131626363653601e724b0b5baa4da58c0cf240a020631302f6d696e0b010477656972000102697000",
		"010a106138646230393232633131626363653601e724b0b5baa4da580a00000005616c69636513736865203c61736b65643e20262022776879220102697000",
		"0100106138646230393232633131626363653601e724b0b5baa4da58c0cf240a0631302f6d696e0b01047765697200020470617468072f6c6f67696e047573657207616c20696365",
		"010001780000000100000000000000",
	} {
		value, err := entries()[i].Append(nil)
		if got := hex.EncodeToString(value); err != nil || got != want {
			t.Errorf("entry %d: %v\ngot  %s\nwant %s", i, err, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	e := entry()
	e.ID = ID(e.Rule, e.Key, e.From, e.Level)
	value, err := e.Append(nil)
	if key := RecordKey("per-ip", "203.0.113.7"); err != nil || len(value) > 60 || len(key) > 20 {
		t.Errorf("%d bytes and %d of the key, %v", len(value), len(key), err)
	}
}

func TestJSON(t *testing.T) {
	for i, want := range []string{
		`{"v":1,"id":"ID","rule":"per-ip","key":"203.0.113.7","fields":{"ip":"203.0.113.7"},"from":"2018-04-17T06:25:11Z","until":"2018-04-17T06:35:11Z","decided":"2018-04-17T06:25:11.005Z","limit":"10/min","count":11,"level":1,"mode":"enforce","source":"verdict","by":"weir","why":""}`,
		`{"v":1,"id":"ID","rule":"per-ip","key":"203.0.113.7","fields":{"ip":"203.0.113.7"},"from":"2018-04-17T06:25:11Z","until":"2018-04-17T06:35:11Z","decided":"2018-04-17T06:25:11.005Z","limit":"10/min","count":11,"level":1,"mode":"shadow","source":"verdict","by":"weir","why":"","ended":"2018-04-17T06:25:11.001Z"}`,
		`{"v":1,"id":"ID","rule":"per-ip","key":"203.0.113.7","fields":{"ip":"203.0.113.7"},"from":"2018-04-17T06:25:11Z","until":"9999-12-31T23:59:59Z","decided":"2018-04-17T06:25:11.005Z","limit":"","count":0,"level":0,"mode":"enforce","source":"manual","by":"alice","why":"she \u003casked\u003e \u0026 \"why\""}`,
	} {
		e := entries()[i]
		got, err := json.Marshal(e)
		if text := strings.Replace(string(got), e.ID, "ID", 1); err != nil || text != want {
			t.Errorf("%v\ngot  %s\nwant %s", err, text, want)
		}
	}
	if got, err := json.Marshal(&Entry{}); err != nil || !strings.Contains(string(got), `"fields":{}`) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestIDTellsEntriesApart(t *testing.T) {
	seen := map[string]bool{}
	for _, rule := range []string{"a", "ab", ""} {
		for _, key := range []string{"b", "", "ab"} {
			for _, from := range []int64{0, 1, at} {
				for _, level := range []int{0, 1, 2} {
					seen[ID(rule, key, from, level)] = true
				}
			}
		}
	}
	if len(seen) != 81 || len(ID("a", "b", 1, 1)) != 24 {
		t.Errorf("%d of 81 ids", len(seen))
	}
}

// Clients choose keys. These two have the same xxhash64 at every instant and level: with one id, the events of the second
// user would have been left out wherever events are known by their id.
func TestKeysCannotBeMadeToShareAnID(t *testing.T) {
	const pad, rest = "uxxxxxxxxxxxxxxxxxxxxxx", "0123456789abcdef01234567"
	one, other := pad+"O3OeqxuB"+rest+"noHbr1XZ"+rest, pad+"bPy8cq6E"+rest+"OSusnNCt"+rest
	if ID("per-user", one, at, 1) == ID("per-user", other, at, 1) {
		t.Errorf("%s and %s have the same id", one, other)
	}
}

// A key that a client chooses does not stand for an address or for another field.
func TestTarget(t *testing.T) {
	ofUser := map[string]string{"user": ""} // the key
	for _, c := range []struct {
		key    string
		fields map[string]string
		order  Kind
		want   string
	}{
		{"203.0.113.7", map[string]string{"ip": "203.0.113.7"}, 0, "203.0.113.7"},
		{"2001:db8::/64", map[string]string{"ip": "2001:db8::/64"}, 0, "2001:db8::/64"},
		{"alice", ofUser, 0, "alice"},
		{"203.0.113.0/24", ofUser, 0, "user:203.0.113.0/24"},
		{"::/0", ofUser, 0, "user:::/0"},
		{"ip:203.0.113.7", ofUser, 0, "user:ip:203.0.113.7"},
		{"user:alice", ofUser, 0, "user:user:alice"},
		{`a\x0a:b`, map[string]string{"user": "a\n:b"}, 0, `a\x0a:b`},
		{"203.0.113.7 /login", map[string]string{"ip": "203.0.113.7", "path": "/login"}, 0, "203.0.113.7 /login"},
		{"alice", ofUser, OrderBlock, "user:alice"},
		{"203.0.113.7", map[string]string{"ip": "203.0.113.7"}, OrderAllow, "203.0.113.7"},
		{"per-ip", map[string]string{"rule": "per-ip"}, OrderPause, "per-ip"},
	} {
		e := &Entry{Key: c.key, Fields: c.fields, Order: c.order}
		if user, ok := c.fields["user"]; ok && user == "" {
			e.Fields = map[string]string{"user": c.key}
		}
		if got := e.Target(); got != c.want {
			t.Errorf("%s of %v is shown as %s, expected %s", c.key, c.fields, got, c.want)
		}
	}
}

func TestImpossibleEntriesAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Entry){
		"no id":           func(e *Entry) { e.ID = "" },
		"no rule":         func(e *Entry) { e.Rule = "" },
		"no key":          func(e *Entry) { e.Key = "" },
		"long key":        func(e *Entry) { e.Key = strings.Repeat("k", maxKey+1) },
		"until":           func(e *Entry) { e.Until = e.From },
		"far until":       func(e *Entry) { e.Until = 2 * maxTime },
		"from":            func(e *Entry) { e.From = -1 },
		"decided":         func(e *Entry) { e.Decided = maxTime },
		"ended":           func(e *Entry) { e.Ended = -1 },
		"count":           func(e *Entry) { e.Count = -1 },
		"level":           func(e *Entry) { e.Level = maxLevel + 1 },
		"offset":          func(e *Entry) { e.Offset = -1 },
		"mode":            func(e *Entry) { e.Mode = 2 },
		"why":             func(e *Entry) { e.Why = strings.Repeat("w", maxWhy+1) },
		"field's name":    func(e *Entry) { e.Fields = map[string]string{"": "x"} },
		"share, no guard": func(e *Entry) { e.Mode, e.ByShare = Shadow, true },
		"too many fields": func(e *Entry) { e.Fields = manyFields(maxFields+1, 1) },
		"too many bytes":  func(e *Entry) { e.Fields = manyFields(maxFields, maxKey) },
	} {
		e := entry()
		change(e)
		if b, err := e.Append([]byte("x")); !errors.Is(err, ErrEntry) || string(b) != "x" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

func manyFields(count, length int) map[string]string {
	fields := map[string]string{}
	for i := range count {
		fields[strings.Repeat("n", i+1)] = strings.Repeat("v", length)
	}
	return fields
}

func TestDecodeRefuses(t *testing.T) {
	value, _ := entry().Append(nil)
	key := RecordKey("per-ip", "203.0.113.7")
	for cut := range value {
		if _, err := Decode(key, value[:cut]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	unsealed := append([]byte{sharedVersion + 1}, value[1:]...)
	newer := binary.LittleEndian.AppendUint64(bytes.Clone(unsealed), xxhash.Sum64(unsealed))
	unguarded := append([]byte{guardedVersion}, value[1:]...) // with its checksum, but without the flag
	unguarded = binary.LittleEndian.AppendUint64(unguarded, xxhash.Sum64(unguarded))
	for _, test := range []struct {
		key, value []byte
		want       error
	}{
		{key, newer, ErrNewer},
		{key, unsealed, ErrDamaged},
		{key, unguarded, ErrDamaged},
		{key, []byte(`{"hello":1}`), ErrDamaged},
		{key, append(value[:len(value):len(value)], 0), ErrDamaged},
		{key, make([]byte, MaxBytes+1), ErrDamaged},
		{key, append([]byte{RecordVersion, flags + 1}, value[2:]...), ErrDamaged},
		{[]byte("manual/ip/203.0.113.7"), value, ErrNewer},
		{[]byte("/mark/3"), value, ErrNewer},
		{[]byte("per-ip"), value, ErrDamaged},
		{[]byte("per-ip/"), value, ErrDamaged},
		{nil, value, ErrDamaged},
		{make([]byte, MaxBytes+1), value, ErrDamaged},
	} {
		if e, err := Decode(test.key, test.value); !errors.Is(err, test.want) || e != nil {
			t.Errorf("%.40q: %v, want %v", test.key, err, test.want)
		}
	}
}

func TestDecodeAllocatesLittle(t *testing.T) {
	value, _ := entry().Append(nil)
	key := RecordKey("per-ip", "203.0.113.7")
	allocations := testing.AllocsPerRun(100, func() {
		if e, _ := Decode(key, value); len(e.Fields) == 0 {
			t.Fatal("no fields")
		}
	})
	if allocations > 12 {
		t.Errorf("%v allocations", allocations)
	}
}

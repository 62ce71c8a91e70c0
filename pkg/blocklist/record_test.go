package blocklist

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func orders() []*Order {
	block, lifted := allow("10.0.0.0/8"), allow("alice")
	block.Kind = OrderBlock
	lifted.Scope, lifted.Ended, lifted.Until = "user", at+1, at+9
	return []*Order{allow("203.0.113.7"), block, lifted,
		{ID: "p", Kind: OrderPause, Rule: EveryRule, From: at, Until: at + 1, By: "ann", Why: "a mistake"},
		{ID: "q", Kind: OrderPardon, Rule: "per-ip", Key: "a/b c", Pardons: "6dbd0922c11bbcc6", From: at, Until: Never, By: "ann", Why: "ours"}}
}

func someMark() *Mark {
	return &Mark{List: list, Partition: 3, Partitions: 16, Generation: 2, Offset: 4711, Reached: at - 5, At: at, Since: 100}
}

func TestRecordsComeBack(t *testing.T) {
	for _, o := range orders() {
		c := ordered(t, 0, o)
		got, err := DecodeRecord(c.Key, c.Value)
		if diff := cmp.Diff(Record{Order: o}, got); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
	value, err := someMark().Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeRecord([]byte("/mark/3"), value)
	if diff := cmp.Diff(Record{Mark: someMark()}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	c := record(t, 0, entry())
	if got, err := DecodeRecord(c.Key, c.Value); err != nil || got.Entry == nil {
		t.Error(err)
	}
	if got, err := DecodeRecord(c.Key, nil); err != nil || got != (Record{}) {
		t.Error(got, err)
	}
}

// The bytes must not change: topics contain them.
func TestOrdersBytesStay(t *testing.T) {
	wants := []string{
		"manual/ip/203.0.113.7 010a0211616c6c6f772d3230332e302e3131332e37b0b5baa4da5803616e6e046f757273",
		"manual/ip/10.0.0.0/8 010a0110616c6c6f772d31302e302e302e302f38b0b5baa4da5803616e6e046f757273",
		"manual/user/alice 0106020b616c6c6f772d616c696365b0b5baa4da58090203616e6e046f757273",
		"manual/pause/* 0102040170b0b5baa4da580103616e6e0961206d697374616b65",
		"manual/pardon/per-ip/a/b c 010a030171b0b5baa4da5803616e6e046f7572731036646264303932326331316262636336",
	}
	for i, o := range orders() {
		c := ordered(t, 0, o)
		if got := string(c.Key) + " " + hex.EncodeToString(c.Value); got != wants[i] {
			t.Errorf("got  %s\nwant %s", got, wants[i])
		}
	}
	value, _ := someMark().Append(nil)
	if got, want := hex.EncodeToString(value), "01016101"+"1002e724a6b5baa4da58b0b5baa4da5864"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestOrdersThatCannotBe(t *testing.T) {
	for name, change := range map[string]func(*Order){
		"no id":          func(o *Order) { o.ID = "" },
		"nobody":         func(o *Order) { o.By = "" },
		"no why":         func(o *Order) { o.Why = "" },
		"no kind":        func(o *Order) { o.Kind = 0 },
		"over at once":   func(o *Order) { o.Until = o.From },
		"no address":     func(o *Order) { o.Value = "alice" },
		"not canonical":  func(o *Order) { o.Value = "10.0.0.1/8" },
		"a word of ours": func(o *Order) { o.Scope, o.Value = "pause", "x" },
		"no field":       func(o *Order) { o.Scope = "a/b" },
		"a rule too":     func(o *Order) { o.Rule = "per-ip" },
		"pause of none":  func(o *Order) { o.Kind = OrderPause },
		"bare pardon":    func(o *Order) { o.Kind, o.Scope, o.Value, o.Rule = OrderPardon, "", "", "per-ip" },
	} {
		o := allow("10.0.0.0/8")
		change(o)
		if _, err := o.Append(nil); !errors.Is(err, ErrOrder) {
			t.Errorf("%s: %v", name, err)
		}
		if err := NewSet(Limits{}).Order(o, at); !errors.Is(err, ErrOrder) {
			t.Errorf("%s in a set: %v", name, err)
		}
	}
	m := someMark()
	m.Partition = 16
	if _, err := m.Append(nil); !errors.Is(err, ErrMark) {
		t.Error(err)
	}
}

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.7": "ip 203.0.113.7", "10.1.2.3/8": "ip 10.0.0.0/8", "2001:DB8::5": "ip 2001:db8::5", "2001:db8::5/64": "ip 2001:db8::/64",
		"::ffff:1.2.3.4": "ip 1.2.3.4", "::ffff:1.2.3.4/120": "ip 1.2.3.0/24", "1.2.3.4/32": "ip 1.2.3.4", "ip:1.2.3.4": "ip 1.2.3.4",
		"64:ff9b::203.0.113.7": "ip 203.0.113.7", "2002:cb00:7107::/48": "ip 203.0.113.7", "path:/x/..//%73ignin": "path /signin", "path:/100%": "path /100%",
		"user:alice": "user alice", "user:a:b": "user a:b", "host:Example.org.": "host example.org", "user:1.2.3.4": "user 1.2.3.4",
		" user:alice ": "user alice ", "user: alice": "user  alice", " 203.0.113.7 ": "ip 203.0.113.7", "ip: 203.0.113.7 ": "ip 203.0.113.7", "host:example.org ": "host example.org",
		"": "", "alice": "", "user:": "", "ip:x": "", "pause:x": "", "a/b:c": "", "1.2.3.4/33": "",
	} {
		scope, value, err := ParseTarget(text)
		if got := strings.TrimLeft(scope+" "+value, " "); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
		if err == nil {
			if _, err := (&Order{ID: "x", Kind: OrderBlock, Scope: scope, Value: value, Until: 1, By: "x", Why: "y"}).Append(nil); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestVersions(t *testing.T) {
	for _, text := range []string{"", "a-0.0", "my-list-1700000000000.4711"} {
		v, err := ParseVersion(text)
		if err != nil || v.String() != text {
			t.Errorf("%q: %q, %v", text, v, err)
		}
	}
	for _, text := range []string{"x", "a-1", "a-1.", "a-1.-1", "a-1.01", "a.1", "-1.1", "a b-1.1", "a--1.1"} {
		if v, err := ParseVersion(text); err == nil && v.String() != text || text == "x" && err == nil {
			t.Errorf("%q was read as %+v", text, v)
		}
	}
	if (ListID{"a", 2}).Compare(ListID{"b", 1}) <= 0 || (ListID{"a", 1}).Compare(ListID{"b", 1}) >= 0 {
		t.Error("the greater epoch is not the greater list")
	}
}

func TestEvents(t *testing.T) {
	line, err := AppendEvent([]byte("before"), EventOrdered, at+1, orders()[1].Entry())
	want := `before{"v":1,"id":"allow-10.0.0.0/8","rule":"manual","key":"10.0.0.0/8","fields":{"ip":"10.0.0.0/8"},"from":"2018-04-17T06:25:11Z",` +
		`"until":"9999-12-31T23:59:59Z","decided":"2018-04-17T06:25:11Z","limit":"","count":0,"level":0,"mode":"enforce","source":"manual","order":"block",` +
		`"by":"ann","why":"ours","event":"ordered","at":"2018-04-17T06:25:11.001Z"}`
	if err != nil || string(line) != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, line, want)
	}
}

func TestJSONComesBack(t *testing.T) {
	all := entries()
	for _, o := range orders() {
		all = append(all, o.Entry())
	}
	for _, e := range all {
		text, err := json.Marshal(e)
		got := &Entry{}
		if err == nil {
			err = json.Unmarshal(text, got)
		}
		want := *e
		want.Generation, want.Offset = 0, 0
		if want.Fields == nil {
			want.Fields = map[string]string{}
		}
		if diff := cmp.Diff(&want, got); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
	for _, bad := range []string{`{"v":2}`, `{"v":1,"mode":"x"}`, `{"v":1,"order":"x"}`, `{"v":1,"from":"x"}`, `[]`} {
		if err := json.Unmarshal([]byte(bad), &Entry{}); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

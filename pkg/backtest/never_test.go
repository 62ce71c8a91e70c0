package backtest

import (
	"strings"
	"testing"
)

const neverList = "\ufeff# customers\n\n203.0.113.7\n198.51.100.0/24  # the office\n2001:db8:1::7\n::ffff:192.0.2.1\nalice\nbob /login\t# the whole key\n"

func TestKeyListNamesKeys(t *testing.T) {
	l, err := ReadKeyList(strings.NewReader(neverList))
	if err != nil || l.Len() != 6 {
		t.Fatal(l.Len(), err)
	}
	for key, entry := range map[string]string{
		"203.0.113.7": "203.0.113.7", "203.0.113.8": "", "203.0.113.0/24": "203.0.113.7",
		"198.51.100.99": "198.51.100.0/24", "198.51.100.64/26": "198.51.100.0/24", "198.51.0.0/16": "198.51.100.0/24",
		"2001:db8:1::/64": "2001:db8:1::7", "2001:db8:2::/64": "", "192.0.2.1": "::ffff:192.0.2.1",
		"alice": "alice", "Alice": "", "bob /login": "bob /login", "bob": "",
	} {
		if e, ok := l.find(key, nil); e.text != entry || ok != (entry != "") {
			t.Errorf("%s: %v, %v, want %q", key, e, ok, entry)
		}
	}
	if e, ok := l.find("alice /x", map[string]string{"user": "alice", "path": "/x"}); !ok || e.line != 7 {
		t.Errorf("a part of a key: %v, %v", e, ok)
	}
	if _, err := ReadKeyList(strings.NewReader("ok\n10.0.0.0/33\n")); err == nil || !strings.Contains(err.Error(), `line 2: "10.0.0.0/33" is no prefix`) {
		t.Error(err)
	}
}

func TestKeyListReportsViolations(t *testing.T) {
	l, _ := ReadKeyList(strings.NewReader(neverList))
	rules := []RuleReport{{Rule: "a", Mode: "enforce", Blocked: []Blocked{{Key: "x"}, {Key: "alice", First: 5, Limit: "1/s"}}}}
	got := l.judge(rules, func(int, string) map[string]string { return nil })
	if got.Keys != 6 || len(got.Violations) != 1 || got.Violations[0] != (Violation{"a", "enforce", "alice", 5, "1/s", 7, "alice"}) {
		t.Fatalf("%+v", got)
	}
	if (*KeyList)(nil).judge(rules, nil) != nil {
		t.Fatal("without a list there is a report")
	}
}

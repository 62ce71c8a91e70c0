package backtest

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/gaissmai/bart"

	"weir/internal/address"
	"weir/pkg/rule"
)

// A KeyList names keys: addresses, prefixes, users, hosts or complete keys, one a line; # begins a comment at the
// beginning of a line and after a space.
//
// An address or prefix names every key that overlaps it. Other text names the key that equals it, and keys of several
// fields that have it as one of them.
type KeyList struct {
	entries  []keyEntry
	prefixes bart.Table[int] // the index of the entry
	texts    map[string]int
}

type keyEntry struct {
	text string
	line int
}

// OpenKeyList reads a file.
func OpenKeyList(path string) (*KeyList, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("list of keys: %w", err)
	}
	defer func() { _ = f.Close() }()
	l, err := ReadKeyList(f)
	if err != nil {
		return nil, fmt.Errorf("list of keys %s: %w", path, err)
	}
	return l, nil
}

// ReadKeyList reads a list. Text that looks like a prefix and is not one is an error, so that no line is without effect
// because of a typo.
func ReadKeyList(r io.Reader) (*KeyList, error) {
	l := &KeyList{texts: map[string]int{}}
	s := bufio.NewScanner(r)
	for line := 1; s.Scan(); line++ {
		if text := keyOfLine(s.Text()); text != "" {
			if err := l.add(keyEntry{text, line}); err != nil {
				return nil, err
			}
		}
	}
	return l, s.Err()
}

// Len is the number of entries.
func (l *KeyList) Len() int { return len(l.entries) }

func keyOfLine(line string) string {
	line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
	if strings.HasPrefix(line, "#") {
		return ""
	}
	for _, comment := range []string{" #", "\t#"} {
		line, _, _ = strings.Cut(line, comment)
	}
	return strings.TrimSpace(line)
}

func (l *KeyList) add(e keyEntry) error {
	l.entries = append(l.entries, e)
	number := len(l.entries) - 1
	if prefix, ok := prefixOf(e.text); ok {
		l.prefixes.Insert(prefix, number)
		return nil
	}

	if before, _, ok := strings.Cut(e.text, "/"); ok {
		if _, err := netip.ParseAddr(before); err == nil {
			return fmt.Errorf("line %d: %q is no prefix", e.line, e.text)
		}
	}

	l.texts[e.text] = number
	return nil
}

// prefixOf reads an address or a prefix.
func prefixOf(text string) (netip.Prefix, bool) {
	if ip, err := netip.ParseAddr(text); err == nil {
		ip = address.Plain(ip)
		return netip.PrefixFrom(ip, ip.BitLen()), true
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return prefix, false
	}
	return address.PlainPrefix(prefix), true
}

// find is the entry that names a key with these parts.
func (l *KeyList) find(key string, parts map[string]string) (keyEntry, bool) {
	if number, ok := l.findPart(key); ok {
		return l.entries[number], true
	}
	for _, part := range parts {
		if number, ok := l.findPart(part); ok {
			return l.entries[number], true
		}
	}
	return keyEntry{}, false
}

func (l *KeyList) findPart(part string) (number int, ok bool) {
	prefix, ok := prefixOf(part)
	if !ok {
		number, ok = l.texts[part]
		return number, ok
	}

	// The key lies in an entry, or an entry lies in the key: blocking it would block that address in both cases.
	if number, ok = l.prefixes.LookupPrefix(prefix); ok {
		return number, true
	}
	for _, number = range l.prefixes.Subnets(prefix) {
		return number, true
	}
	return 0, false
}

// hide adds the hashes of texts that may be keys of secret rules.
func (l *KeyList) hide(rules *rule.Set) {
	if l == nil {
		return
	}
	for number, e := range l.entries {
		for _, key := range rules.HiddenKeys(e.text) {
			l.texts[key] = number
		}
	}
}

// judge finds blocked keys that must not be blocked; nil for a nil list. parts splits a rule's key.
func (l *KeyList) judge(rules []RuleReport, parts func(rule int, key string) map[string]string) *NeverReport {
	if l == nil {
		return nil
	}
	report := &NeverReport{Keys: l.Len(), Violations: []Violation{}}
	for i := range rules {
		for _, b := range rules[i].Blocked {
			if e, ok := l.find(b.Key, parts(i, b.Key)); ok {
				report.Violations = append(report.Violations,
					Violation{rules[i].Rule, rules[i].Mode, b.Key, b.First, b.Limit, e.line, e.text})
			}
		}
	}

	return report
}

func (n *NeverReport) text() string {
	if len(n.Violations) == 0 {
		return fmt.Sprintf("none of the %s that must never be blocked would be", counted(int64(n.Keys), "key"))
	}
	return fmt.Sprintf("%s that must never be blocked would be", counted(int64(len(n.Violations)), "key"))
}

// String describes the key and why it must not be blocked.
func (v Violation) String() string {
	return fmt.Sprintf("%s, by %s of %s at %s; line %d of the list: %s", v.Key, v.Limit, v.Rule, v.First, v.Line, v.Entry)
}

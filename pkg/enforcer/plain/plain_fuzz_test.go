package plain

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
)

// FuzzForms: for any names of users, each form contains exactly these users when its reader reads it, each in its own
// line, with the rule after it.
func FuzzForms(f *testing.F) {
	for _, user := range []string{"alice", "Alice", `";}`, "a\nb", "default", "~.*", `\`, "#", " ", "$x", "4711", "\xff\x00", "ü", "{", "'", `\x41`, "…#", "include"} {
		f.Add(user, "bob")
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		if first == "" || second == "" || first == second {
			return
		}
		want := []string{first, second}
		slices.Sort(want)
		l := &list{entries: []*blocklist.Entry{blocked("per-user", "user", first, time.Minute), blocked("per-user", "user", second, time.Minute)}}
		for _, e := range l.entries {
			e.Key = "k" // only a shortened key contains the mark
		}
		for name, read := range map[string]func(*testing.T, string) string{"txt": fromText, "nginx": fromNginx, "haproxy": fromHAProxy} {
			body := string(forms[name].make(lines(l, testRules, wanted{name, "", "user"}, now.UnixMilli()), now.UnixMilli()).body)
			var got []string
			for text := range strings.Lines(body) {
				got = append(got, read(t, strings.TrimSuffix(text, "\n")))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: %q, want %q, of\n%s", name, got, want, body)
			}
		}
	})
}

// fromText reads a key's canonical form back.
func fromText(t *testing.T, text string) string {
	value, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return value
}

// fromNginx reads a parameter of a map: plain text without special characters, or a pattern of one element per
// character.
func fromNginx(t *testing.T, text string) string {
	value, ok := strings.CutSuffix(text, " per-user;")
	if !ok {
		t.Fatalf("%q has no rule", text)
	}
	if regexp.MustCompile(`^[0-9._:-]+$`).MatchString(value) {
		return value
	}
	inner := regexp.MustCompile(`^"~\\A((?:[0-9A-Za-z]|\\x[0-9a-f]{2})*)\\z"$`).FindStringSubmatch(value)
	if inner == nil {
		t.Fatalf("%q is no pattern", value)
	}
	return fromText(t, inner[1])
}

// fromHAProxy reads the output of url_enc up to the first space.
func fromHAProxy(t *testing.T, text string) string {
	key, name, _ := strings.Cut(text, " ")
	value, err := url.PathUnescape(key)
	if err != nil || name != "per-user" || strings.ContainsAny(key, "#\t") {
		t.Fatalf("%q: %v", text, err)
	}
	return value
}

package rule_test

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"weir/internal/yamlfile"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// For any rules file: reading ends without a panic; it gives a set or errors with a place and a text, and the same the
// next time; a set can be counted with and judges any request, with keys that are not too long and costs within their
// bounds.
func FuzzParse(f *testing.F) {
	faults, err := os.ReadFile("testdata/faults.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, section := range strings.Split(string(faults), "\n==== ")[1:] {
		_, rest, _ := strings.Cut(section, "\n")
		file, _, _ := strings.Cut(rest, "----\n")
		f.Add([]byte(file))
	}
	for _, seed := range []string{oneRule, fiveRules, fingerprinted, configMap, inlineRules} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		set, _, err := rule.Parse("testdata/f", data)
		if err != nil {
			checkFaults(t, err)
			return
		}
		again, _, err := rule.Parse("testdata/f", data)
		if err != nil || again.Fingerprint() != set.Fingerprint() {
			t.Fatalf("%v, %s and then %s", err, set.Fingerprint(), again.Fingerprint())
		}
		for _, r := range set.Rules {
			if _, err := r.Policy(0, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := r.InlinePolicy(); err != nil {
				t.Fatal(err)
			}
		}
		checkHits(t, set)
	})
}

func checkFaults(t *testing.T, err error) {
	t.Helper()
	var faults yamlfile.Faults
	if !errors.As(err, &faults) || len(faults) == 0 {
		t.Fatal(err)
	}
	for _, fault := range faults {
		if fault.What == "" || fault.File == "" || (fault.Line < 1 && !strings.Contains(fault.What, "no rules")) {
			t.Fatalf("%#v", fault)
		}
	}
}

func checkHits(t *testing.T, set *rule.Set) {
	t.Helper()
	judge := set.NewJudge()
	for _, r := range []*request.Request{sample(), {}, {IP: netip.MustParseAddr("::1"), Bytes: -1, User: "\xff\x00 ", Path: strings.Repeat("/é", 300)}} {
		checkEach(t, judge.Hits(r))
		checkEach(t, judge.Inline(r))
		for i := range set.Rules {
			judge.Covers(i, r)
			if hit, reason := judge.HitOf(i, r); reason == rule.Counted {
				checkEach(t, []rule.Hit{hit})
			}
		}
	}
}

func checkEach(t *testing.T, hits []rule.Hit) {
	t.Helper()
	for _, hit := range hits {
		if len(hit.Key) == 0 || len(hit.Key) > rule.MaxKeyBytes || hit.Cost < 1 || hit.Cost > rule.MaxCost {
			t.Fatalf("%+v", hit)
		}
	}
}

// For any match: it is refused with a place inside the file, or judges without a panic; a block with covers: match
// covers every request that matches.
func FuzzMatch(f *testing.F) {
	for _, seed := range []string{
		`path startsWith "/api/" and method != "OPTIONS"`, `status in 400..499`, `not (bytes > 5 or path == "/x")`, `inNetwork(ip, "10.0.0.0/8")`,
		`any(split(path, "/"), # == "x")`, `let x = status; x == 404`, `fields["a"] matches "x"`, `status % (status - 404) == 0`, `path[0:1] == "/"`,
		`(status == 404 ? path : user) == "x"`, `user ?? "x" == "x"`, `path == "/x" // comment`, `{"a": 1}["a"] == 1`, `repeat(path, 9999999) == ""`,
	} {
		f.Add(seed, "/api/orders", 404)
	}
	f.Fuzz(func(t *testing.T, match, path string, status int) {
		quoted := "'" + strings.ReplaceAll(match, "'", "''") + "'"
		set, _, err := rule.Parse("f", []byte("rules:\n- {name: a, key: path, limits: [1/s], block: {covers: match}, match: "+quoted+"}"))
		if err != nil {
			checkFaults(t, err)
			return
		}
		judge := set.NewJudge()
		for _, r := range []*request.Request{sample(), {Path: path, Status: status}, {}} {
			judge.Hits(r)
			matched := judge.Outcome(0) != rule.NoMatch && judge.Outcome(0) != rule.Failed
			before := *r
			before.Status, before.Bytes = 0, -1
			if matched && !judge.Covers(0, &before) {
				t.Fatalf("%s matches %+v, and does not cover it", match, r)
			}
		}
	})
}

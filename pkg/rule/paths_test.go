package rule_test

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"weir/pkg/request"
	"weir/pkg/rule"
)

const signIn = "rules: [{name: sign-in, match: 'path == \"/signin\"', key: [ip, path], limits: [3/min], block: {covers: match}}]\n"

func asked(path string) *request.Request {
	return &request.Request{IP: netip.MustParseAddr("203.0.113.7"), Method: "POST", Path: path, Status: 200}
}

// All spellings of a path are the same path to a match, to a key and to a block.
func TestPathsInAllSpellings(t *testing.T) {
	set := mustParse(t, signIn)
	judge := set.NewJudge()
	for _, path := range []string{"/signin", "/%73ignin", "//signin", "/x/../signin", "/x%2F..%2fsignin", "/./signin#x"} {
		hits := judge.Hits(asked(path))
		if len(hits) != 1 || string(hits[0].Key) != "203.0.113.7 /signin" {
			t.Errorf("%s: %v", path, hits)
		}
		key, ok := judge.AppendKey(nil, 0, asked(path))
		if !ok || string(key) != "203.0.113.7 /signin" || !judge.Covers(0, asked(path)) || judge.Path(asked(path)) != "/signin" {
			t.Errorf("%s at a check: %s %v", path, key, judge.Covers(0, asked(path)))
		}
	}
	for _, path := range []string{"/signin/", "/SignIn", "/signin;a", "/%2573ignin", "/signin/.."} {
		if hits := judge.Hits(asked(path)); len(hits) > 0 || judge.Covers(0, asked(path)) {
			t.Errorf("%s: %v", path, hits)
		}
	}
}

func TestPathsAsTheyWereSent(t *testing.T) {
	set := mustParse(t, "rules: [{name: a, match: 'raw_path startsWith \"//\" and raw_path != path', key: raw_path, limits: [3/min]}]\n")
	judge := set.NewJudge()
	if hits := judge.Hits(asked("//a")); len(hits) != 1 || string(hits[0].Key) != "//a" {
		t.Error(hits)
	}
	if hits := judge.Hits(asked("/a")); len(hits) > 0 {
		t.Error(hits)
	}
	if got := strings.Join(set.Reads(), " "); got != "path" {
		t.Error(got)
	}
}

func TestPathsByChoice(t *testing.T) {
	for choice, path := range map[string]string{"case: lower": "/SIGNIN", "trailing_slash: drop": "/signin/", "params: drop": "/signin;a=b", "backslash: slash": `\signin`} {
		set, plain := mustParse(t, signIn+"paths: {"+choice+"}\n"), mustParse(t, signIn)
		if hits := set.NewJudge().Hits(asked(path)); len(hits) != 1 || string(hits[0].Key) != "203.0.113.7 /signin" {
			t.Errorf("%s: %v", choice, hits)
		}
		if hits := plain.NewJudge().Hits(asked(path)); len(hits) > 0 {
			t.Errorf("without %s: %v", choice, hits)
		}
		if set.Fingerprint() == plain.Fingerprint() {
			t.Errorf("%s does not change the fingerprint", choice)
		}
		if set.Shadowed().Paths != set.Paths {
			t.Errorf("%s is lost in shadow mode", choice)
		}
	}
	if mustParse(t, signIn+"paths: {case: keep}\n").Fingerprint() != mustParse(t, signIn).Fingerprint() {
		t.Error("a default changes the fingerprint")
	}
}

// A client can write a newline into a part of a path that an application takes whatever it is.
func TestDotsOfPatternsAreNewlinesToo(t *testing.T) {
	for _, match := range []string{`path matches "^/shop/.+/checkout$"`, `let p = path; p matches "^/shop/.+/checkout$"`} {
		judge := mustParse(t, "rules: [{name: a, match: '"+match+"', key: ip, limits: [3/min]}]").NewJudge()
		if hits := judge.Hits(asked("/shop/42%0A/checkout")); len(hits) != 1 {
			t.Errorf("%s: %v", match, hits)
		}
		if hits := judge.Hits(asked("/shop/42%0A/checkout/x")); len(hits) > 0 {
			t.Errorf("%s: %v", match, hits)
		}
	}
}

func TestPathsOfOneSetAreOne(t *testing.T) {
	files := folder(t, map[string]string{
		"one.yaml": signIn + "paths: {case: lower}\n", "other.yaml": "rules: [{name: b, key: ip, limits: [1/s]}]\npaths: {case: keep}\n",
		"third.yaml": "rules: [{name: c, key: ip, limits: [1/s]}]\n",
	})
	one, other, third := filepath.Join(files, "one.yaml"), filepath.Join(files, "other.yaml"), filepath.Join(files, "third.yaml")
	if _, _, err := rule.Load(one, other); err == nil || !strings.Contains(err.Error(), "write paths once") {
		t.Error(err)
	}
	if set, _, err := rule.Load(one, third); err != nil || !set.Paths.Lower {
		t.Error(err)
	}
}

func TestPathsAllocateNothing(t *testing.T) {
	judge := mustParse(t, signIn).NewJudge()
	for _, path := range []string{"/signin", "/other", "/x/../%73ignin"} {
		r := asked(path)
		judge.Hits(r)
		if n := testing.AllocsPerRun(200, func() { judge.Hits(r) }); n > 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}

// Servers pass on "post" unchanged, and many applications treat it as POST: to rules it is the same method.
func TestMethodsInUpperCase(t *testing.T) {
	set := mustParse(t, "rules: [{name: sign-in, match: 'method == \"POST\" and path == \"/signin\"', key: [ip, method], limits: [3/min], block: {covers: match}},"+
		"{name: machine, match: 'upper(method) in [\"POST\"] and len(split(method, \"S\")) == 2', key: method, limits: [3/min]}]\n")
	judge := set.NewJudge()
	for _, method := range []string{"POST", "post", "Post", "pOST"} {
		r := asked("/signin")
		r.Method = method
		hits := judge.Hits(r)
		if len(hits) != 2 || string(hits[0].Key) != "203.0.113.7 POST" || string(hits[1].Key) != "POST" || !judge.Covers(0, r) || r.Method != method {
			t.Errorf("%s: %v", method, hits)
		}
	}
	r := asked("/signin")
	r.Method = "po\u017ft"
	if hits := judge.Hits(r); len(hits) > 0 {
		t.Errorf("%s is no POST: %v", r.Method, hits)
	}
}

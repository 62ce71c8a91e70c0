package rule

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/expr-lang/expr"

	"weir/pkg/geoip"
	"weir/pkg/geoip/geoiptest"
	"weir/pkg/request"
)

// A grower makes random expressions of the language, and requests for which they are now true, now false.
type grower struct{ *rand.Rand }

func (g grower) one(words ...string) string { return words[g.IntN(len(words))] }

var texts = []string{`"/api/"`, `"/api/orders"`, `"GET"`, `"alice"`, `""`, `"203.0.113.7"`, `"2001:db8::1"`, `"shop.example.com"`, `"a"`, `"É"`, `"\\"`, `"it's"`, `"\x01"`, `"DE"`}

func (g grower) text(depth int) string {
	if depth == 0 || g.IntN(3) > 0 {
		return g.one("ip", "user", "method", "host", "path", "raw_path", "query", "agent", "referrer", "as_name", "country", "city", "fields.tenant", `fields["x-tenant"]`, g.one(texts...))
	}
	switch g.IntN(3) {
	case 0:
		return fmt.Sprintf("%s(%s)", g.one("lower", "upper", "trim"), g.text(depth-1))
	case 1:
		return fmt.Sprintf("(%s ? %s : %s)", g.boolean(depth-1), g.text(depth-1), g.text(depth-1))
	}
	return fmt.Sprintf("(%s + %s)", g.text(depth-1), g.text(depth-1))
}

func (g grower) integer(depth int) string {
	if depth == 0 || g.IntN(3) == 0 {
		return g.one("status", "bytes", "asn", "0", "1", "200", "404", "1024", "-1")
	}
	switch g.IntN(6) {
	case 0:
		return fmt.Sprintf("len(%s)", g.text(depth-1))
	case 1:
		return fmt.Sprintf("(%s %% %s)", g.integer(depth-1), g.one("2", "10", "1024", "status"))
	case 2:
		return fmt.Sprintf("(%s ? %s : %s)", g.boolean(depth-1), g.integer(depth-1), g.integer(depth-1))
	case 3:
		return fmt.Sprintf("%s(%s, %s)", g.one("max", "min"), g.integer(depth-1), g.integer(depth-1))
	case 4:
		return fmt.Sprintf("-(%s)", g.integer(depth-1))
	}
	return fmt.Sprintf("(%s %s %s)", g.integer(depth-1), g.one("+", "-", "*"), g.integer(depth-1))
}

func (g grower) number(depth int) string {
	if depth == 0 || g.IntN(3) == 0 {
		return g.one(g.integer(0), "0.5", "1e3", "2.5")
	}
	switch g.IntN(6) {
	case 0:
		return fmt.Sprintf("%s(%s)", g.one("ceil", "floor", "round", "abs", "int", "float"), g.number(depth-1))
	case 1:
		return fmt.Sprintf("(%s / %s)", g.number(depth-1), g.number(depth-1))
	case 2:
		return fmt.Sprintf("(%s ? %s : %s)", g.boolean(depth-1), g.number(depth-1), g.number(depth-1))
	case 3:
		return fmt.Sprintf("%s(%s, %s)", g.one("max", "min"), g.number(depth-1), g.number(depth-1))
	case 4:
		return g.integer(depth)
	}
	return fmt.Sprintf("(%s %s %s)", g.number(depth-1), g.one("+", "-", "*", "**"), g.number(depth-1))
}

func (g grower) boolean(depth int) string {
	if depth == 0 {
		return g.one("true", "false", `path startsWith "/api/"`, "status == 404")
	}
	switch g.IntN(11) {
	case 0, 1:
		return fmt.Sprintf("(%s %s %s)", g.boolean(depth-1), g.one("and", "or", "&&", "||", "==", "!="), g.boolean(depth-1))
	case 2:
		return fmt.Sprintf("%s (%s)", g.one("not", "!"), g.boolean(depth-1))
	case 3:
		return fmt.Sprintf("%s %s %s", g.text(depth-1), g.one("==", "!=", "<", "<=", ">", ">=", "startsWith", "endsWith", "contains"), g.text(depth-1))
	case 4:
		return fmt.Sprintf("%s matches %s", g.text(depth-1), g.one(`"^/api/"`, `"[0-9]+$"`, `"(?i)get"`, `""`))
	case 5:
		return fmt.Sprintf("%s %s %s", g.number(depth-1), g.one("==", "!=", "<", "<=", ">", ">="), g.number(depth-1))
	case 6:
		return fmt.Sprintf("%s %s [%s, %s]", g.text(depth-1), g.one("in", "not in"), g.one(texts...), g.one(texts...))
	case 7:
		return fmt.Sprintf("%s in %s", g.integer(depth-1), g.one("[200, 404]", "200..299", "[1]", "0..5000", "-5..5"))
	case 8:
		return fmt.Sprintf(`inNetwork(%s, "203.0.113.0/24", "2001:db8::/32")`, g.text(depth-1))
	case 9:
		return fmt.Sprintf("(%s ? %s : %s)", g.boolean(depth-1), g.boolean(depth-1), g.boolean(depth-1))
	}
	return fmt.Sprintf("%s(%s, %s)", g.one("hasPrefix", "hasSuffix"), g.text(depth-1), g.text(depth-1))
}

func (g grower) request() *request.Request {
	r := &request.Request{
		User: g.one("", "alice", "Bob", "É"), Method: g.one("", "GET", "get", "OPTIONS"), Host: g.one("", "shop.example.com", "Shop.Example.com.:80", "A"),
		Path: g.one("", "/api/", "/api/orders", "/a b", "/17"), Query: g.one("", "a", "x=1"), Agent: g.one("", "a", "\xff"), Referrer: g.one("", "it's"),
		Status: []int{0, 200, 299, 404, 429}[g.IntN(5)], Bytes: []int64{-1, 0, 1, 1023, 1 << 40}[g.IntN(5)],
	}
	if ip := g.one("", "203.0.113.7", "2001:db8::1", "198.51.100.1"); ip != "" {
		r.IP = netip.MustParseAddr(ip)
	}
	for range g.IntN(3) {
		r.Fields = append(r.Fields, request.Field{Name: g.one("tenant", "x-tenant", "weir"), Value: g.one("a", "É", "")})
	}
	return r
}

// inMachine compiles an expression for the virtual machine alone, optimized or not.
func inMachine(text string, wanted reflect.Kind, optimize bool) *expression {
	program, err := expr.Compile(text, options(wanted, optimize)...)
	if err != nil {
		return nil
	}
	return &expression{program: program}
}

// Closures give the results of the virtual machine, for random expressions and requests. The machine fails when max(1,
// 2.5) is compared with an integer, because it treats the result of max as an integer; closures do not.
func TestClosuresAgreeWithTheMachine(t *testing.T) {
	g := grower{rand.New(rand.NewPCG(1, 2))}
	translated := 0
	finder := places(t).NewFinder()
	const expressions = 4000
	for range expressions {
		text, wanted := g.boolean(1+g.IntN(4)), reflect.Bool
		if g.IntN(3) == 0 {
			text, wanted = g.number(1+g.IntN(4)), reflect.Float64
		}
		e, complaints := compile(text, wanted)
		if complaints != nil {
			continue // such as an integer too large; the virtual machine is not run either
		}
		if e.program == nil {
			translated++
		}
		machine := inMachine(text, wanted, false)
		ours, theirs := subject{finder: finder}, subject{finder: finder}
		for range 5 {
			r := g.request()
			ours.about(r)
			theirs.about(r)
			got, want := answer(e, &ours), answer(machine, &theirs)
			if want == "failed" && (strings.Contains(text, "max(") || strings.Contains(text, "min(")) {
				continue
			}
			if got != want {
				t.Fatalf("%s\nof %+v\nis %s, the machine says %s", text, r, got, want)
			}
		}
	}
	if translated < expressions/3 {
		t.Errorf("only %d of %d expressions had closures", translated, expressions)
	}
}

// places are databases with some of the addresses of a grower's requests.
func places(t *testing.T) *geoip.Databases {
	d, err := geoip.Read("test.mmdb", geoiptest.Bytes(t, 1, map[string]geoiptest.Entry{
		"203.0.113.0/24": {ASN: 200, Name: "É", Country: "DE"}, "2001:db8::/32": {ASN: 404, Country: "FR", City: "a"},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return geoip.Join(d)
}

// answer is the result of an expression for a request, failures included.
func answer(e *expression, s *subject) string {
	if e.boolean != nil {
		return fmt.Sprint(e.matches(s))
	}
	if e.number != nil {
		return number(e.amount(s))
	}
	result, err := s.run(e.program)
	switch result := result.(type) {
	case bool:
		return fmt.Sprint(result, err == nil)
	case float64:
		return number(result, err == nil)
	}
	return "failed"
}

func number(value float64, ok bool) string {
	if math.IsNaN(value) {
		return "NaN"
	}
	return fmt.Sprint(value, ok)
}

// Before the response: if a match is true with any response, the request was covered without it.
func TestCoverHoldsWhereverTheMatchMayHold(t *testing.T) {
	g := grower{rand.New(rand.NewPCG(3, 4))}
	open, shut := 0, 0
	for range 4000 {
		text := g.boolean(1 + g.IntN(4))
		match, complaints := compile(text, reflect.Bool)
		if complaints != nil {
			continue
		}
		cover, _ := beforehand(match)
		var s subject
		after := g.request()
		before := *after
		before.Status, before.Bytes, before.Fields = 0, -1, nil
		s.about(after)
		matches, ok := match.matches(&s)
		covered := true
		if cover != nil {
			s.about(&before)
			var coverOK bool
			covered, coverOK = cover.matches(&s)
			covered = covered || !coverOK
		}
		if ok && matches && !covered {
			t.Fatalf("%s holds for %+v, and was not covered", text, after)
		}
		if readOfResponse(match.tree) == "" && cover != nil && ok && covered != matches {
			t.Fatalf("%s: covered is %v, matches is %v", text, covered, matches)
		}
		if covered {
			open++
		} else {
			shut++
		}
	}
	if open < 500 || shut < 500 {
		t.Errorf("covered %d times, not covered %d times", open, shut)
	}
}

func TestSqueezeKeepsWordsApart(t *testing.T) {
	same := []string{`path == "/x" and status==404`, "path=='/x'   and // comment\n status == 404"}
	if squeeze(same[0]) != squeeze(same[1]) {
		t.Errorf("%s\n%s", squeeze(same[0]), squeeze(same[1]))
	}
	if squeeze(`path == "a b"`) == squeeze(`path == "a  b"`) || !strings.Contains(squeeze("path == (("), "path") {
		t.Error("texts were changed")
	}
}

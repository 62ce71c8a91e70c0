package request

import "testing"

// A line may end at the quote of a literal that goes on behind it.
func TestALineThatEndsAtTheQuoteOfALiteral(t *testing.T) {
	parser, err := NewParser(`%h %t %>s %u "r=%r"`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const start = `203.0.113.7 [04/May/2026:06:25:06 +0000] 200 ann "`
	for _, test := range []struct {
		end  string
		read bool
	}{{``, false}, {`r`, false}, {`x=GET / HTTP/1.1"`, false}, {`r=GET /a HTTP/1.1"`, true}} {
		var r Request
		if err := parser.Parse(start+test.end, &r); (err == nil) != test.read || test.read && r.Path != "/a" {
			t.Errorf("%s: %v, %+v", test.end, err, r)
		}
	}
}

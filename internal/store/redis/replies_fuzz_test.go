package redis

import "testing"

// Replies of a server keep to the bounds or are refused, also when they arrive in small pieces.
func FuzzReplies(f *testing.F) {
	f.Add([]byte("*3\r\n$5\r\n*9\r\n1\r\n$-1\r\n%1\r\n+OK\r\n:7\r\n"), 3)
	f.Add([]byte("*2\r\n*1\r\n*0\r\n|1\r\n+a\r\n:1\r\n*1\r\n|1\r\n+a\r\n:1\r\n:7\r\n"), 1)
	f.Add([]byte("*2147483647\r\n"), 2)
	f.Add([]byte("|0\r\n|0\r\n$268435456\r\n"), 5)
	f.Fuzz(func(t *testing.T, reply []byte, size int) {
		var whole, pieces replies
		size = max(size, 1)
		fits, fit := whole.see(reply), true
		for rest := reply; len(rest) > 0 && fit; {
			n := min(size, len(rest))
			fit = pieces.see(rest[:n])
			rest = rest[n:]
		}
		if fits != fit {
			t.Errorf("as one: %v; in pieces of %d bytes: %v", fits, size, fit)
		}
		if fits && (whole.elements > mostElements || whole.bytes > mostBytes || whole.notes > mostNotes || len(whole.open) > deepest || len(whole.line) > longestLine) {
			t.Errorf("%+v", whole)
		}
		if fits && (whole.elements != pieces.elements || whole.text != pieces.text || len(whole.open) != len(pieces.open)) {
			t.Errorf("as one: %+v; in pieces: %+v", whole, pieces)
		}
	})
}

package objects

import (
	"bytes"
	"strings"
	"testing"

	"weir/internal/logfile"
)

// A line that is longer than a line may be is long, also when its end comes in the same read as its beginning.
func TestLinesThatAreLong(t *testing.T) {
	for _, length := range []int{10, logfile.MaxLine, logfile.MaxLine + 1, logfile.MaxLine + 1<<20, 3 * logfile.MaxLine} {
		object := "first\n" + strings.Repeat("x", length) + "\nlast\n"
		r := &reading{packed: &transfer{Reader: bytes.NewReader([]byte(object))}}
		var long []bool
		for ended := false; !ended; {
			entries, end, err := r.page()
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				long = append(long, e.Long)
			}
			ended = end
		}
		if want := length > logfile.MaxLine; len(long) != 3 || long[0] || long[1] != want || long[2] {
			t.Errorf("of the lines around one of %d bytes, these are long: %v", length, long)
		}
		if r.at != int64(len(object)) {
			t.Errorf("%d bytes were read of %d", r.at, len(object))
		}
	}
}

package offline

import "testing"

// Only a newline in a record is one in its line.
func TestRecordsAsLines(t *testing.T) {
	for record, want := range map[string]string{"a\r\n": "a\n", "a\nb\n": "a\vb\n", "a\vb": "a b\n", "": "\n"} {
		if got := string(appendRecord([]byte("x\n"), []byte(record))); got != "x\n"+want {
			t.Errorf("%q is %q", record, got)
		}
	}
}

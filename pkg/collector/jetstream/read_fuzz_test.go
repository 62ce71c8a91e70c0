package jetstream

import "testing"

// A mark that can be read is written the same.
func FuzzMark(f *testing.F) {
	f.Add("1:2")
	f.Add("")
	f.Add("18446744073709551615:-1")
	f.Fuzz(func(t *testing.T, text string) {
		read, err := readMark(text)
		if err != nil {
			return
		}
		if again, err := readMark(read.String()); err != nil || again != read {
			t.Errorf("%q is read as %+v, and that as %+v: %v", text, read, again, err)
		}
	})
}

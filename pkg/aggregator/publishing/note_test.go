package publishing

import (
	"testing"
)

func TestANoteIsReadAsItWasWritten(t *testing.T) {
	for _, want := range []note{{list: "a-1", since: 7, modes: 1 << 63, walked: 1000}, {since: unknown}} {
		if got, err := readNote(want.append(nil)); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
}

// Bytes of something else in the place of a note are as good as none.
func TestStrayBytesAreNoNote(t *testing.T) {
	for _, stray := range []string{"", `{"hello":1}`, "\x02", "hello", "GET / HTTP/1.1", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		if n, err := readNote([]byte(stray)); err != nil || n.since != unknown || n.complete("") {
			t.Errorf("%q: %+v, %v", stray, n, err)
		}
	}
}

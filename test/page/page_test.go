package page

import "testing"

func TestBlocks(t *testing.T) {
	blocks := Blocks("# A page\n\nText:\n\n    a command\n\n    another\n\n## Part\n\n```sh\nrun\n```\n\n```text\nit ran\n```\n")
	want := []Block{
		{"A page", "", "a command\n\nanother\n", 5},
		{"Part", "sh", "run\n", 12},
		{"Part", "text", "it ran\n", 16},
	}
	if len(blocks) != len(want) {
		t.Fatalf("%+v", blocks)
	}
	for i, b := range blocks {
		if b != want[i] {
			t.Errorf("%+v, want %+v", b, want[i])
		}
	}
}

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		shown, printed string
		same           bool
	}{
		{"a  b\n\nc", "a b\nc\n", true},
		{"a\n", "a\nb\n", false},
		{"a\nb\n", "a\n", false},
		{"a\n…\n", "a\nb\nc\n", true},
		{"a\n…\nc\n", "a\nb\nc\n", true},
		{"a\n…\nd\n", "a\nb\nc\n", false},
		{"until 2026-03-03T08:00:00Z (10m)", "until 2027-01-01T09:10:11.5Z (10m)", true},
		{"until 2026-03-03T08:00:00Z (10m)", "until 2027-01-01T09:10:11.5Z (11m)", false},
		{"10:00:01 blocked", "12:13:14 blocked", true},
		{"a … c", "a c", true},
		{"list … whole, …", "list 58a-0.1 whole, 0s old", true},
	} {
		if err := Compare(test.shown, test.printed); (err == nil) != test.same {
			t.Errorf("%q and %q: %v", test.shown, test.printed, err)
		}
	}
}

package bucket

import "testing"

func TestPlaces(t *testing.T) {
	for text, want := range map[string][2]string{"s3://a/b/": {"a", "b/"}, "s3://a": {"a", ""}, "s3://u:p@a/b": {}, "s3:///b": {}, "http://a/b": {}} {
		name, prefix, err := Parse(text)
		if got := [2]string{name, prefix}; err == nil && got != want || (err != nil) != (want[0] == "") {
			t.Errorf("%s is %q, %v", text, got, err)
		}
	}
}

package redisstream

import (
	"encoding/json"
	"testing"

	"weir/pkg/collector/ordered"
)

// CheckDecoding reads IDs, places and fields that a server may send. Writing what was read gives the same, and lines are
// the value of a field, or JSON.
func CheckDecoding(t *testing.T, text, at string, fields map[string]any, field string) {
	if read, ok := parseID(text); ok {
		if again, ok := parseID(read.String()); !ok || again != read || read.less(again) {
			t.Errorf("%q is read as %v, and that as %v", text, read, again)
		}
	}
	if p, err := placeOf(ordered.Place{Position: 7, ID: at}); err == nil {
		if again, err := placeOf(p.ordered()); err != nil || again != p {
			t.Errorf("%q is the place %v, and then %v: %v", at, p, again, err)
		}
	}
	line := (&stream{field: field}).line(fields)
	if len(fields) > 1 && fields[field] == nil && !json.Valid(line) {
		t.Errorf("%q is no JSON", line)
	}
}

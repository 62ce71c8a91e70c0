package inspect

import (
	"encoding/json"
	"slices"
	"testing"

	"weir/cmd/weir/internal/shown"
)

func TestStatusNamesReceiversThatFail(t *testing.T) {
	var says struct{ Notify []receiverState }
	err := json.Unmarshal([]byte(`{"notify":[{"receiver":"ops","kind":"webhook","sent":3,"dropped":0,"waiting":0},
		{"receiver":"chat","kind":"slack","sent":0,"dropped":1,"waiting":2,"since":"2026-03-03T08:00:00Z","error":"it answered 404 \u001b[31m"},
		{"receiver":"mail","kind":"mail","sent":0,"dropped":2,"waiting":0}]}`), &says)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"  chat\t\t\tslack gets no notifications since 2026-03-03T08:00:00Z: it answered 404 \\x1b[31m, 2 events waiting, 1 message dropped",
		"  mail\t\t\t2 messages dropped",
	}
	if got := receiverRows(says.Notify, shown.Times{}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

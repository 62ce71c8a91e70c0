package objects

import "testing"

// KeepUnread bounds the objects that a listing keeps.
func KeepUnread(t testing.TB, most int) {
	before := unreadMost
	unreadMost = most
	t.Cleanup(func() { unreadMost = before })
}

// EventsIn reads a message.
func EventsIn(t *testing.T, body string) {
	all, err := eventsIn(body)
	if len(all) > len(body) || err != nil && len(all) > 0 {
		t.Errorf("%d events, and %v", len(all), err)
	}
}

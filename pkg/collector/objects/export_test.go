package objects

import "testing"

// KeepUnread bounds the objects that a listing keeps.
func KeepUnread(t testing.TB, most int) {
	before := unreadMost
	unreadMost = most
	t.Cleanup(func() { unreadMost = before })
}

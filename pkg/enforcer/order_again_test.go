package enforcer

import (
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/test/wait"
)

// Manual entries outlast the topic: a list of a greater epoch without them gets them again, and has them meanwhile.
func TestOrdersOutlastARecreatedTopic(t *testing.T) {
	set := list(t, ofIP("203.0.113.7"))
	r := keyed(t, set)
	r.order("POST", "/v1/blocks", `{"target":"198.51.100.1","why":"w"}`)
	first := r.blocklist.messages()[0]
	now := time.Now().UnixMilli()
	if err := set.Apply(now, blocklist.Change{Offset: 10, Key: first.Key, Value: first.Value}); err != nil {
		t.Fatal(err)
	}
	set.Fill().Swap(blocklist.State{Version: blocklist.Version{List: blocklist.ListID{Name: "test", Epoch: 2}, Offset: 1}, Whole: true, AsOf: now}, now)
	wait.Until(t, "ordered again", func() bool { return len(r.blocklist.messages()) == 2 && len(set.Pending()) == 1 })
	if again := r.blocklist.messages()[1]; string(again.Key) != string(first.Key) || string(again.Value) != string(first.Value) {
		t.Errorf("%q %q", again.Key, again.Value)
	}
	if got := r.checks("198.51.100.1"); got.status != 429 {
		t.Errorf("%d", got.status)
	}
	if n := len(r.events.messages()); n != 1 {
		t.Errorf("%d events", n)
	}
}

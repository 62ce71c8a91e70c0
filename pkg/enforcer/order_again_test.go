package enforcer

import (
	"slices"
	"strings"
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

// A topic that deletes records by their age gets active manual entries again and again, and lifted ones no more.
func TestActiveOrdersAreSentAgain(t *testing.T) {
	r := start(t, list(t), func(c *Config) { c.Keys, c.SendAgain = keysFile(t), 20*time.Millisecond })
	r.order("POST", "/v1/blocks", `{"target":"198.51.100.1","why":"w"}`)
	r.order("POST", "/v1/allows", `{"target":"198.51.100.2","for":"1h","why":"w"}`)
	for _, target := range []string{"198.51.100.1", "198.51.100.2"} {
		wait.Until(t, target+" is sent again", func() bool { return len(r.sentOf(target)) >= 3 })
		sent := r.sentOf(target)
		if len(slices.Compact(sent)) != 1 {
			t.Errorf("%s was sent again with other contents", target)
		}
	}
	if n := len(r.events.messages()); n != 2 {
		t.Errorf("%d events, want 2", n)
	}

	if got := r.order("DELETE", "/v1/allows?why=w&target=198.51.100.2", ""); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	before := len(r.sentOf("198.51.100.1"))
	wait.Until(t, "the other is sent again", func() bool { return len(r.sentOf("198.51.100.1")) >= before+3 })
	sent := r.sentOf("198.51.100.2")
	if last := sent[len(sent)-1]; last == sent[0] {
		t.Error("an order came back after it was lifted")
	}
}

// sentOf returns the records of a target that were sent to the blocklist.
func (r *running) sentOf(target string) (values []string) {
	for _, message := range r.blocklist.messages() {
		if strings.HasSuffix(string(message.Key), target) {
			values = append(values, string(message.Value))
		}
	}
	return values
}

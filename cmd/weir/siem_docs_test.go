package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
)

// The events in docs/siem.md are those that are written to the topic, byte for byte, and the page describes each member.
func TestSiemPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/siem.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, `{"v":`) {
			continue
		}
		examples++
		var entry blocklist.Entry
		var event struct {
			Event string
			At    time.Time
		}
		members := map[string]any{}
		for _, into := range []any{&entry, &event, &members} {
			if err := json.Unmarshal([]byte(line), into); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
		}
		written, err := blocklist.AppendEvent(nil, event.Event, event.At.UnixMilli(), &entry)
		if err != nil || string(written) != line {
			t.Errorf("%v, the page has\n%s\nand the topic\n%s", err, line, written)
		}
		for name := range members {
			if !strings.Contains(string(text), "| `"+name+"`") && !strings.Contains(string(text), ", `"+name+"` |") {
				t.Errorf("no row for %s", name)
			}
		}
	}
	if examples < 2 {
		t.Errorf("%d examples", examples)
	}
}

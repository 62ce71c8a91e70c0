package collector

import (
	"fmt"
	"os"
	"testing"
	"time"

	"weir/pkg/window"
)

// TestAClonedFolderIsAConflict runs two collectors from copies of one folder over one log: nothing is counted twice.
func TestAClonedFolderIsAConflict(t *testing.T) {
	one := newBench(t, "access.log")
	one.Log("access.log", 100)
	one.start()
	one.await()
	one.stop()
	clone := newBench(t, "access.log")
	clone.sink, clone.config.Sink, clone.config.Sources = one.sink, one.sink, one.config.Sources
	if err := os.CopyFS(clone.config.Folder+"/copy", os.DirFS(one.config.Folder)); err != nil {
		t.Fatal(err)
	}
	clone.config.Folder += "/copy"
	one.start()
	clone.start()
	for range 200 {
		one.Log("access.log", 20)
		one.awaitRead("access.log")
		keys, conflicts := one.sink.Counted(t)
		for key, n := range keys {
			if n > one.Want[key] {
				t.Fatalf("%s is counted %d times, and came %d times", key, n, one.Want[key])
			}
		}
		if conflicts > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	// If both made the same cuts of the same bytes, the batches are the same except for the clock.
	t.Error("nobody is told of a conflict")
}

// TestFilesThatAreReadFromBehindAdvanceTogether reads the backlogs of two files, one much longer than the other, with
// the same client in both. All hits are sent within the lateness, so a textbook's count finds the same as a single
// sorted log.
func TestFilesThatAreReadFromBehindAdvanceTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t, "*access.log")
	b.config.Late = time.Minute
	begin := time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)
	write := func(name string, every time.Duration, lines int) {
		text := ""
		for n := range lines {
			begin := begin.Add(-time.Duration(n%2) * 5 * time.Second) // every other line is late
			text += fmt.Sprintf("203.0.113.1 - - [%s] \"GET /%s HTTP/1.1\" 200 2 \"-\" \"-\"\n", begin.Add(time.Duration(n)*every).Format("02/Jan/2006:15:04:05 -0700"), name)
			b.Want["per-ip 203.0.113.1"]++
		}
		b.Append(name, text)
	}
	write("short.access.log", time.Minute, 200)
	write("long.access.log", 4*time.Second, 3000)
	b.start()
	b.await()
	newest, late := int64(0), 0
	policy, err := window.New(window.Config{Limits: []window.Limit{{Hits: 10, Per: time.Minute}}, Late: time.Minute, Block: window.Block{For: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	var state window.State
	for _, item := range b.sink.Items(t) {
		newest = max(newest, item.UnixMilli)
		if newest-item.UnixMilli > time.Minute.Milliseconds() {
			late++
		}
		if policy.Hit(&state, item.UnixMilli, item.Cost).Event == window.Late {
			late++
		}
	}
	if late > 0 {
		t.Errorf("%d hits come too late to be counted", late)
	}
}

package collector

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"weir/test/wait"
)

// banner is longer than the part of a log's beginning that is compared.
func banner() string {
	return strings.Repeat("# the same beginning in all logs of this server, which is longer than what is compared of it\n", 20)
}

// Two logs that begin with the same 1 KiB are both read, whichever is longer, while both grow and after a restart.
func TestLogsWithTheSameBeginning(t *testing.T) {
	t.Parallel()
	b := newBench(t, "*access.log")
	names := []string{"a.access.log", "b.access.log", "c.access.log"}
	for i, name := range names {
		b.Append(name, banner())
		b.Log(name, 10+30*i)
	}
	b.start()
	b.await()
	for range 3 {
		for i, name := range names {
			b.Log(name, 3-i)
		}
		b.await()
	}
	b.stop()
	for _, name := range names {
		b.Log(name, 5)
	}
	b.start()
	b.await()
}

// A copy of the beginning of a log is not read until it continues as another log. This is reported once.
func TestACopyOfABeginningIsNotRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, "*access.log")
	heard := b.listen()
	b.Append("access.log", banner())
	b.Log("access.log", 50)
	b.start()
	b.await()
	data, err := os.ReadFile(b.Path("access.log"))
	if err != nil {
		t.Fatal(err)
	}
	b.Append("copy.access.log", string(data[:len(data)/2]))
	wait.Until(t, "it to be said", func() bool { return heard.Has("taken for a copy") })
	b.Log("access.log", 10)
	b.await()
	if n := strings.Count(heard.String(), "taken for a copy"); n != 1 {
		t.Errorf("said %d times", n)
	}
	other := "\n192.0.2.77 - - [03/Mar/2026:09:00:00 +0000] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"\n"
	b.Append("copy.access.log", other)
	b.awaitKey(t, "per-ip 192.0.2.77")
}

// A copy of a live log may be found first, as after cp access.log old.access.log. The log is read on all the same.
func TestALogIsReadOnBehindItsCopy(t *testing.T) {
	t.Parallel()
	b := newBench(t, "*access.log")
	b.Append("a.access.log", banner())
	b.Log("a.access.log", 50)
	b.start()
	b.await()
	data, err := os.ReadFile(b.Path("a.access.log"))
	if err != nil {
		t.Fatal(err)
	}
	b.Append("b.access.log", string(data)) // the copy is a.access.log from now on
	for range 2 {
		b.Log("b.access.log", 10)
		b.await()
	}
	b.stop()
	b.Log("b.access.log", 10)
	b.start()
	b.await()
}

// awaitKey waits until a key is counted.
func (b *bench) awaitKey(t *testing.T, key string) {
	t.Helper()
	wait.Until(t, key, func() bool { keys, _ := b.sink.Counted(t); return keys[key] == 1 })
}

// All files that cannot be read are named, up to a bound, and reported again when they can be.
func TestFilesThatCannotBeReadAreNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t, "*access.log", "away/*.log")
	for i := range 6 {
		name := b.Path(fmt.Sprintf("%d.access.log", i))
		if i > 0 {
			b.config.Sources[0].File.Patterns = append(b.config.Sources[0].File.Patterns, name)
		}
		if err := os.Symlink(name, name); err != nil { // a link that leads to itself
			t.Fatal(err)
		}
	}
	if err := os.Symlink(b.Path("away"), b.Path("away")); err != nil {
		t.Fatal(err)
	}
	b.start()
	wait.Until(t, "them to be told", func() bool { return strings.Contains(b.collector.Status().Sources[0].Error, "files cannot be read") })
	if text := b.collector.Status().Sources[0].Error; !strings.Contains(text, "7 files") || !strings.Contains(text, "1.access.log") || !strings.Contains(text, "; and 2 more") {
		t.Error(text)
	}
	if b.collector.Status().CaughtUp {
		t.Error("it has caught up")
	}
	os.Remove(b.Path("away"))
	for i := range 6 {
		os.Remove(b.Path(fmt.Sprintf("%d.access.log", i)))
	}
	wait.Until(t, "it to be over", func() bool { s := b.collector.Status(); return s.Sources[0].Error == "" && s.CaughtUp })
}

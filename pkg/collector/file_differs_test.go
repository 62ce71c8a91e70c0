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
	b := newBench(t, "*access.log")
	names := []string{"a.access.log", "b.access.log", "c.access.log"}
	for i, name := range names {
		b.append(name, banner())
		b.log(name, 10+30*i)
	}
	b.start()
	b.await()
	for range 3 {
		for i, name := range names {
			b.log(name, 3-i)
		}
		b.await()
	}
	b.stop()
	for _, name := range names {
		b.log(name, 5)
	}
	b.start()
	b.await()
}

// A copy of the beginning of a log is not read until it continues as another log. This is reported once.
func TestACopyOfABeginningIsNotRead(t *testing.T) {
	b := newBench(t, "*access.log")
	heard := b.listen()
	b.append("access.log", banner())
	b.log("access.log", 50)
	b.start()
	b.await()
	data, err := os.ReadFile(b.path("access.log"))
	if err != nil {
		t.Fatal(err)
	}
	b.append("copy.access.log", string(data[:len(data)/2]))
	wait.Until(t, "it to be said", func() bool { return heard.Has("taken for a copy") })
	b.log("access.log", 10)
	b.await()
	if n := strings.Count(heard.String(), "taken for a copy"); n != 1 {
		t.Errorf("said %d times", n)
	}
	other := "\n192.0.2.77 - - [03/Mar/2026:09:00:00 +0000] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"\n"
	b.append("copy.access.log", other)
	b.awaitKey(t, "per-ip 192.0.2.77")
}

// awaitKey waits until a key is counted.
func (b *bench) awaitKey(t *testing.T, key string) {
	t.Helper()
	wait.Until(t, key, func() bool { keys, _ := b.sink.Counted(t); return keys[key] == 1 })
}

// All files that cannot be read are named, up to a bound, and reported again when they can be.
func TestFilesThatCannotBeReadAreNamed(t *testing.T) {
	b := newBench(t, "*access.log", "away/*.log")
	for i := range 6 {
		name := b.path(fmt.Sprintf("%d.access.log", i))
		if i > 0 {
			b.config.Sources[0].File.Patterns = append(b.config.Sources[0].File.Patterns, name)
		}
		if err := os.Symlink(name, name); err != nil { // a link that leads to itself
			t.Fatal(err)
		}
	}
	if err := os.Symlink(b.path("away"), b.path("away")); err != nil {
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
	os.Remove(b.path("away"))
	for i := range 6 {
		os.Remove(b.path(fmt.Sprintf("%d.access.log", i)))
	}
	wait.Until(t, "it to be over", func() bool { s := b.collector.Status(); return s.Sources[0].Error == "" && s.CaughtUp })
}

func TestUnreadableFilesAreReported(t *testing.T) {
	faults := map[string]error{}
	for i := range 7 {
		path := fmt.Sprintf("/var/log/nginx/%d.log", i)
		faults[path] = &os.PathError{Op: "open", Path: path, Err: os.ErrPermission}
	}
	text := barredFault(faults, "cannot be read").Error()
	for _, want := range []string{"7 files cannot be read: open /var/log/nginx/0.log: permission", "4.log: permission denied; and 2 more; let ", "adm", "setfacl", " /var/log/nginx"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	one := barredFault(map[string]error{"x": fmt.Errorf("reading x: %w", os.ErrDeadlineExceeded)}, "cannot be read").Error()
	if one != "reading x: i/o timeout" {
		t.Error(one)
	}
}

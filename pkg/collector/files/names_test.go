package files

import (
	"testing"
	"time"

	"weir/pkg/collector/pace"
)

// A pattern may also match rotated files (access.log*). They are of the live file, however many endings they have, and
// whether or not the files between exist.
func TestAPatternThatMatchesRotatedFiles(t *testing.T) {
	b := newBench(t, "access.log*")
	b.Log("access.log", 3) // too few bytes to know the log by them alone
	b.start()
	b.await()
	b.Rename("access.log", "access.log.1")
	b.Log("access.log", 3)
	b.await()
	b.stop()

	b.Compress("access.log.1", ".gz")
	b.start()
	b.Log("access.log", 3)
	b.await()
	b.stop()

	b.Rename("access.log.1.gz", "access.log.2.gz")
	b.Log("access.log.1", 3)
	b.start()
	b.await()
	if len(b.source.families) != 1 {
		t.Errorf("%d live files", len(b.source.families))
	}
}

// Caddy rotates its log by itself, compresses it, and writes the time before the extension. Files that it rotated while no
// collector ran count too, each line once.
func TestALogThatCaddyRotates(t *testing.T) {
	for _, reason := range []string{"", "-size", "-size_1"} {
		b := newBench(t, "access.log")
		b.Log("access.log", 40)
		b.start()
		b.await()
		b.stop()

		b.Log("access.log", 40)
		for _, at := range []string{"08", "09"} {
			name := "access-2026-01-01T" + at + "-00-00.000" + reason + ".log"
			b.Rename("access.log", name)
			b.Compress(name, ".gz")
			b.Log("access.log", 40)
		}
		b.start()
		b.await()

		b.Rename("access.log", "access-2026-01-01T10-00-00.000"+reason+".log")
		b.Log("access.log", 40)
		b.await()
		b.stop()
	}
}

func TestTheLiveFileOfAPattern(t *testing.T) {
	for _, c := range []struct{ pattern, file, want string }{
		{"access.log*", "access.log.1.gz", "access.log"},
		{"access.log*", "access.log-20260101-1767225600.zst", "access.log"},
		{"*", "access.log.2.gz", "access.log"},
		{"*.log", "access.log", "access.log"},
		{"access-*", "access-1", "access-1"},
		{"access-*", "access-1.2.gz", "access-1"},
		{"*.gz", "access.log.1.gz", "access.log.1.gz"},
		{"access*.log*", "access-2026-01-01T08-00-00.000.log.gz", "access.log"},
		{"access*.log*", "access-2026-01-01T08-00-00.000-size_1.log", "access.log"},
		{"*.log", "access-2026-01-01T08-00-00.log", "access-2026-01-01T08-00-00.log"},
		{"access-*", "access-2026-01-01T08-00-00.000.log", "access-2026-01-01T08-00-00.000.log"},
	} {
		b := newBench(t, c.pattern)
		b.Append(c.file, b.Line())
		b.open()
		if got := b.source.matches(b.Path(c.pattern)); len(got) != 1 || got[0] != b.Path(c.want) {
			t.Errorf("%s matches %s: live are %v, want %s", c.pattern, c.file, got, c.want)
		}
	}
}

// Of a file that is found under another name than the one it is read by, no copy is reported: rotation has renamed it. A
// copy is reported after a while, unless it was one only for a moment.
func TestOnlyLastingCopiesAreReported(t *testing.T) {
	b := newBench(t)
	heard := b.listen()
	var later time.Duration
	b.pipeline.Now = func() time.Time { return time.Now().Add(later) }
	b.Log("access.log", 40)
	live := b.family("access.log")
	live.settle(t)
	other := b.source.newFamily(b.Path("access-20260301.log"), beginning{notBefore: pace.NoTime})
	look := func(copied bool) {
		t.Helper()
		other.scan()
		if heard.Has("taken for a copy") != copied {
			t.Errorf("a copy was reported: %t; want %t", !copied, copied)
		}
		later += finalAfter
	}

	b.Rename("access.log", "access-20260301.log")
	look(false)
	look(false)

	b.Append("access.log", b.Text("access-20260301.log"))
	b.Remove("access-20260301.log")
	b.Append("access-20260301.log", b.Text("access.log"))
	look(false)
	b.Remove("access-20260301.log")
	look(false)
	b.Append("access-20260301.log", b.Text("access.log"))
	look(false)
	look(true)
}

package files

import "testing"

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

func TestTheLiveFileOfAPattern(t *testing.T) {
	for _, c := range []struct{ pattern, file, want string }{
		{"access.log*", "access.log.1.gz", "access.log"},
		{"access.log*", "access.log-20260101-1767225600.zst", "access.log"},
		{"*", "access.log.2.gz", "access.log"},
		{"*.log", "access.log", "access.log"},
		{"access-*", "access-1", "access-1"},
		{"access-*", "access-1.2.gz", "access-1"},
		{"*.gz", "access.log.1.gz", "access.log.1.gz"},
	} {
		b := newBench(t, c.pattern)
		b.Append(c.file, b.Line())
		b.open()
		if got := b.source.matches(b.Path(c.pattern)); len(got) != 1 || got[0] != b.Path(c.want) {
			t.Errorf("%s matches %s: live are %v, want %s", c.pattern, c.file, got, c.want)
		}
	}
}

package files

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/logfile"
	"weir/pkg/collector/tape"
)

// TestAFileThatIsWrittenOverAsItIsRead copies a file and writes over it at each point between identifying and reading
// it. The content of the copy is read as the old log, the new content as a new one.
func TestAFileThatIsWrittenOverAsItIsRead(t *testing.T) {
	for _, test := range []struct {
		name string
		when func(b *bench, f *family, over func())
	}{
		{"after it was identified", func(_ *bench, f *family, over func()) {
			f.scan()
			over()
		}},
		{"after a part was read", func(_ *bench, f *family, over func()) {
			f.scan()
			if err := f.logs[0].tape.More(); err != nil {
				f.in.Logger().Error("more", "error", err)
			}
			over()
		}},
		{"after all was read", func(b *bench, f *family, over func()) {
			f.settle(b.T)
			over()
		}},
		{"while a cut is made", func(b *bench, f *family, over func()) {
			f.scan()
			if err := f.logs[0].tape.More(); err != nil {
				b.T.Error(err)
			}
			if err := f.lines(b.T.Context(), f.logs[0]); err != nil {
				b.T.Error(err)
			}
			over()
			if err := f.logs[0].stream.Drain(b.T.Context()); err != nil {
				b.T.Error(err)
			}
		}},
	} {
		for _, sizes := range [][2]int{{2000, 1000}, {2000, 2000}, {3, 2}, {3, 50}, {1, 1}, {50, 2000}} {
			t.Run(test.name, func(t *testing.T) {
				b := newBench(t, "access.log")
				b.Log("access.log", sizes[0])
				f := b.family("access.log")
				test.when(b, f, func() {
					b.Copy("access.log", "access.log.1")
					b.Overwrite("access.log", sizes[1])
				})
				f.settle(t)
				b.await()
			})
		}
	}
}

// TestAFileWhoseLinesEndAlikeIsKnownByItsBeginning replaces lines by others with the same bytes before the position,
// as lines that end with the same user agent have.
func TestAFileWhoseLinesEndAlikeIsKnownByItsBeginning(t *testing.T) {
	b := newBench(t, "access.log")
	agent := strings.Repeat("Mozilla ", 30)
	alike := func(n int) string { return strings.ReplaceAll(strings.Repeat(b.Line(), n), "test", agent) }
	b.Append("access.log", alike(1))
	lines := func(n int) (text string) {
		for range n {
			text += alike(1)
		}
		return text
	}
	f := b.family("access.log")
	f.settle(t)
	b.Copy("access.log", "access.log.1")
	first, err := os.ReadFile(b.Path("access.log"))
	if err != nil {
		t.Fatal(err)
	}
	text := lines(8)
	if i := len(first); !bytes.Equal(first[i-tape.TailBytes:], []byte(text)[i-tape.TailBytes:i]) {
		t.Fatal("the lines are not alike")
	}
	if err := os.WriteFile(b.Path("access.log"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f.settle(t)
	b.await()
}

// TestAFileThatGrowsAsItIsPutAsideIsReadOn writes to a file after its last read and before it is closed.
func TestAFileThatGrowsAsItIsPutAsideIsReadOn(t *testing.T) {
	t.Run("rotated, and idle", func(t *testing.T) {
		b := newBench(t, "access.log")
		b.Log("access.log.1", 10)
		f := b.family("access.log")
		f.settle(t)
		b.Log("access.log.1", 10)
		f.logs[0].grown = time.Now().Add(-time.Hour)
		f.tidy()
		f.settle(t)
		b.await()
		f.logs[0].grown = time.Now().Add(-time.Hour)
		if f.tidy(); len(f.logs) > 0 {
			t.Error("a file that nothing is added to stays open")
		}
	})
	t.Run("compressed, and not whole yet", func(t *testing.T) {
		b := newBench(t, "access.log")
		b.Log("access.log.1", 2000)
		b.Compress("access.log.1", ".gz")
		whole, err := os.ReadFile(b.Path("access.log.1.gz"))
		if err != nil {
			t.Fatal(err)
		}
		b.Remove("access.log.1.gz")
		b.Append("access.log.1.gz", string(whole[:len(whole)/2]))
		f := b.family("access.log")
		f.scan()
		if err := f.readLog(t.Context(), f.logs[0]); err != errUnfinished {
			t.Fatal(err)
		}
		b.Append("access.log.1.gz", string(whole[len(whole)/2:len(whole)/2+100]))
		f.drop(t.Context(), f.logs[0])
		f.settle(t)
		if !f.undecided {
			t.Error("a file that is not whole yet is not looked at again")
		}
		b.Append("access.log.1.gz", string(whole[len(whole)/2+100:]))
		f.settle(t)
		b.await()
	})
}

// TestZerosBeforeALineAreNoPartOfIt lets a writer continue at its own offset in a file that was cut off.
func TestZerosBeforeALineAreNoPartOfIt(t *testing.T) {
	for _, hole := range []int{1, 5000, 3 * logfile.MaxLine} {
		b := newBench(t, "access.log")
		b.Append("access.log", strings.Repeat("\x00", hole))
		b.Log("access.log", 3)
		f := b.family("access.log")
		f.settle(t)
		b.await()
	}
}

// TestAFileThatLostItsEnd simulates a loss of power that takes bytes from a log which its disk had not stored,
// although they were read, counted and noted. They are not counted again, and later ones are.
func TestAFileThatLostItsEnd(t *testing.T) {
	for _, test := range []struct {
		name string
		lose func(b *bench, size int64) // the file ends there, in the midst of a line
		more int                        // lines before it is looked at again
	}{
		{"shorter", func(b *bench, size int64) { b.Truncate("access.log", size) }, 10},
		{"shorter, and longer by now", func(b *bench, size int64) { b.Truncate("access.log", size) }, 300},
		{"zeros", func(b *bench, size int64) {
			b.Truncate("access.log", size)
			b.Truncate("access.log", size+8000)
		}, 10},
		{"rotated away since", func(b *bench, size int64) {
			b.Truncate("access.log", size)
			b.Rename("access.log", "access.log.1")
			long := time.Now().Add(-time.Hour)
			if err := os.Chtimes(b.Path("access.log.1"), long, long); err != nil {
				b.T.Fatal(err)
			}
		}, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, "access.log")
			heard := b.listen()
			b.Log("access.log", 200)
			b.family("access.log").settle(t)
			b.await()
			b.stop()

			info, err := os.Stat(b.Path("access.log"))
			if err != nil {
				t.Fatal(err)
			}
			test.lose(b, info.Size()-5010)
			b.Append("access.log", "\n")
			b.Log("access.log", test.more)
			b.family("access.log").settle(t)
			b.await()
			if strings.Count(heard.String(), "lost its end") != 1 {
				t.Error("it is not said once")
			}
			b.stop()
			b.Log("access.log", 10)
			b.family("access.log").settle(t)
			b.await()
			if strings.Count(heard.String(), "lost its end") != 1 {
				t.Error("it is said again")
			}
		})
	}
}

// TestAFileThatMayNotBeReadIsTriedAgain uses a file that no user can open: a link to itself.
func TestAFileThatMayNotBeReadIsTriedAgain(t *testing.T) {
	b := newBench(t, "access.log")
	if err := os.Symlink("access.log", b.Path("access.log")); err != nil {
		t.Fatal(err)
	}
	f := b.family("access.log")
	f.settle(t)
	b.source.reportBarred()
	if status := b.source.Status(); status.CaughtUp || !strings.Contains(status.Error, b.Path("access.log")) || !f.undecided {
		t.Errorf("the status is %+v", status)
	}
	b.source.barred.set("damaged", map[string]error{b.Path("access.log.1.gz"): errBroken}) // shown next to it
	if status := b.source.Status(); len(status.Errors) != 2 || status.Error != status.Errors[0] || !strings.Contains(status.Errors[1], errBroken.Error()) {
		t.Errorf("the status is %+v", status)
	}
	b.source.barred.set("damaged", nil)
	b.Remove("access.log")
	b.Log("access.log", 10)
	f.settle(t)
	b.await()
	b.source.reportBarred()
	if status := b.source.Status(); !status.CaughtUp || status.Error != "" {
		t.Errorf("the status is still %+v", status)
	}
}

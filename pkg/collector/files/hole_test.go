package files

import (
	"strings"
	"testing"
)

// hole is the beginning of a file that was cut off under a writer that continues at its own offset.
var hole = strings.Repeat("\x00", 5000)

// Logs that begin with zeros are not copies of one another: each is read, also when it is packed, and counted once.
func TestLogsThatBeginWithZeros(t *testing.T) {
	b := newBench(t, "*access.log")
	names := []string{"a.access.log", "b.access.log", "c.access.log"}
	for i, name := range names {
		b.Append(name, strings.Repeat(hole, 1+i))
		b.Log(name, 40)
	}
	b.start()
	b.await()
	for _, name := range names {
		b.Log(name, 3)
	}
	b.await()
	b.stop()
	b.Rename(names[0], names[0]+".1")
	b.Compress(names[0]+".1", ".gz")
	for _, name := range names {
		b.Log(name, 5)
	}
	b.start()
	b.await()
}

// A log that is cut off, and cut off again, under such a writer is another log each time.
func TestALogThatIsCutOffUnderItsWriterTwice(t *testing.T) {
	b := newBench(t, "access.log")
	heard := b.listen()
	b.Log("access.log", 50)
	f := b.family("access.log")
	f.settle(t)
	for range 3 {
		size := len(b.Text("access.log"))
		b.Truncate("access.log", 0)
		b.Truncate("access.log", int64(size))
		b.Log("access.log", 50)
		f.settle(t)
		b.await()
	}
	if heard.Has("lost its end") {
		t.Error("it is taken for one log that lost its end")
	}
}

// A file of zeros only is identified by the text that is written after them.
func TestALogThatIsWrittenBehindZeros(t *testing.T) {
	b := newBench(t, "*access.log")
	b.Append("access.log", hole)
	b.Append("b.access.log", hole+hole)
	b.start()
	b.Log("access.log", 40)
	b.Log("b.access.log", 40)
	b.await()
	b.stop()
	b.Log("access.log", 5)
	b.Log("b.access.log", 5)
	b.start()
	b.await()
}

// A copy of a log that begins with zeros is seen while its writer is still at the zeros. It is no log of its own.
func TestACopyThatHasOnlyTheZerosYet(t *testing.T) {
	for _, extension := range []string{"", ".gz"} {
		t.Run("copy"+extension, func(t *testing.T) {
			b := newBench(t, "access.log")
			b.Append("access.log", strings.Repeat(hole, 1000))
			b.Log("access.log", 50)
			f := b.family("access.log")
			f.settle(t)
			b.Log("access.log", 3)
			b.Copy("access.log", "copy")
			if extension != "" {
				b.Compress("copy", extension)
			}

			copied := b.Text("copy" + extension)
			b.Append("access.log.1"+extension, copied[:len(copied)/2])
			f.settle(t)
			b.Append("access.log.1"+extension, copied[len(copied)/2:])
			size := len(b.Text("access.log"))
			b.Truncate("access.log", 0)
			b.Truncate("access.log", int64(size))
			b.Log("access.log", 50)
			f.settle(t)
			b.await()
		})
	}
}

package collector

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
		b.append(name, strings.Repeat(hole, 1+i))
		b.log(name, 40)
	}
	b.start()
	b.await()
	for _, name := range names {
		b.log(name, 3)
	}
	b.await()
	b.stop()
	b.rename(names[0], names[0]+".1")
	b.compress(names[0]+".1", ".gz")
	for _, name := range names {
		b.log(name, 5)
	}
	b.start()
	b.await()
}

// A log that is cut off, and cut off again, under such a writer is another log each time.
func TestALogThatIsCutOffUnderItsWriterTwice(t *testing.T) {
	b := newBench(t, "access.log")
	heard := b.listen()
	b.log("access.log", 50)
	f := b.family("access.log")
	f.settle(t)
	for range 3 {
		size := len(b.text("access.log"))
		b.truncate("access.log", 0)
		b.truncate("access.log", int64(size))
		b.log("access.log", 50)
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
	b.append("access.log", hole)
	b.append("b.access.log", hole+hole)
	b.start()
	b.log("access.log", 40)
	b.log("b.access.log", 40)
	b.await()
	b.stop()
	b.log("access.log", 5)
	b.log("b.access.log", 5)
	b.start()
	b.await()
}

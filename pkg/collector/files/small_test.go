package files

import (
	"fmt"
	"testing"
)

// A small log is packed while its process still writes to it. Whenever the collector looks or restarts meanwhile, each
// line counts once: those in both files, and those that are only in the file that is packed.
func TestASmallLogPackedTooEarly(t *testing.T) {
	for _, more := range []int{3, 30} { // more than 1,024 bytes too
		for turn := range 64 {
			t.Run(fmt.Sprintf("%d lines, turn %b", more, turn), func(t *testing.T) {
				b := newBench(t, "access.log")
				f := b.family("access.log")
				look := func(bit int) {
					if turn>>bit&1 == 1 {
						f.settle(t)
					}
				}
				restart := func(bit int) {
					if turn>>bit&1 == 1 {
						b.stop()
						f = b.family("access.log")
					}
				}

				b.Log("access.log", 5)
				look(0)
				b.Rename("access.log", "access.log.1")
				early := packed(t, ".gz", b.Text("access.log.1"))
				b.Log("access.log.1", more)
				look(1)
				restart(2)
				b.Append("access.log.1.gz", string(early))
				look(3)
				restart(4)
				f.settle(t)
				b.Remove("access.log.1")
				restart(5)
				b.Log("access.log", 1)
				f.settle(t)
				b.sink.Await(t, b.Want)
			})
		}
	}
}

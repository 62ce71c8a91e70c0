package collector

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"time"

	"weir/test/wait"
)

// A packed log that is damaged is read up to the damage, and later files are read all the same. Bytes after its end
// are passed over. Each problem is reported once.
func TestAPackedLogThatIsDamaged(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func([]byte) []byte{
		"in the midst":   func(b []byte) []byte { copy(b[len(b)/2:], "this is not what was written here"); return b },
		"its checksum":   func(b []byte) []byte { b[len(b)-8]++; return b },
		"behind its end": func(b []byte) []byte { return append(b, "this was never compressed, and is no header"...) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "access.log")
			heard := b.listen()
			old := ""
			for range 5000 {
				old += b.Line()
			}
			before := b.Lines
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			if _, err := w.Write([]byte(old)); err != nil {
				t.Fatal(err)
			}
			w.Close()
			b.Put("access.log.1.gz", harm(packed.Bytes()), time.Hour)
			clear(b.Want)
			b.Log("access.log", 10)
			b.start()
			wait.Until(t, "the live file to be read", func() bool {
				keys, _ := b.sink.Counted(t)
				total := int64(0)
				for _, n := range keys {
					total += n
				}
				return total > 10 && total <= int64(before)+10 && heard.Has("a packed file is cut off or damaged") && b.collector.Status().CaughtUp
			})
			b.awaitRead("access.log")
			if n := strings.Count(heard.String(), "a packed file is cut off or damaged"); n != 1 {
				t.Errorf("said %d times", n)
			}
			if name == "in the midst" {
				return
			}
			keys, _ := b.sink.Counted(t)
			for key, n := range keys {
				if n < int64(before)/7 {
					t.Errorf("%s is counted %d times", key, n)
				}
			}
		})
	}
}

package collector

import (
	"reflect"
	"testing"

	"weir/pkg/collector/pipeline"
	"weir/test/wait"
)

// A packed file that was read to its end stays in the status, after a restart and under another name too, until it is
// deleted. A file that is cut off is not among them.
func TestReadFilesStayInTheStatus(t *testing.T) {
	t.Parallel()
	b := newBench(t, "access.log")
	shows := func(names ...string) {
		t.Helper()
		var want *pipeline.ReadFiles
		if len(names) > 0 {
			want = &pipeline.ReadFiles{Files: len(names)}
			for _, name := range names {
				want.Names = append(want.Names, b.Path(name))
			}
		}
		wait.Until(t, "the files that were read", func() bool {
			return reflect.DeepEqual(b.collector.Status().Sources[0].Read, want)
		})
	}
	b.Log("access.log.1", 50)
	b.Compress("access.log.1", ".gz")
	b.Log("access.log", 10)
	b.start()
	b.await()
	shows("access.log.1.gz")

	b.stop()
	b.start()
	b.await()
	shows("access.log.1.gz")
	b.Rename("access.log.1.gz", "access.log.2.gz")
	shows("access.log.2.gz")
	b.Append("access.log.3.gz", "\x1f\x8b\x08\x00 cut off")
	b.Log("access.log", 10)
	b.await()
	shows("access.log.2.gz")
	b.Remove("access.log.2.gz")
	shows()
}

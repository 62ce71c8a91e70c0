package crash

import (
	"fmt"
	"testing"

	"weir/test/journals"
)

func newJournal(t testing.TB) *streamServer {
	t.Helper()
	folder := t.TempDir()
	writer := journals.Start(t, folder, "system")
	return &streamServer{
		source: fmt.Sprintf("{journald: {folder: %q, unit: nginx}, format: combined}", folder),
		write:  writer.Add,
		restart: func() {
			writer.Settle()
			writer.Kill()
			writer.Restart()
		},
	}
}

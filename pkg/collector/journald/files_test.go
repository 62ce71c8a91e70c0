package journald

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// A file that gets another name while the folder is read is among the files of its log.
func TestFilesThatAreRenamed(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, id byte) {
		header := make([]byte, headerBytes)
		copy(header, signature)
		header[24], header[40], header[72], header[160], header[168] = id, 1, 1, id, id // its own ID, a machine, a series, one entry
		if err := os.WriteFile(filepath.Join(folder, name), header, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("system.journal", 1)
	for n := range 20 {
		write("user-"+string(rune('a'+n))+".journal", 9)
	}

	var moving sync.WaitGroup
	ended := make(chan struct{})
	moving.Go(func() {
		for at, n := "system.journal", 0; ; n++ {
			select {
			case <-ended:
				return
			case <-time.After(50 * time.Microsecond):
			}
			other := "system@" + strconv.Itoa(n) + ".journal"
			if err := os.Rename(filepath.Join(folder, at), filepath.Join(folder, other)); err != nil {
				t.Error(err)
				return
			}
			at = other
		}
	})
	for range 2000 {
		all, err := readSeries(folder, "system")
		if err == nil && (len(all) != 1 || !slices.ContainsFunc(all[0].files, func(f file) bool { return f.id[:2] == "01" })) {
			t.Errorf("the file is missing among %d series", len(all))
			break
		}
	}
	close(ended)
	moving.Wait()
}

package database

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/test/real"
	"weir/test/wait"
)

// Calls that come after the close has begun give back their places.
func TestCallsDuringACloseTakeNoPlace(t *testing.T) {
	in := &opening{guard: newGuard(vfs.NewMem()), calls: make(chan struct{}, maxCalls), closing: true}
	for range 2 * maxCalls {
		if _, err := call(context.Background(), in, func() (bool, error) { return true, nil }); err == nil || len(in.calls) > 0 {
			t.Fatalf("%d places are taken, %v", len(in.calls), err)
		}
	}
}

// A command of root that opens the folder of a service leaves no file there that the service cannot read.
func TestFilesBelongToTheOwnerOfTheFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		real.Missing(t, "root is missing, who can open the folder of another user")
	}
	const service = 65534
	folder := t.TempDir()
	own := func() {
		files, err := filepath.Glob(filepath.Join(folder, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range append(files, folder) {
			if err := os.Chown(name, service, service); err != nil {
				t.Fatal(err)
			}
		}
	}

	own()
	for range 2 {
		db, err := Open(t.Context(), Options{Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Do(t.Context(), db, func(db *pebble.DB) (bool, error) {
			return true, errors.Join(db.Set([]byte("k"), []byte("v"), pebble.Sync), db.Flush())
		}); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}

		files, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			info, err := file.Info()
			if err != nil {
				t.Fatal(err)
			}
			if stat := info.Sys().(*syscall.Stat_t); file.Name() != "LOCK" && (stat.Uid != service || stat.Gid != service) {
				t.Errorf("%s belongs to %d:%d", file.Name(), stat.Uid, stat.Gid)
			}
		}
		own()
	}
}

// A process also starts while its disk has no room for the folder.
func TestThereIsNoRoomForTheFolder(t *testing.T) {
	disk, here := real.SmallDisk(t, "24m,nr_inodes=40")
	if !here {
		return
	}
	var fillers []string
	for err := error(nil); err == nil; {
		name := filepath.Join(disk, string(rune('a'+len(fillers))))
		if err = os.WriteFile(name, nil, 0o600); err == nil {
			fillers = append(fillers, name)
		}
	}

	o := Options{Folder: filepath.Join(disk, "store")}
	if db, err := Open(t.Context(), o); !errors.Is(err, ErrBroken) {
		t.Fatalf("%v, %v", db, err)
	}
	o.Anyhow = true
	db, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range fillers {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	wait.Until(t, "open", func() bool { return db.Fault() == nil })
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

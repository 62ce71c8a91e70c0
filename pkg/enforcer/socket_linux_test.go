package enforcer

import (
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"weir/test/real"
	"weir/test/wait"
)

// On a disk that is read-only, as after an error of the file system, checks are answered without the socket. It is made
// when the disk can be written again, also in the place of one that a crash left.
func TestTheSocketOnAReadOnlyDisk(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "weir.sock")
	if err := unix.Mount("weir", folder, "tmpfs", 0, "size=1m"); err != nil {
		real.Missing(t, "a file system cannot be mounted here, which root may do: "+err.Error())
	}
	t.Cleanup(func() { _ = unix.Unmount(folder, unix.MNT_DETACH) })
	remount := func(flags uintptr) {
		if err := unix.Mount("weir", folder, "tmpfs", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	remount(unix.MS_RDONLY)

	r := start(t, list(t), func(c *Config) { c.Socket = path })
	if got := r.ask(r.client, http.MethodGet, "/v1/blocklist", ""); got.status != http.StatusOK {
		t.Errorf("without the socket: %d %s", got.status, got.body)
	}
	remount(0)
	wait.Until(t, "the socket to be there", func() bool {
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	r.stop()
}

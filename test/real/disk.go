//go:build linux

package real

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

const (
	insideName = "WEIR_TEST_MOUNTS" // set where the tests have mounts of their own
	unmounted  = "mounting is refused with mounts of our own, too"
)

// SmallDisk returns a file system in memory of a size ("2m"), until the test ends. It needs only the right to mount:
// root's, or else that of a user and mount namespace in which the test, which must not be a subtest, is run again. here
// means that the test goes on in this process: else it has passed or failed there, and must return. If neither is
// permitted, as in many containers, the test is skipped, also with WEIR_REQUIRE_REAL.
func SmallDisk(t *testing.T, size string) (folder string, here bool) {
	t.Helper()
	folder = t.TempDir()
	err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size="+size)
	switch {
	case err == nil:
		t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
		return folder, true
	case os.Getenv(insideName) != "":
		t.Fatal(unmounted)
	case !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EACCES):
		Missing(t, fmt.Sprintf("mounting a small disk (tmpfs): %v", err))
	case !runInside(t):
		const why = "NOT TESTED: mounting a small disk is permitted neither to us (it needs root, CAP_SYS_ADMIN) nor in a user namespace (unshare -Urm)"
		fmt.Fprintln(os.Stderr, t.Name(), why)
		t.Skip(why)
	}

	return "", false
}

// runInside runs the test with its own mounts; it returns false if that is not permitted.
func runInside(t *testing.T) (ran bool) {
	t.Helper()
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v=true")
	again.Env = append(os.Environ(), insideName+"=yes")
	var said bytes.Buffer
	again.Stdout, again.Stderr = &said, &said
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}

	err := again.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || strings.Contains(said.String(), unmounted) {
		return false
	}

	t.Log(said.String())
	if err != nil {
		t.Error("with mounts of its own: ", err)
	}
	return true
}

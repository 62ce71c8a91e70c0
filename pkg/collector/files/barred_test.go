package files

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"weir/test/wait"
)

func TestUnreadableFilesAreReported(t *testing.T) {
	faults := map[string]error{}
	for i := range 7 {
		path := fmt.Sprintf("/var/log/nginx/%d.log", i)
		faults[path] = &os.PathError{Op: "open", Path: path, Err: os.ErrPermission}
	}
	text := barredFault(faults, "cannot be read").Error()
	for _, want := range []string{"7 files cannot be read: open /var/log/nginx/0.log: permission", "4.log: permission denied; and 2 more; let ", "adm", "setfacl", " /var/log/nginx"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	one := barredFault(map[string]error{"x": fmt.Errorf("reading x: %w", os.ErrDeadlineExceeded)}, "cannot be read").Error()
	if one != "reading x: i/o timeout" {
		t.Error(one)
	}
}

// More logs than a process may have open leave some descriptors to its listeners and its store. They are read once it may
// have more.
func TestLogsLeaveDescriptorsToOthers(t *testing.T) {
	var most syscall.Rlimit
	limit := func(cur uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: cur, Max: most.Max}); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { limit(most.Cur) })

	b := newBench(t, "*access.log")
	for i := range 300 {
		b.Log(fmt.Sprintf("%d.access.log", i), 1)
	}
	limit(200)
	b.start()
	wait.Until(t, "the status has the remedy", func() bool { return strings.Contains(fmt.Sprint(b.status().Errors), "LimitNOFILE") })
	for range 15 {
		opened, err := os.Open(b.Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Close()
	}

	limit(most.Cur)
	b.await()
}

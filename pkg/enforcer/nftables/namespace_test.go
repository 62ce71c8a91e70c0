//go:build linux

package nftables

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// The tests run in their own network namespace, where the firewall is theirs. Without one, tests of real kernels are
// skipped.
const inside = "WEIR_TEST_NETWORK"

func TestMain(m *testing.M) {
	if os.Getenv(inside) == "" {
		if code, ran := runInside(); ran {
			os.Exit(code)
		}
	}
	goleak.VerifyTestMain(m)
}

// runInside runs the tests in their own network namespace, if necessary as their own user; it returns false where
// neither is permitted.
func runInside() (code int, ran bool) {
	ourselves := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	for _, of := range []*syscall.SysProcAttr{
		{Cloneflags: syscall.CLONE_NEWNET},
		{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUSER, UidMappings: ourselves},
	} {
		tests := exec.Command(os.Args[0], os.Args[1:]...)
		tests.Env = append(os.Environ(), inside+"=yes")
		tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
		tests.SysProcAttr = of
		err := tests.Run()
		if exit := (*exec.ExitError)(nil); err == nil || errors.As(err, &exit) {
			return tests.ProcessState.ExitCode(), true
		}
		fmt.Fprintln(os.Stderr, "no network of the tests' own:", err)
	}
	return 0, false
}

// needKernel skips a test without its own network namespace, or without nft to check the result.
func needKernel(t testing.TB) {
	t.Helper()
	_, err := exec.LookPath("nft")
	if os.Getenv(inside) != "" && err == nil {
		return
	}
	if os.Getenv("WEIR_REQUIRE_REAL") != "" {
		t.Fatal("a network namespace (as root) and Debian's nftables are wanted here")
	}
	t.Skip("needs root for a network namespace, and nft: Debian has it in the package nftables")
}

// sh runs a program and returns its output.
func sh(t testing.TB, line string) string {
	t.Helper()
	words := strings.Fields(line)
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

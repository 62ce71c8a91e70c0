// Package timers makes a process wake up less often.
package timers

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// slack is how much later than asked the kernel may wake a thread, so that one wake-up serves several timers.
const slack = 1_000_000 // nanoseconds

// again is set in the environment of the program that Coarsen starts, so that it never starts another one.
const again = "WEIR_TIMERS_COARSENED"

// Coarsen lets all timers of the process be late by up to a millisecond. While a goroutine runs or waits for a disk, a
// thread of Go's looks at it every 20 µs, or 70 with the kernel's usual slack. In a daemon that wakes up for a moment
// some fifty times a second, that is a seventh of its processor time.
//
// A thread takes its slack from the thread that made it, and that one of Go's exists before main. So Coarsen replaces
// the program by itself, as the same process, with the same arguments and open files. It has to be called before
// signals are asked for, because those that came before would be lost. It does nothing where more slack is allowed
// already, or where the kernel refuses.
func Coarsen() {
	if _, set := os.LookupEnv(again); set {
		_ = os.Unsetenv(again)
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if now, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || now >= slack {
		return
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, slack, 0, 0, 0); err == nil {
		if own, err := os.Executable(); err == nil { // and not /proc/self/exe: the process would be called exe
			_ = syscall.Exec(own, os.Args, append(os.Environ(), again+"=1")) // returns only if it failed
		}
	}
}

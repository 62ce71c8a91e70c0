//go:build unix

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// inForeground reports whether this process has the terminal, rather than a shell that runs it in the background.
func inForeground(out *os.File) bool {
	group, err := unix.IoctlGetInt(int(out.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

package kafkatest

import "syscall"

// endWithParent makes the kernel kill the child when this process ends, and keeps a Ctrl-C away from the child.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

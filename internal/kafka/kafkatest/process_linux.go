package kafkatest

import "syscall"

// endWithParent has the kernel kill the child when we end, and keeps a Ctrl-C for us from it.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

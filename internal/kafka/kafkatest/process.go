package kafkatest

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// A process is a child that always ends with this process.
type process struct {
	pid  int
	done chan struct{} // closed at its end
}

// startProcess runs a program, its output going to a file.
func startProcess(output, program string, arguments ...string) (*process, error) {
	file, err := os.Create(output)
	if err != nil {
		return nil, err
	}

	command := exec.Command(program, arguments...)
	command.Stdout, command.Stderr = file, file
	command.SysProcAttr = endWithParent()
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel ends the child with the thread that started it, so this thread must stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer file.Close()
		err := command.Start()
		if err == nil {
			p.pid = command.Process.Pid
		}
		started <- err
		if err == nil {
			command.Wait()
			close(p.done)
		}
	}()

	return p, <-started
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// end signals the process and waits for its end; when it does not end in time it is killed.
func (p *process) end(signal syscall.Signal, patience time.Duration) {
	if p.ended() {
		return
	}
	syscall.Kill(p.pid, signal)
	select {
	case <-p.done:
	case <-time.After(patience):
		syscall.Kill(p.pid, syscall.SIGKILL)
		<-p.done
	}
}

package kafkatest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// tick is what Linux counts the time of processors in, whatever the machine's clock.
const tick = 10 * time.Millisecond

// CPU is what all brokers that run have used of it so far.
func (c *Cluster) CPU() (total time.Duration) {
	for _, b := range c.brokers {
		if b.running != nil {
			total += used(fmt.Sprintf("/proc/%d/stat", b.running.pid))
		}
	}
	return total
}

// Compiling is how much of it their Java has spent so far on making machine code of what runs often. It stands still
// once a broker has done the same work for long enough.
func (c *Cluster) Compiling() (total time.Duration) {
	for _, b := range c.brokers {
		if b.running != nil {
			total += Compiling(b.running.pid)
		}
	}
	return total
}

// KeepCompilers makes a Java keep the threads that compile, so that Compiling never goes back.
const KeepCompilers = "-XX:-UseDynamicNumberOfCompilerThreads"

// Compiling is what the compiler threads of a process have used of the processors so far; nothing of one without Java.
func Compiling(pid int) (total time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, thread := range threads {
		name, _ := os.ReadFile(filepath.Join(thread, "comm"))
		if strings.HasPrefix(string(name), "C1 Compiler") || strings.HasPrefix(string(name), "C2 Compiler") {
			total += used(filepath.Join(thread, "stat"))
		}
	}
	return total
}

// used is what a process or thread has used of the processors.
func used(stat string) time.Duration {
	text, err := os.ReadFile(stat)
	if err != nil {
		return 0
	}
	after := text[strings.LastIndexByte(string(text), ')')+1:] // the name before may have anything in it
	var user, system int64
	fields := strings.Fields(string(after))
	fmt.Sscan(fields[11], &user)
	fmt.Sscan(fields[12], &system)
	return time.Duration(user+system) * tick
}

package kafkatest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// tick is the unit in which Linux counts processor time, independent of the machine's clock.
const tick = 10 * time.Millisecond

// CPU returns the processor time of all running brokers so far.
func (c *Cluster) CPU() (total time.Duration) {
	for _, b := range c.brokers {
		if b.running != nil {
			total += used(fmt.Sprintf("/proc/%d/stat", b.running.pid))
		}
	}
	return total
}

// Compiling returns how much of it Java has spent so far on compiling hot code. It stops growing once a broker has done
// the same work for long enough.
func (c *Cluster) Compiling() (total time.Duration) {
	for _, b := range c.brokers {
		if b.running != nil {
			total += Compiling(b.running.pid)
		}
	}
	return total
}

// KeepCompilers makes a Java keep its compiler threads, so that Compiling never decreases.
const KeepCompilers = "-XX:-UseDynamicNumberOfCompilerThreads"

// Compiling returns the processor time of the compiler threads of a process so far; 0 for a process without Java.
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

// used returns the processor time of a process or thread.
func used(stat string) time.Duration {
	text, err := os.ReadFile(stat)
	if err != nil {
		return 0
	}
	after := text[strings.LastIndexByte(string(text), ')')+1:] // the name before may contain anything
	var user, system int64
	fields := strings.Fields(string(after))
	fmt.Sscan(fields[11], &user)
	fmt.Sscan(fields[12], &system)
	return time.Duration(user+system) * tick
}

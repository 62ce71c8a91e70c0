package kafkatest

import (
	"os"
	"testing"
)

// A broker's compiling is part of its processor time; a process without Java compiles nothing.
func TestCompiling(t *testing.T) {
	cluster := Real(t, Options{Measured: true, MemoryMiB: 256})
	compiling, used := cluster.Compiling(), cluster.CPU()
	if compiling <= 0 || compiling >= used {
		t.Errorf("%s of %s", compiling, used)
	}
	if ours := Compiling(os.Getpid()); ours != 0 {
		t.Errorf("%s of ours", ours)
	}
	cluster.StopBroker(0)
	if compiling, used := cluster.Compiling(), cluster.CPU(); compiling != 0 || used != 0 {
		t.Errorf("%s of %s when none runs", compiling, used)
	}
}

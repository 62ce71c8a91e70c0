package embedded

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// Without descriptors a pair cannot be made, and each try gives back those that it took.
func TestAPairWithoutDescriptors(t *testing.T) {
	ours, theirs, err := newPair() // the first connection of a process takes descriptors that stay
	if err != nil {
		t.Fatal(err)
	}
	ours.Close()
	theirs.Close()

	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = 100
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	var taken []*os.File
	defer func() {
		for _, file := range taken {
			file.Close()
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}()
	take := func() (files int) {
		for {
			file, err := os.Open(os.DevNull)
			if err != nil {
				return files
			}
			taken = append(taken, file)
			files++
		}
	}

	take()
	for free := range 3 { // with 3 both ends can be made, because each copy gives one back
		for range free {
			taken[len(taken)-1].Close()
			taken = taken[:len(taken)-1]
		}
		if _, _, err := newPair(); !errors.Is(err, syscall.EMFILE) {
			t.Fatalf("with %d descriptors: %v", free, err)
		}
		if left := take(); left != free {
			t.Errorf("of %d descriptors %d are left", free, left)
		}
	}
}

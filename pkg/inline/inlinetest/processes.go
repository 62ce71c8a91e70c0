package inlinetest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/pkg/inline"
	"weir/pkg/inline/stored"
	"weir/pkg/window"
)

const (
	childPlace   = "WEIR_INLINE_PLACE" // makes a process of tests one that takes there
	childCallers = 16
	childLimit   = 1500
	admittedLine = "admitted"
)

// Child is for TestMain. In a process that severalProcesses has started it takes until it is refused, and returns true.
func Child(open func(place string) (stored.Backend, error)) bool {
	place := os.Getenv(childPlace)
	if place == "" {
		return false
	}
	if err := takeUntilRefused(open, place); err != nil {
		panic(err)
	}
	return true
}

func takeUntilRefused(open func(place string) (stored.Backend, error), place string) error {
	backend, err := open(place)
	if err != nil {
		return err
	}
	p, err := window.New(window.Config{Limits: []window.Limit{{Hits: childLimit, Per: time.Hour}}, Block: window.Block{For: time.Minute}})
	if err != nil {
		return err
	}
	s, rule := stored.New(stored.Config{Backend: backend}), &inline.Rule{Name: "quota", Policy: p}
	failed := make(chan error, childCallers)
	for range childCallers {
		go func() {
			for {
				var v inline.Verdict
				within, cancel := context.WithTimeout(context.Background(), time.Minute)
				err := s.Take(within, &v, []inline.Want{of(rule, "a", 1)})
				cancel()
				if err != nil || !v.Admitted {
					failed <- err
					return
				}
				fmt.Println(admittedLine)
			}
		}()
	}
	for range childCallers {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}

// severalProcesses: of all attempts that processes of the operating system make of one key, exactly as many are admitted
// as the limit allows, while one process is killed and another stands still.
func severalProcesses(t *testing.T, p *BackendPlace) {
	if p.Name == "" {
		t.Skip("other processes cannot open it")
	}
	s, rule := p.store(t, Options{}), perHour(t, "quota", childLimit)
	untilOne(t, s, of(rule, "a", 0))
	var mu sync.Mutex
	admitted := 0
	reached := map[int]func(){}
	note := func() {
		mu.Lock()
		defer mu.Unlock()
		admitted++
		if do := reached[admitted]; do != nil {
			do()
		}
	}

	children, own := make([]*exec.Cmd, 4), make([]int, 4)
	var reading [4]sync.WaitGroup
	signal := func(i int, s os.Signal) func() {
		return func() {
			if err := children[i].Process.Signal(s); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		}
	}
	reached[childLimit/5], reached[childLimit/3] = signal(0, syscall.SIGKILL), signal(1, syscall.SIGSTOP)
	var logged [4]strings.Builder
	mu.Lock() // until all have begun
	for i := range children {
		children[i] = exec.Command(os.Args[0])
		children[i].Env = append(os.Environ(), childPlace+"="+p.Name)
		children[i].Stderr = &logged[i]
		children[i].SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := children[i].StdoutPipe()
		if err == nil {
			err = children[i].Start()
		}
		if err != nil {
			mu.Unlock()
			t.Fatal(err)
		}
		reading[i].Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if lines.Text() == admittedLine {
					own[i]++
					note()
				}
			}
		})
	}
	mu.Unlock()

	// The one that stands still holds up no other, and finds nothing left when it goes on.
	for _, i := range []int{0, 2, 3, 1} {
		if i == 1 {
			signal(1, syscall.SIGCONT)()
		}
		reading[i].Wait()
		if err := children[i].Wait(); (err != nil) != (i == 0) {
			t.Errorf("process %d: %v\n%s", i, err, logged[i].String())
		}
	}
	t.Logf("admitted in each: %v", own)
	if admitted > childLimit || admitted < childLimit-childCallers { // those of the killed process may be missing
		t.Errorf("%d are admitted of %d", admitted, childLimit)
	}
	if v := untilOne(t, s, of(rule, "a", 0)); v.Taken[0].Remaining != 0 {
		t.Errorf("%d remain, and one was refused", v.Taken[0].Remaining)
	}
}

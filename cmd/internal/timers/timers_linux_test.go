package timers

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A state is what a program that has called Coarsen sees.
type state struct {
	Slack, Pid int
	Name       string // that ps and pgrep know
	Args       []string
	Input      string
	Marked     bool
}

func TestMain(m *testing.M) {
	if os.Args[len(os.Args)-1] != "coarsen" {
		os.Exit(m.Run())
	}
	io.WriteString(os.Stderr, "begun ")
	Coarsen()
	input, _ := io.ReadAll(os.Stdin)
	_, marked := os.LookupEnv(again)
	json.NewEncoder(os.Stdout).Encode(state{slackNow(), os.Getpid(), name(), os.Args, string(input), marked})
}

func name() string {
	text, _ := os.ReadFile("/proc/self/comm")
	return string(text)
}

func slackNow() int {
	now, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return -1
	}
	return now
}

// The program begins again, so that all its threads have the slack; its process, name, arguments and input stay. Where more
// slack is allowed already, it begins once.
func TestCoarsen(t *testing.T) {
	for allowed, begun := range map[int]string{50_000: "begun begun ", 7_000_000: "begun "} {
		t.Run(begun, func(t *testing.T) {
			runtime.LockOSThread() // the thread, which is spoilt, ends with its goroutine
			if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(allowed), 0, 0, 0); err != nil {
				t.Fatal(err)
			}

			program := exec.Command(os.Args[0], "a b", "", "coarsen")
			var said, errors strings.Builder
			program.Stdin, program.Stdout, program.Stderr = strings.NewReader("some input"), &said, &errors
			if err := program.Run(); err != nil {
				t.Fatal(err)
			}
			var got state
			if err := json.Unmarshal([]byte(said.String()), &got); err != nil {
				t.Fatal(err, said.String())
			}
			want := state{max(allowed, slack), program.Process.Pid, name(), program.Args, "some input", false}
			if !reflect.DeepEqual(got, want) || errors.String() != begun {
				t.Errorf("got %+v, %q\nwant %+v, %q", got, errors.String(), want, begun)
			}
		})
	}
}

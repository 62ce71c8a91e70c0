// Command weir is the operator's tool: it runs rules over yesterday's logs, tests and checks them, and shows how
// lines are read.
//
// Results and help go to standard output, errors and progress to standard error, progress only to a terminal. The
// exit code is 0 when all was done, 1 when it failed, 2 for wrong use or a wrong configuration, and 3 when a
// condition that was asked for did not hold. The first Ctrl-C ends a command in order, a second one at once.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"weir/cmd/internal/exit"
	"weir/cmd/internal/timers"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		timers.Coarsen()
	}
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ended := make(chan struct{})
	defer close(ended)
	context.AfterFunc(ctx, func() {
		stop() // from now on a signal has its usual effect: the second one ends at once
		endSoon(ended, args, stderr)
	})

	started := false
	root := newRoot(&started)
	root.SetArgs(args[1:])
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !started {
		err = exit.Wrong(err)
	}
	return exit.Report(err, stderr)
}

// endSoon ends the process when a command does not end by itself after a signal, for example because it waits for a
// named pipe or a terminal. run and send may need long to end in order.
func endSoon(ended <-chan struct{}, args []string, stderr io.Writer) {
	patience := 2 * time.Second
	if len(args) > 1 && (args[1] == "run" || args[1] == "send") {
		patience = time.Minute
	}
	select {
	case <-ended:
	case <-time.After(patience):
		fmt.Fprintln(stderr, "weir: stopped before the end")
		os.Exit(exit.Failed)
	}
}

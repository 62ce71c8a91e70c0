// Command weir is the operator's tool: it runs rules over yesterday's logs, tests and checks them, and shows how
// lines are read.
//
// Results and help go to standard output, errors and progress to standard error, progress only to a terminal. The
// exit code is 0 when all was done, 1 when it failed, 2 for wrong use or a wrong configuration, and 3 when a
// condition that was asked for did not hold. The first Ctrl-C ends a command in order, a second one at once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"weir/internal/yamlfile"
)

const (
	exitDone = iota
	exitFailed
	exitWrong
	exitUnmet
)

func main() { os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr)) }

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
		err = wrong{err}
	}
	return report(err, stderr)
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
		os.Exit(exitFailed)
	}
}

// A wrong is an error that the user corrects with other arguments or another configuration.
type wrong struct{ error }

func (w wrong) Unwrap() error { return w.error }

// An unmet is a condition that the user asked for and that did not hold.
type unmet struct{ error }

func wrongf(format string, args ...any) error { return wrong{fmt.Errorf(format, args...)} }

func unmetf(format string, args ...any) error { return unmet{fmt.Errorf(format, args...)} }

// report writes each error on a line and returns the exit code. Wrong use takes precedence over failure, and failure
// over a condition that did not hold: after a failure it is not known whether the condition holds.
func report(err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, syscall.EPIPE) { // the reader of our output closed the pipe
		return exitDone
	}
	if ended := exit(0); errors.As(err, &ended) {
		return int(ended)
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("stopped before the end")
	}

	writeErrors(err, stderr)
	if errors.As(err, new(wrong)) || errors.As(err, new(yamlfile.Faults)) {
		return exitWrong
	}
	if onlyUnmet(err) {
		return exitUnmet
	}

	return exitFailed
}

// writeErrors writes each joined error on a line of its own, and faults of files as compilers write theirs.
func writeErrors(err error, stderr io.Writer) {
	if all := joined(err); all != nil {
		for _, one := range all {
			writeErrors(one, stderr)
		}
		return
	}
	if faults := (yamlfile.Faults)(nil); errors.As(err, &faults) {
		fmt.Fprintln(stderr, faults.Error())
		return
	}
	fmt.Fprintln(stderr, "weir:", err)
}

func onlyUnmet(err error) bool {
	all := joined(err)
	if all == nil {
		return errors.As(err, new(unmet))
	}
	return !slices.ContainsFunc(all, func(one error) bool { return !onlyUnmet(one) })
}

// joined returns the errors that errors.Join has put together. It returns nil for any other error, also for one that
// wraps several causes in a text of its own.
func joined(err error) []error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var lines []string
	for _, one := range several.Unwrap() {
		lines = append(lines, one.Error())
	}
	if strings.Join(lines, "\n") != err.Error() {
		return nil
	}
	return several.Unwrap()
}

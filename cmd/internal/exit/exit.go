// Package exit turns the error with which a command ends into its messages and its exit code.
//
// An error says by itself what kind it is: wrong use (Wrong), a condition that did not hold (Unmet), or a failure, which
// is every other error. Where it was joined or wrapped does not matter. The package knows no command and ends no process.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"weir/internal/yamlfile"
)

// The exit codes of all commands.
const (
	Done = iota
	Failed
	WrongUse // wrong use or a wrong configuration
	NotMet   // a condition that was asked for did not hold
)

// A wrongUseError is an error that the user corrects with other arguments or another configuration.
type wrongUseError struct{ error }

func (w wrongUseError) Unwrap() error { return w.error }

// Wrong makes an error one of wrong use.
func Wrong(err error) error { return wrongUseError{err} }

// Wrongf makes an error of wrong use.
func Wrongf(format string, args ...any) error { return wrongUseError{fmt.Errorf(format, args...)} }

// IsWrong reports whether an error is one of wrong use or of a wrong configuration.
func IsWrong(err error) bool {
	return errors.As(err, new(wrongUseError)) || errors.As(err, new(yamlfile.Faults))
}

// A notMetError is a condition that the user asked for and that did not hold.
type notMetError struct{ error }

func (n notMetError) Unwrap() error { return n.error }

// Unmet makes an error that of a condition that did not hold.
func Unmet(err error) error { return notMetError{err} }

// Unmetf makes the error of a condition that did not hold.
func Unmetf(format string, args ...any) error { return notMetError{fmt.Errorf(format, args...)} }

// A reported is the exit code for an error that has been logged already.
type reported int

func (r reported) Error() string { return fmt.Sprintf("ended with code %d", int(r)) }

// Reported returns the error for an exit code of something that has reported its errors itself; nil for Done.
func Reported(code int) error {
	if code == Done {
		return nil
	}
	return reported(code)
}

// Report writes each error on a line and returns the exit code. Wrong use takes precedence over failure, and failure
// over a condition that did not hold: after a failure it is not known whether the condition holds.
func Report(err error, stderr io.Writer) int {
	// A broken pipe is a failure like any other, for example of a socket. When the reader of standard output has closed
	// it, the error does not get here: the Go runtime ends the process by SIGPIPE.
	if err == nil {
		return Done
	}

	// It has written its errors itself.
	if code := reported(0); errors.As(err, &code) {
		return int(code)
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("stopped before the end")
	}

	writeErrors(err, stderr)
	if IsWrong(err) {
		return WrongUse
	}
	if onlyUnmet(err) {
		return NotMet
	}

	return Failed
}

// writeErrors writes each joined error on a line of its own, and faults of files as compilers write theirs. An error
// that several questions to one part have led to is written once.
func writeErrors(err error, stderr io.Writer) {
	var written []string
	for _, one := range single(err) {
		text := "weir: " + one.Error()
		if faults := (yamlfile.Faults)(nil); errors.As(one, &faults) {
			text = faults.Error()
		}
		if !slices.Contains(written, text) {
			fmt.Fprintln(stderr, text)
			written = append(written, text)
		}
	}
}

// single returns an error, or all that are joined in it.
func single(err error) (all []error) {
	several := joined(err)
	if several == nil {
		return []error{err}
	}
	for _, one := range several {
		all = append(all, single(one)...)
	}
	return all
}

func onlyUnmet(err error) bool {
	all := joined(err)
	if all == nil {
		return errors.As(err, new(notMetError))
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

// Cause returns the error at the bottom, without the address that messages already contain.
func Cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

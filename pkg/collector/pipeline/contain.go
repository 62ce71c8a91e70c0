package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"weir/internal/sleep"
)

const (
	restartAfter = 10 * time.Second
	restartMost  = 5 * time.Minute
)

// A panicked is a panic of a part of a source, as an error.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string {
	return fmt.Sprintf("an error in the program: panic: %v", p.value)
}

// IsPanic reports whether an error is a panic that Contained has returned.
func IsPanic(err error) bool {
	_, is := errors.AsType[*panicked](err)
	return is
}

// Contained runs a part of a source and returns its panic as an error. A panic must not end the process, in which
// other sources run.
func Contained(part func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicked{value, debug.Stack()}
		}
	}()
	return part()
}

// Outlive runs a part of a source until it ends without a panic. After a panic Outlive reports the part as stopped,
// waits (longer after each panic), and starts it again. clean prepares the part for that from the journal: nothing
// that the part had in memory is trusted.
func (in *Intake) Outlive(ctx context.Context, name string, part, clean func() error) error {
	defer in.stopped.remove(name)
	pauseFor := in.restartAfter()
	for {
		began := in.Now()
		err := Contained(part)
		if in.Now().Sub(began) > restartMost {
			pauseFor = in.restartAfter()
		}

		fault, is := errors.AsType[*panicked](err)
		if !is {
			return err
		}

		// clean runs the source's own code, which may panic as well.
		for fault != nil {
			in.stop(name, fault, pauseFor)
			sleep.For(ctx, pauseFor)
			if ctx.Err() != nil {
				return nil
			}
			pauseFor, fault = min(2*pauseFor, restartMost), nil
			if err := Contained(clean); err != nil && !errors.As(err, &fault) {
				return err
			}
		}

		in.stopped.remove(name)
		in.logger.Info("a part of a source that was stopped by an error starts again", "part", name)
	}
}

// Isolated runs work for one client, such as a connection. A panic ends that work and nothing else.
func (in *Intake) Isolated(name string, do func()) (sound bool) {
	err := Contained(func() error { do(); return nil })
	if fault, is := errors.AsType[*panicked](err); is && fault.value != http.ErrAbortHandler {
		in.panicked(name, fault)
	}
	return err == nil
}

// stop reports that a part has stopped.
func (in *Intake) stop(name string, p *panicked, pauseFor time.Duration) {
	what := fmt.Sprintf("%s is stopped by %v; it is tried again from time to time: please report it, with the log", name, p)
	in.stopped.add(name, what)
	in.troubles.note(trouble{log: name, operation: "run", what: what, at: in.Now()})
	in.panicked(name, p, "again in", pauseFor)
}

// panicked counts and logs a panic.
func (in *Intake) panicked(name string, p *panicked, more ...any) {
	in.metrics.panics.Inc()
	in.logger.Error("a part of a source is stopped by an error in the program, the others continue: please report it",
		append([]any{"part", name, "panic", fmt.Sprint(p.value), "stack", string(p.stack)}, more...)...)
}

// restartAfter is the first pause after a panic.
func (in *Intake) restartAfter() time.Duration {
	return cmp.Or(in.pipeline.config.RestartAfter, restartAfter)
}

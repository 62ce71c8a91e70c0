package topic

import (
	"errors"
	"fmt"
	"slices"
)

// The kinds of errors. Every error of a Log wraps one of them, or is the cause of the caller's context.
var (
	ErrUnreachable = errors.New("unreachable")  // no broker answers, or the disk fails
	ErrTLS         = errors.New("tls")          // one side speaks TLS and the other does not, or a certificate is not accepted
	ErrLogin       = errors.New("login")        // user, password or mechanism are not accepted
	ErrForbidden   = errors.New("forbidden")    // the user may not do this
	ErrNoTopic     = errors.New("no topic")     // the topic, or that partition of it, does not exist
	ErrNoLeader    = errors.New("no leader")    // the partition has no leader, or another broker than the one asked leads it
	ErrPartitions  = errors.New("partitions")   // the topic has another number of partitions than it should; permanent
	ErrSettings    = errors.New("settings")     // a topic's settings are refused or are wrong; permanent
	ErrInvalid     = errors.New("invalid")      // the log refuses this record; permanent, but with Kafka it waits until the topic's settings are others
	ErrTooLarge    = errors.New("too large")    // the log refuses a record or a commit of this size; permanent
	ErrTrimmed     = errors.New("trimmed")      // the log begins after the wanted offset
	ErrPastEnd     = errors.New("past the end") // the log ends before the wanted offset
	ErrExpelled    = errors.New("expelled")     // the group has gone on without us
	ErrFull        = errors.New("full")         // the appender's queue has no room
	ErrClosed      = errors.New("closed")       // by us
	ErrOther       = errors.New("other")        // any other error
)

// ErrPermanent is, by errors.Is, every error that repeating the same call cannot solve. All others are transient.
var ErrPermanent = errors.New("permanent")

var permanent = []error{ErrPartitions, ErrSettings, ErrInvalid, ErrTooLarge}

// kinds are all of them, so that an error can pass from one process to another.
var kinds = []error{ErrUnreachable, ErrTLS, ErrLogin, ErrForbidden, ErrNoTopic, ErrNoLeader, ErrPartitions, ErrSettings, ErrInvalid,
	ErrTooLarge, ErrTrimmed, ErrPastEnd, ErrExpelled, ErrFull, ErrClosed, ErrOther}

// KindNamed returns the kind with a name, which is its text; ErrOther when there is none.
func KindNamed(name string) error {
	for _, kind := range kinds {
		if kind.Error() == name {
			return kind
		}
	}
	return ErrOther
}

// An Error is an error in plain words: one line, and its kind.
type Error struct {
	Text  string
	Kind  error
	Cause error // may be nil
}

// Errorf makes an Error without a cause.
func Errorf(kind error, format string, arguments ...any) *Error {
	return &Error{Text: fmt.Sprintf(format, arguments...), Kind: kind}
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// Is makes every error of a permanent kind ErrPermanent.
func (e *Error) Is(target error) bool {
	return target == ErrPermanent && slices.Contains(permanent, e.Kind)
}

// KindOf returns the kind of an error of a Log.
func KindOf(err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known.Kind
	}
	return ErrOther
}

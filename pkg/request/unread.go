package request

import "errors"

// ErrNoRequest is a parser's error for a line that correctly contains no request: a blank line, a comment, a header of
// columns. It is not counted as unread.
var ErrNoRequest = errors.New("the line has no request")

// An Unread error is the reason why a line could not be read. There is one value per reason, made once.
type Unread struct { //nolint:errname // a line is unread
	Reason string // one of Reasons: a label for metrics
	text   string
}

func (u *Unread) Error() string { return u.text }

var (
	errFormat   = &Unread{"format", "the line does not have the format"}
	errTime     = &Unread{"time", "the time cannot be read or lies outside 1970-01-01 to 2109-05-15"}
	errAddress  = &Unread{"address", "the client's address is not an IP address"}
	errJSON     = &Unread{"json", "the line is not a JSON object"}
	errEnvelope = &Unread{"envelope", "the record does not have the envelope's form"}
	errLong     = &Unread{"long", "the line is too long"}

	// nginx writes text of clients into its errors as it is, also newlines: a client can write lines there.
	errStderr = &Unread{errFormat.Reason, "the line is from standard error, where servers write their errors; to read it, write only: 'stream == \"stderr\"'"}
)

// Reasons are all values of Reason, except the empty one.
func Reasons() []string {
	return []string{errFormat.Reason, errTime.Reason, errAddress.Reason, errJSON.Reason, errEnvelope.Reason, errLong.Reason}
}

// Reason is why err left a line unread. It is empty when err is nil, ErrNoRequest or not of this package.
func Reason(err error) string {
	if unread, ok := errors.AsType[*Unread](err); ok {
		return unread.Reason
	}
	return ""
}

package request

import "strings"

// IDs reads the value that a server gives each request, from the requests of one log.
//
// A client can make its line so long that it is cut off within the value, and all its requests would have the few values
// that are left. So a value that was cut off is none. Where a field ends with its line, the cut does not show: at the end of
// a line that can have been cut off, a value that is shorter than others of the log is none either.
type IDs struct {
	By string // a field of requests

	longest int
}

// Of is the value of a request; "" without one.
func (i *IDs) Of(r *Request) string {
	value, _ := r.Field(i.By)
	if value == "-" || r.open != "" && len(value) < i.longest && strings.HasSuffix(r.open, value) {
		return ""
	}
	i.longest = max(i.longest, len(value))
	return value
}

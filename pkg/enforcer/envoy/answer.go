package envoy

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// An answer is a decision as an edge gets it over HTTP.
type answer struct {
	header http.Header
	status int
	body   []byte
}

var answers = sync.Pool{New: func() any { return &answer{header: http.Header{}} }}

func newAnswer() *answer { return answers.Get().(*answer) }

func (a *answer) free() {
	clear(a.header)
	a.status, a.body = 0, a.body[:0]
	answers.Put(a)
}

// Header is the answer's.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader begins the answer.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write adds to the body.
func (a *answer) Write(b []byte) (int, error) {
	a.body = append(a.body, b...)
	return len(b), nil
}

func (a *answer) passes() bool { return a.status == http.StatusOK }

const (
	markField    = "X-Weir"
	attemptField = "X-Weir-Attempt"
)

// failed returns the error of an enforcer that could not decide.
func (a *answer) failed() error {
	if a.status < http.StatusInternalServerError || strings.HasPrefix(a.header.Get(markField), "refused") {
		return nil
	}
	return status.Error(codes.Unavailable, "the enforcer could not decide: "+http.StatusText(a.status))
}

// toApplication reports whether a field of an answer that passes is for the application, not for the client.
func toApplication(name string) bool { return name == markField || name == attemptField }

func toClient(name string) bool { return !toApplication(name) }

func every(string) bool { return true }

// fields returns those of the header that are wanted, in the order of their names.
func (a *answer) fields(wanted func(name string) bool) []*core.HeaderValue {
	if len(a.header) == 0 {
		return nil
	}
	all, room := make([]*core.HeaderValue, 0, len(a.header)), make([]core.HeaderValue, len(a.header))
	for name, values := range a.header {
		if wanted(name) {
			one := &room[len(all)]
			one.Key, one.Value = lower(name), values[0]
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(x, y *core.HeaderValue) int { return strings.Compare(x.Key, y.Key) })
	return all
}

// lowered are the usual names, which need no memory.
var lowered = func(names ...string) map[string]string {
	all := map[string]string{}
	for _, name := range names {
		all[name] = strings.ToLower(name)
	}
	return all
}("RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", markField, attemptField)

func lower(name string) string {
	if text, ok := lowered[name]; ok {
		return text
	}
	return strings.ToLower(name)
}

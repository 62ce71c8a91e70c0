package enforcer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// A problem is an error answer according to RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Affects are the effects of an order that need a confirmation.
	Affects []string `json:"affects,omitempty"`
}

// A problemError is a problem that the handling of a request returns.
type problemError struct{ problem }

// Error is the detail.
func (p *problemError) Error() string { return p.Detail }

// problemf makes a problemError.
func problemf(status int, format string, args ...any) *problemError {
	return &problemError{problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}}
}

// writeProblem answers with an error; an error that is not a problem is a 500.
func writeProblem(w http.ResponseWriter, err error) {
	p := &problemError{}
	if !errors.As(err, &p) {
		p = problemf(http.StatusInternalServerError, "%s", err)
	}
	switch p.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable, http.StatusTooEarly:
		w.Header().Set("Retry-After", "1")
	}
	writeAs(w, p.Status, "application/problem+json", p.problem)
}

// StatusOf returns the status that an error is answered with over HTTP.
func StatusOf(err error) int {
	p := &problemError{}
	if !errors.As(err, &p) {
		return http.StatusInternalServerError
	}
	return p.Status
}

// writeJSON answers with a value.
func writeJSON(w http.ResponseWriter, status int, value any) {
	writeAs(w, status, "application/json", value)
}

func writeAs(w http.ResponseWriter, status int, kind string, value any) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // fails only when the client has gone
}

package collector

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"weir/internal/keys"
	"weir/internal/limited"
)

const requestsPath = "/v1/requests"

// An httpAnswer states the result of a body: the number of requests, how many of them could not be read, and how many
// of the others gave no hit, by reason.
type httpAnswer struct {
	Requests  int64            `json:"requests"`
	Unread    map[string]int64 `json:"unread,omitempty"`
	Uncounted map[string]int64 `json:"uncounted,omitempty"`
}

func (o outcome) answer() httpAnswer {
	a := httpAnswer{Requests: o.requests, Unread: map[string]int64{}, Uncounted: map[string]int64{}}
	for why := counted + 1; why < reasons; why++ {
		switch n := o.uncounted[why]; {
		case n == 0:
		case why.unreadable():
			a.Unread[reasonWords[why]] = n
		default:
			a.Uncounted[reasonWords[why]] = n
		}
	}
	return a
}

// An httpProblem is an answer other than 200, as in RFC 9457; its type is always about:blank. If none of the body's
// requests could be read, it states their number, as a 200 does.
type httpProblem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`

	Requests int64            `json:"requests,omitempty"`
	Unread   map[string]int64 `json:"unread,omitempty"`
}

func problem(status int, err error) *httpProblem {
	return &httpProblem{Title: http.StatusText(status), Status: status, Detail: err.Error()}
}

var (
	errPath     = errors.New("requests are posted to " + requestsPath)
	errPending  = errors.New("kafka has not acknowledged the requests in time: they may still be counted, and sending them again may count them twice")
	errStopping = errors.New("the collector is stopping, and Kafka has not acknowledged the requests: they may have been counted, and sending them again may count them twice")
)

// ServeHTTP answers one request.
func (h *httpSource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = limited.Answer(w)
	got, wrong := h.handle(w, r)
	if wrong == nil {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(got.answer())
		return
	}

	switch wrong.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusUnsupportedMediaType:
		w.Header().Set("Accept-Encoding", "gzip")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}

	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(wrong.Status)
	json.NewEncoder(w).Encode(wrong)
}

// handle takes a body and returns its outcome, or why it is not taken.
func (h *httpSource) handle(w http.ResponseWriter, r *http.Request) (outcome, *httpProblem) {
	if wrong := h.admit(r); wrong != nil {
		return outcome{}, wrong
	}
	kind, err := bodyKind(r.Header.Get("Content-Type"))
	if err != nil {
		return outcome{}, problem(http.StatusUnsupportedMediaType, err)
	}

	p := &post{json: kind == kindJSON, done: make(chan counting, 1)}
	if r.ContentLength > h.limits.bodyBytes {
		w.Header().Set("Connection", "close") // what follows is not read
		return outcome{}, h.unread(&http.MaxBytesError{Limit: h.limits.bodyBytes})
	}
	r.Body = http.MaxBytesReader(w, r.Body, h.limits.bodyBytes)
	err = p.read(&h.memory, r, h.limits.bodyBytes)
	if err == nil { // a mistake in the middle must not leave the first half counted
		err = p.each(func([]byte) error { return nil })
	}
	if err != nil {
		h.memory.release(p)
		return outcome{}, h.unread(err)
	}

	select {
	case h.queue <- p:
	default:
		h.memory.release(p)
		return outcome{}, problem(http.StatusTooManyRequests, errFull)
	}

	wakeUp(h.more)
	return h.await(r, p)
}

// admit returns the reason to refuse a request, before its body is read.
func (h *httpSource) admit(r *http.Request) *httpProblem {
	if r.URL.Path != requestsPath {
		return problem(http.StatusNotFound, errPath)
	}
	if r.Method != http.MethodPost {
		return problem(http.StatusMethodNotAllowed, errPath)
	}
	if err := h.pages.Check(r); err != nil {
		return problem(http.StatusForbidden, err)
	}

	if keys.AsksCertificates(h.config.HTTP.TLS) {
		if !keys.Certified(r, h.config.HTTP.TLS) {
			return problem(http.StatusUnauthorized, keys.ErrCertificate)
		}
		limited.Showed(r.Context())
	}

	if h.config.HTTP.Keys == nil {
		return nil
	}
	_, err := h.config.HTTP.Keys.Admit(r, keys.Send)
	switch {
	case err == nil:
		limited.Showed(r.Context())
	case errors.Is(err, keys.ErrRole):
		return problem(http.StatusForbidden, err)
	case err != nil:
		return problem(http.StatusUnauthorized, err)
	}

	return nil
}

// The kinds of bodies.
const (
	kindLines = iota
	kindJSON
)

// errType is the error for a content type that is not supported.
var errType = errors.New("is not supported: send lines as text/plain or application/x-ndjson, or JSON as application/json")

// bodyKind returns the kind of a body by its content type. curl sends application/x-www-form-urlencoded with any body.
func bodyKind(contentType string) (kind int, err error) {
	media, _, err := mime.ParseMediaType(contentType)
	switch main, sub, _ := strings.Cut(media, "/"); {
	case contentType == "", main == "text", media == "application/octet-stream", media == "application/x-www-form-urlencoded":
		return kindLines, nil
	case media == "application/json", strings.HasSuffix(sub, "+json"):
		return kindJSON, nil
	case strings.Contains(sub, "json"): // x-ndjson, jsonl, json-seq
		return kindLines, nil
	case strings.Contains(sub, "protobuf"):
		return 0, fmt.Errorf("%s %w; in OpenTelemetry's exporter otlphttp, set encoding: json", media, errType)
	case strings.Contains(sub, "gzip"):
		return 0, fmt.Errorf("%s %w, and declare the compression with Content-Encoding: gzip", media, errType)
	case err != nil:
		return 0, fmt.Errorf("the content type %.100q %w", contentType, errType)
	}

	return 0, fmt.Errorf("%.100s %w", media, errType)
}

// unread returns the answer to a body that was not taken.
func (h *httpSource) unread(err error) *httpProblem {
	var long *http.MaxBytesError
	switch {
	case errors.Is(err, errFull):
		return problem(http.StatusTooManyRequests, err)
	case errors.As(err, &long), errors.Is(err, errLarge):
		return problem(http.StatusRequestEntityTooLarge, fmt.Errorf("the body is larger than %d bytes, decompressed: send it in several", h.limits.bodyBytes))
	case errors.Is(err, errEncoding):
		return problem(http.StatusUnsupportedMediaType, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem(http.StatusRequestTimeout, fmt.Errorf("the body had not arrived after %s", h.limits.bodyFor))
	}
	return problem(http.StatusBadRequest, err)
}

// await waits until Kafka has the post.
func (h *httpSource) await(r *http.Request, p *post) (outcome, *httpProblem) {
	patience := time.NewTimer(h.limits.ack)
	defer patience.Stop()
	why := errPending
	select {
	case got := <-p.done:
		return settled(got)
	case <-patience.C:
	case <-r.Context().Done():
		why = errStopping // or the client has gone
	case <-h.ended:
		why = errStopping
	}

	// A body that was not taken yet is certainly not counted, and can be sent again without harm.
	if p.state.CompareAndSwap(postWaits, postGone) {
		h.memory.release(p)
		return outcome{}, problem(http.StatusTooManyRequests, errFull)
	}

	select {
	case got := <-p.done:
		return settled(got)
	default:
		return outcome{}, problem(http.StatusServiceUnavailable, why)
	}
}

func settled(got counting) (outcome, *httpProblem) {
	if got.err != nil {
		return outcome{}, problem(http.StatusInternalServerError, got.err)
	}
	if wrong := got.outcome.unreadable(); wrong != nil {
		return outcome{}, wrong
	}
	return got.outcome, nil
}

// unreadable is the answer to a body without a readable request. A 200 would hide from the sender that all was in
// vain.
func (o outcome) unreadable() *httpProblem {
	answer := o.answer()
	unread := int64(0)
	for _, n := range answer.Unread {
		unread += n
	}
	if o.requests == 0 || unread < o.requests {
		return nil
	}
	wrong := problem(http.StatusBadRequest, fmt.Errorf("none of the %d requests could be read: set this source's format and envelope to those of your data (weir parse shows how they are read)", o.requests))
	wrong.Requests, wrong.Unread = answer.Requests, answer.Unread
	return wrong
}

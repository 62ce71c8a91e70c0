package listeners

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"weir/pkg/collector/pipeline"
)

const requestsPath = "/v1/requests"

// An httpAnswer states the result of a body: the number of requests, how many of them could not be read, and how many
// of the others gave no hit, by reason.
type httpAnswer struct {
	Requests  int64            `json:"requests"`
	Unread    map[string]int64 `json:"unread,omitempty"`
	Uncounted map[string]int64 `json:"uncounted,omitempty"`
}

func answerTo(got pipeline.Outcome) httpAnswer {
	a := httpAnswer{Requests: got.Requests()}
	a.Unread, a.Uncounted = got.ByReason()
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

// The kinds of bodies.
const (
	kindLines = iota
	kindJSON
)

// formType is the type of a body that curl sends by itself.
const formType = "application/x-www-form-urlencoded"

// errType is the error for a content type that is not supported.
var errType = errors.New("is not supported: send lines as text/plain or application/x-ndjson, or JSON as application/json")

// bodyKind returns the kind of a body by its content type. curl sends application/x-www-form-urlencoded with any body.
func bodyKind(contentType string) (kind int, err error) {
	media, _, err := mime.ParseMediaType(contentType)
	switch main, sub, _ := strings.Cut(media, "/"); {
	case contentType == "", main == "text", media == "application/octet-stream", media == formType:
		return kindLines, nil
	case media == "application/json", strings.HasSuffix(sub, "+json"):
		return kindJSON, nil
	case strings.Contains(sub, "json"): // x-ndjson, jsonl, json-seq
		return kindLines, nil
	case strings.Contains(sub, "protobuf"):
		return 0, fmt.Errorf("%s %w; in OpenTelemetry's exporter otlphttp, set encoding: json, or send to a source of the kind otlp", media, errType)
	case strings.Contains(sub, "gzip"):
		return 0, fmt.Errorf("%s %w, and declare the compression with Content-Encoding: gzip", media, errType)
	case err != nil:
		return 0, fmt.Errorf("the content type %.100q %w", contentType, errType)
	}

	return 0, fmt.Errorf("%.100s %w", media, errType)
}

// fromForm reports whether a body has the type that curl sends by itself.
func fromForm(r *http.Request) bool {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return media == formType
}

func settled(got counting, remedy string) (pipeline.Outcome, *httpProblem) {
	if errors.Is(got.err, errFull) {
		return pipeline.Outcome{}, problem(http.StatusTooManyRequests, errFull)
	}
	if got.err != nil {
		return pipeline.Outcome{}, problem(http.StatusInternalServerError, got.err)
	}
	if wrong := unreadable(got.Outcome, remedy); wrong != nil {
		return pipeline.Outcome{}, wrong
	}
	return got.Outcome, nil
}

// unreadable is the answer to a body without a readable request. A 200 would hide from the sender that all was in
// vain.
func unreadable(got pipeline.Outcome, remedy string) *httpProblem {
	answer := answerTo(got)
	unread := int64(0)
	for _, n := range answer.Unread {
		unread += n
	}
	if answer.Requests == 0 || unread < answer.Requests {
		return nil
	}
	wrong := problem(http.StatusBadRequest, fmt.Errorf("none of the %d requests could be read: %s", answer.Requests, remedy))
	wrong.Requests, wrong.Unread = answer.Requests, answer.Unread
	return wrong
}

// kind is the source's key in the configuration.
func (h *httpSource) kind() string {
	switch {
	case h.config.OTLP:
		return "otlp"
	case h.config.Loki:
		return "loki"
	}
	return "http"
}

// path is where requests are posted.
func (h *httpSource) path() (path string, otherwise error) {
	switch {
	case h.config.OTLP:
		return otlpPath, errOTLPPath
	case h.config.Loki:
		return lokiPath, errLokiPath
	}
	return requestsPath, errPath
}

// refuse sets the headers that go with a problem.
func (h *httpSource) refuse(w http.ResponseWriter, wrong *httpProblem) {
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
}

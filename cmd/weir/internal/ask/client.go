// Package ask sends requests over HTTP: to one enforcer, which flags, the environment, ~/.config/weir/client.yaml or the
// configuration name, and to the status of parts. An answer is bounded in bytes and in time, and becomes an error in the
// server's words. A key is never sent after a redirect to another host. The package does not know what is asked for.
package ask

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"weir/cmd/internal/exit"
	"weir/internal/origin"
	"weir/internal/regular"
)

const (
	dialPatience   = 3 * time.Second
	answerPatience = 15 * time.Second // for a complete answer; an enforcer waits a second for Kafka
	waitPatience   = 45 * time.Second // for the first byte of an answer, also where the enforcer waits for changes
	maxAnswer      = 64 << 20         // bytes of an answer that is kept in memory
)

// An Enforcer asks one enforcer: the first of its places that can be reached.
type Enforcer struct {
	places  []place
	key     string
	clients []*http.Client // one for each place
	now     int            // index of the place that is asked
	tried   []string       // the places before it that could not be reached, and why
}

func newEnforcer(places []place, key string, file *clientFile) (*Enforcer, error) {
	secure, err := file.tls()
	if err != nil {
		return nil, err
	}

	e := &Enforcer{places: places, key: key}
	for _, p := range places {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = secure.Clone()
		transport.ResponseHeaderTimeout = waitPatience
		dialer := &net.Dialer{Timeout: dialPatience}
		transport.DialContext = dialer.DialContext
		if p.socket != "" {
			transport.Proxy = nil
			transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", p.socket)
			}
		}

		e.clients = append(e.clients, origin.Stay(&http.Client{Transport: transport}))
	}

	return e, nil
}

// tls returns the roots that we trust and our own certificate.
func (f *clientFile) tls() (*tls.Config, error) {
	roots, err := rootsWith(f.CA)
	if err != nil {
		return nil, err
	}

	secure := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if f.Cert == "" && f.CertKey == "" {
		return secure, nil
	}

	own, err := regular.ReadKeyPair(f.Cert, f.CertKey)
	if err != nil {
		return nil, exit.Wrongf("reading cert and cert_key of %s: %w", f.path, err)
	}

	secure.Certificates = []tls.Certificate{own}
	return secure, nil
}

// rootsWith returns the system's roots and those of a file; without a file nil, which means the system's.
func rootsWith(ca string) (*x509.CertPool, error) {
	if ca == "" {
		return nil, nil
	}
	text, err := regular.ReadFile(ca)
	if err != nil {
		return nil, exit.Wrongf("reading ca: %w", err)
	}

	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, exit.Wrongf("%s contains no certificate", ca)
	}

	return roots, nil
}

// Close ends the connections.
func (e *Enforcer) Close() {
	for _, client := range e.clients {
		client.CloseIdleConnections()
	}
}

// At returns the place that is asked now, for messages.
func (e *Enforcer) At() string {
	if p := e.places[e.now]; p.socket != "" {
		return p.socket
	}
	return e.places[e.now].url
}

// Retry starts again with the first place: one that could not be reached may have returned.
func (e *Enforcer) Retry() { e.now, e.tried = 0, nil }

// send returns an answer with a status below 300. When a place cannot be reached, nothing was sent there, so send goes on
// with the next one. It does not try earlier places again before Retry.
func (e *Enforcer) send(ctx context.Context, method, path string, query url.Values, body any, accept string) (*http.Response, error) {
	for {
		answer, err := e.sendOnce(ctx, method, path, query, body, accept)
		if err == nil {
			return answer, e.judge(answer)
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("the enforcer at %s does not answer within %s", e.At(), answerPatience)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}

		cause := fmt.Sprintf("%s: %v", e.places[e.now], exit.Cause(err))
		if !NotSent(err) {
			return nil, fmt.Errorf("asking the enforcer at %s", cause)
		}
		if e.now == len(e.places)-1 {
			return nil, noneAnswers(append(e.tried, cause))
		}

		e.tried = append(e.tried, cause)
		e.now++
	}
}

func (e *Enforcer) sendOnce(ctx context.Context, method, path string, query url.Values, body any, accept string) (*http.Response, error) {
	target := strings.TrimSuffix(e.places[e.now].url, "/") + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}

	var text io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		text = bytes.NewReader(encoded)
	}

	request, err := http.NewRequestWithContext(ctx, method, target, text)
	if err != nil {
		return nil, err
	}

	request.Header.Set("Accept", accept)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if e.key != "" {
		request.Header.Set("X-Api-Key", e.key)
	}

	return e.clients[e.now].Do(request)
}

// A RefusedError is an enforcer's refusal of a request, in the enforcer's words.
type RefusedError struct {
	text    string
	Affects []string // the effects that the user has to confirm
	Attempt []byte   // the answer about an attempt that is one too many
	Status  int
}

func (r *RefusedError) Error() string { return r.text }

// judge turns an answer of status 300 or more into an error, and closes it.
func (e *Enforcer) judge(answer *http.Response) error {
	if answer.StatusCode < 300 {
		return nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // the part that could be read is enough for a message
	if answer.StatusCode == http.StatusTooManyRequests {
		return &RefusedError{text: "one too many", Attempt: text}
	}
	says := strings.TrimPrefix(Detail(text), ": ")
	if says == "" {
		return fmt.Errorf("%s answers %s, which is not an answer of an enforcer", e.At(), answer.Status)
	}

	no := &RefusedError{text: fmt.Sprintf("the enforcer at %s: %s", e.At(), says), Status: answer.StatusCode}
	switch answer.StatusCode {
	case http.StatusPreconditionRequired:
		var problem struct{ Affects []string }
		_ = json.Unmarshal(text, &problem) // without them it is an error like others
		no.Affects = problem.Affects
	case http.StatusBadRequest:
		return exit.Wrong(no)
	case http.StatusNotFound:
		return exit.Unmet(no)
	case http.StatusUnauthorized, http.StatusForbidden:
		if e.key == "" {
			no.text += "; send a key with --key-file, or use the enforcer's socket"
		}
		if len(e.tried) > 0 {
			no.text += " (tried before: " + strings.Join(e.tried, "; ") + ")"
		}
	}

	return no
}

// Ask sends a request and decodes the answer, one JSON value. It also returns its text.
func (e *Enforcer) Ask(ctx context.Context, method, path string, query url.Values, body, into any) (json.RawMessage, error) {
	text, _, err := e.ask(ctx, method, path, query, body, into)
	return text, err
}

// AskForAll is Ask for a list. It reports whether the answer has only some of it.
func (e *Enforcer) AskForAll(ctx context.Context, path string, query url.Values, into any) (partial bool, err error) {
	_, header, err := e.ask(ctx, http.MethodGet, path, query, nil, into)
	return header.Get("Weir-Partial") == "true", err
}

func (e *Enforcer) ask(ctx context.Context, method, path string, query url.Values, body, into any) (json.RawMessage, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	answer, err := e.send(ctx, method, path, query, body, "application/json")
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the answer of %s: %w", e.At(), exit.Cause(err))
	}
	if err := json.Unmarshal(text, into); err != nil {
		return nil, nil, fmt.Errorf("the answer of %s is not that of an enforcer: %w", e.At(), err)
	}

	return text, answer.Header, nil
}

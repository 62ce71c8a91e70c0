package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/regular"
	"weir/internal/telemetry"
)

// A Server is where a form that goes over HTTP is sent, and how. URL or URLFile is given.
type Server struct {
	URL               string
	URLFile           string // contains the URL, which is a secret
	AuthorizationFile string // contains the value of the header Authorization
	CA                string // the file of roots; empty is the system's

	UserAgent string
}

// maxAnswer is how many bytes of an answer are read, and shown of it.
const maxAnswer = 1024

var errNoRedirect = errors.New("it redirects, and messages are not sent elsewhere")

// post sends a body. Errors and answers do not contain the URL, nor other secrets.
func (s *Server) post(ctx context.Context, suffix, contentType, id string, body []byte, secrets ...string) (answer string, err error) {
	to, err := s.url()
	if err != nil {
		return "", err
	}
	if s.URLFile != "" {
		secrets = append(secrets, partsOf(to)...)
	}
	if suffix != "" {
		to.Path = cmp.Or(to.Path, "/") // JoinPath leaves an empty path relative
		to = to.JoinPath(suffix)
	}
	request := (&http.Request{Method: http.MethodPost, URL: to, Host: to.Host, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}).WithContext(ctx)
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("User-Agent", s.UserAgent)
	request.Header.Set("Idempotency-Key", id)
	if s.AuthorizationFile != "" {
		value, err := secret(s.AuthorizationFile)
		if err != nil {
			return "", err
		}
		request.Header.Set("Authorization", value)
		secrets = append(secrets, strings.Fields(value)...)
	}

	client, err := s.client()
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	hiding := telemetry.Hiding(secrets)
	response, err := client.Do(request)
	if outer := (*url.Error)(nil); errors.As(err, &outer) {
		err = outer.Err
		if text := hiding.Replace(err.Error()); len(text) > maxAnswer || text != err.Error() { // it has a header of the answer
			err = errors.New(plain(text))
		}
		err = fmt.Errorf("asking %s: %w", to.Host, err) // without the URL
	}
	if err != nil {
		return "", err
	}
	defer response.Body.Close()

	// A longer answer is not read, nor one that does not end.
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer+maxSecret))
	answer = plain(hiding.Replace(strings.TrimSpace(response.Status + " " + string(text))))
	return answer, answered(response, answer)
}

// shortestPart is how many characters a part of a URL has at least that is taken for a secret.
const shortestPart = 6

// partsOf returns the parts of a URL that may be secrets.
func partsOf(to *url.URL) (parts []string) {
	password, _ := to.User.Password()
	for _, part := range strings.FieldsFunc(to.RequestURI()+"/"+to.Path+"/"+to.User.Username()+"/"+password, func(r rune) bool { return strings.ContainsRune("/?&=;", r) }) {
		if plain, err := url.QueryUnescape(part); err == nil {
			parts = append(parts, plain)
		}
		parts = append(parts, part)
	}
	return slices.DeleteFunc(parts, func(part string) bool { return len(part) < shortestPart })
}

// answered returns what is wrong with an answer.
func answered(r *http.Response, answer string) error {
	err := fmt.Errorf("it answered %s", answer)
	switch {
	case r.StatusCode/100 == 2:
		return nil
	case r.StatusCode/100 == 3:
		return errNoRedirect
	case r.StatusCode == http.StatusBadRequest, r.StatusCode == http.StatusRequestEntityTooLarge, r.StatusCode == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	seconds, convErr := strconv.Atoi(r.Header.Get("Retry-After"))
	if convErr != nil || seconds < 0 {
		return err
	}
	return laterError{err, time.Duration(min(seconds, int(longestAfter/time.Second))) * time.Second}
}

// url returns where to send to.
func (s *Server) url() (*url.URL, error) {
	text := s.URL
	if s.URLFile != "" {
		var err error
		if text, err = secret(s.URLFile); err != nil {
			return nil, err
		}
	}
	to, err := url.Parse(text)
	if err != nil || to.Host == "" || to.Scheme != "https" && to.Scheme != "http" {
		return nil, errors.New("the URL is not valid; write it as https://host/path")
	}
	return to, nil
}

// client makes the client of one message. Messages are rare, and so a new root or a proxy counts at once.
func (s *Server) client() (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = 64 << 10
	secure, err := trusting(s.CA)
	if err != nil {
		return nil, err
	}
	transport.TLSClientConfig = secure
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// trusting makes the settings for TLS with the roots of a file; without one, with the system's.
func trusting(ca string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca == "" {
		return c, nil
	}
	roots, err := regular.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("reading the roots: %w", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(roots) {
		return nil, fmt.Errorf("%s has no PEM certificate", ca)
	}
	return c, nil
}

// maxSecret bounds a file with a secret.
const maxSecret = 16 << 10

// secret reads a file that contains one line.
func secret(path string) (string, error) {
	text, err := regular.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	line := strings.TrimSpace(string(text))
	if line == "" || len(line) > maxSecret || strings.ContainsAny(line, "\r\n") {
		return "", fmt.Errorf("%s does not contain one line", path)
	}
	return line, nil
}

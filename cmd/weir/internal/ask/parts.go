package ask

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/output"
	"weir/internal/origin"
	"weir/internal/regular"
)

// PartClient returns a client for the parts, with the roots and the certificate of the user's file.
func PartClient(patience time.Duration) (*http.Client, error) {
	file, err := readClientFile()
	if err != nil {
		return nil, err
	}
	secure, err := file.tls()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	transport.DisableKeepAlives = true // they are asked once
	return origin.Stay(&http.Client{Transport: transport, Timeout: patience}), nil
}

// ErrAnswer means that there was an answer, but not a status.
var ErrAnswer = errors.New("answers")

// ErrNoStatusYet is an ErrAnswer of a part that is starting.
var ErrNoStatusYet = fmt.Errorf("%w", ErrAnswer)

// maxAnswerOfPart is how many bytes of a part's answer are read.
const maxAnswerOfPart = 16 << 20

// ErrKey is an ErrAnswer of a part that wants a key, or another one.
var ErrKey = fmt.Errorf("%w", ErrAnswer)

const partPatience = 2 * time.Second

// Status asks a part for its status at a URL, with a key unless it is empty. It also returns by how much the clock of the
// part is ahead of this machine's; less than 0 is behind.
func Status(ctx context.Context, url, key string) (text []byte, ahead time.Duration, err error) {
	client, err := PartClient(partPatience)
	if err != nil {
		return nil, 0, err
	}
	asked := time.Now()
	status, text, header, err := get(ctx, client, url, key)
	ahead = clockAhead(header, asked, time.Now())
	if err == nil && status != http.StatusOK {
		answers := ErrAnswer
		switch status {
		case http.StatusServiceUnavailable:
			answers = ErrNoStatusYet
		case http.StatusUnauthorized, http.StatusForbidden:
			answers = ErrKey
		}
		err = fmt.Errorf("it %w %d %s: %.200s", answers, status, http.StatusText(status), bytes.TrimSpace(text))
	}
	return text, ahead, err
}

// clockAhead returns by how much the clock of a server is ahead: 0 where its Date may be of a moment between the question
// and the answer. Date has full seconds.
func clockAhead(header http.Header, asked, answered time.Time) time.Duration {
	date, err := http.ParseTime(header.Get("Date"))
	middle := date.Add(time.Second / 2)
	switch {
	case err != nil:
		return 0
	case date.After(answered):
		return middle.Sub(answered)
	case date.Add(time.Second).Before(asked):
		return middle.Sub(asked)
	}
	return 0
}

// ThroughSocket asks a part by way of the enforcer's socket on this machine, where the user needs no key. It fails when the
// part is not in the process of that enforcer.
func ThroughSocket(ctx context.Context, settings *config.Config, part, question string, query url.Values) (status int, text []byte, err error) {
	places, err := localPlaces(settings)
	if err != nil {
		return 0, nil, err
	}
	sockets := slices.DeleteFunc(places, func(p place) bool { return p.socket == "" })
	enforcer, err := newEnforcer(sockets, "", &clientFile{})
	if err != nil {
		return 0, nil, err
	}
	defer enforcer.Close()
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()

	err = ErrNoEnforcer
	for enforcer.now = range sockets {
		var answer *http.Response
		answer, err = enforcer.sendOnce(ctx, http.MethodGet, "/v1/parts/"+part+"/"+question, query, nil, "application/json")
		if err != nil {
			continue
		}
		defer answer.Body.Close()
		if answer.StatusCode == http.StatusNotFound {
			return 0, nil, ErrNoEnforcer
		}
		text, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswerOfPart))
		return answer.StatusCode, text, err
	}
	return 0, nil, err
}

// Get asks a part for a URL, with a key unless it is empty, and reads the answer. The status is 0 when there is none.
func Get(ctx context.Context, client *http.Client, url, key string) (status int, text []byte, err error) {
	status, text, _, err = get(ctx, client, url, key)
	return status, text, err
}

func get(ctx context.Context, client *http.Client, url, key string) (status int, text []byte, header http.Header, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, nil, nil, err
	}
	if key != "" {
		request.Header.Set("X-Api-Key", key)
	}

	answer, err := client.Do(request)
	if err != nil {
		return 0, nil, nil, exit.Cause(err)
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswerOfPart))
	return answer.StatusCode, text, answer.Header, exit.Cause(err)
}

// Key returns the API key in a file, or else that in $WEIR_KEY_FILE; empty when neither is set.
func Key(file string) (string, error) {
	if file = cmp.Or(file, os.Getenv("WEIR_KEY_FILE")); file == "" {
		return "", nil
	}
	return ReadKey(file)
}

// ReadKey reads an API key from a file of one line.
func ReadKey(file string) (string, error) {
	key, err := regular.ReadFile(file)
	if err != nil {
		return "", err
	}
	key = bytes.TrimSpace(key)
	if len(key) == 0 || bytes.ContainsAny(key, "\r\n") {
		return "", fmt.Errorf("%s must contain an API key, in one line", file)
	}
	return string(key), nil
}

// NotSent reports whether an error happened before a connection was made, so that nothing can have been counted.
func NotSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// Detail returns the detail of a problem document, as the end of a message.
func Detail(text []byte) string {
	var problem struct{ Detail string }
	if json.Unmarshal(text, &problem) != nil || problem.Detail == "" {
		return ""
	}
	return ": " + output.Printable(problem.Detail)
}

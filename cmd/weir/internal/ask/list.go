package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"weir/pkg/blocklist"
)

// A List reads the list, or its changes, as they come in. It is complete only when All ends without an error.
type List struct {
	*blocklist.JSONReader
	Local string // names the manual entries in it that wait for Kafka
	body  io.Closer
}

// All returns the entries until the list is complete, or with the error that ends it.
func (l *List) All() iter.Seq2[*blocklist.Entry, error] {
	return func(yield func(*blocklist.Entry, error) bool) {
		for {
			entry, err := l.Next()
			if errors.Is(err, io.EOF) || !yield(entry, err) || err != nil {
				return
			}
		}
	}
}

// Close ends the reading.
func (l *List) Close() { l.body.Close() }

// List requests the list.
func (e *Enforcer) List(ctx context.Context, query url.Values) (*List, error) {
	answer, err := e.send(ctx, http.MethodGet, "/v1/blocklist", query, nil, blocklist.ContentJSON)
	if err != nil {
		return nil, err
	}
	reader, err := blocklist.NewJSONReader(answer.Body)
	if err != nil {
		answer.Body.Close()
		return nil, fmt.Errorf("asking %s for the list: %w", e.At(), err)
	}
	return &List{reader, answer.Header.Get("Weir-Local"), answer.Body}, nil
}

// Refusing asks for the entries that refuse most, those of one rule unless the rule is empty, and decodes the answer. An
// enforcer of an earlier version knows none.
func (e *Enforcer) Refusing(ctx context.Context, rule string, most int, into any) error {
	query := url.Values{"entries": {strconv.Itoa(most)}}
	if rule != "" {
		query.Set("rule", rule)
	}
	_, err := e.Ask(ctx, http.MethodGet, "/v1/numbers", query, nil, into)
	if refused, ok := errors.AsType[*RefusedError](err); ok && refused.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// Find asks for the entries that apply to a key, those of one rule unless the rule is empty, and decodes the answer, or the
// page of it that follows the place after.
func (e *Enforcer) Find(ctx context.Context, key, rule, after string, into any) error {
	query := url.Values{"key": {key}}
	if rule != "" {
		query.Set("rule", rule)
	}
	if after != "" {
		query.Set("after", after)
	}
	_, err := e.Ask(ctx, http.MethodGet, "/v1/find", query, nil, into)
	return err
}

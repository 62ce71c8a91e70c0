package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"weir/pkg/blocklist"
)

// A listAnswer reads the list, or its changes, as they come in. It is complete only when Next returns io.EOF.
type listAnswer struct {
	*blocklist.JSONReader
	local string // names the manual entries in it that wait for Kafka
	body  io.Closer
}

func (l *listAnswer) close() { l.body.Close() }

// list requests the list.
func (e *enforcerClient) list(ctx context.Context, query url.Values) (*listAnswer, error) {
	answer, err := e.send(ctx, http.MethodGet, "/v1/blocklist", query, nil, blocklist.ContentJSON)
	if err != nil {
		return nil, err
	}
	reader, err := blocklist.NewJSONReader(answer.Body)
	if err != nil {
		answer.Body.Close()
		return nil, fmt.Errorf("asking %s for the list: %w", e.at(), err)
	}
	return &listAnswer{reader, answer.Header.Get("Weir-Local"), answer.Body}, nil
}

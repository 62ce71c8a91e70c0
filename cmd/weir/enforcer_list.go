package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"weir/pkg/blocklist"
)

// A listAnswer is the list, or what changed of it, as it comes in. It was all there only when Next says io.EOF.
type listAnswer struct {
	*blocklist.JSONReader
	local string // the name of the orders in it that wait for Kafka
	body  io.Closer
}

func (l *listAnswer) close() { l.body.Close() }

// list asks for the list.
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

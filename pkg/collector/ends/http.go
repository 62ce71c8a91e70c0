package ends

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"weir/internal/origin"
	"weir/pkg/inline"
)

// askPatience is how long an enforcer may take to answer.
const askPatience = 5 * time.Second

// An Enforcer is an enforcer that is asked over HTTP.
type Enforcer struct {
	URL    string                 // https://enforcer.example:7421
	Key    func() (string, error) // returns the API key, with the role take; nil sends none
	Client *http.Client
}

// Target makes a Target of it.
func (e Enforcer) Target() Target {
	e.Client = origin.Stay(e.Client)
	return Target{Name: e.URL, End: e.end}
}

func (e Enforcer) end(ctx context.Context, ids []inline.ID) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	var body struct {
		Ended []string `json:"ended"`
	}
	for _, id := range ids {
		body.Ended = append(body.Ended, id.String())
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(e.URL, "/")+"/v1/settle", bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if e.Key != nil {
		key, err := e.Key()
		if err != nil {
			return fmt.Errorf("the key: %w", err)
		}
		request.Header.Set("X-Api-Key", key)
	}

	response, err := e.Client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(response.Body, 200)) // the status alone is enough
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s: %s", response.Status, bytes.TrimSpace(answer))
	}
	return nil
}

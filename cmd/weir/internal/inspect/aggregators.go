package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/internal/origin"
)

// An aggregatorFlags selects the aggregators and the enforcer that a command asks.
type aggregatorFlags struct {
	enforcer    ask.Flags
	aggregators []string
}

func (f *aggregatorFlags) add(c *cobra.Command) {
	f.enforcer.Add(c)
	c.Flags().StringArrayVar(&f.aggregators, "aggregator", nil, "ask the aggregator at `URL`; repeat it for all that share the partitions (default aggregator.listen)")
}

// open returns the aggregators to ask. They get the same API key as the enforcer: that of --key-file.
func (f *aggregatorFlags) open(settings *config.Config) (*aggregators, error) {
	client, err := ask.PartClient(countsPatience)
	if err != nil {
		return nil, err
	}

	a := &aggregators{client: client, urls: f.aggregators}
	for _, text := range a.urls {
		_, err := origin.Server(text)
		if errors.Is(err, origin.ErrUser) {
			return nil, exit.Wrongf("--aggregator: %w", err)
		}
		if err != nil {
			return nil, exit.Wrongf("--aggregator: %q is not the URL of an aggregator; write it as http://aggregator.example:7411", text)
		}
	}

	if len(a.urls) == 0 && settings.Aggregator.Listen != "" {
		a.local = settings
		a.urls = []string{settings.Aggregator.TLS.URL(settings.Aggregator.Listen)}
	}
	if len(a.urls) == 0 {
		return nil, exit.Wrongf("the configuration has no aggregator that listens; name one with --aggregator")
	}

	a.key, err = f.enforcer.SharedKey()
	return a, err
}

// countsPatience is how long a complete answer may take.
const countsPatience = 15 * time.Second

// The aggregators share the partitions, and each answers only for its own.
type aggregators struct {
	client *http.Client
	urls   []string
	key    string
	local  *config.Config // where the aggregator is next to the tool; nil for those that flags name
}

// The reasons for which an aggregator has no counts of a key.
var (
	errElsewhere = errors.New("not counted there")
	errNoKey     = errors.New("not a key of the rule")
)

// ask sends a request to one aggregator and decodes its answer.
func (a *aggregators) ask(ctx context.Context, at, path string, query url.Values, into any) error {
	status, text, err := ask.Get(ctx, a.client, strings.TrimSuffix(at, "/")+path+"?"+query.Encode(), a.key)
	switch {
	case status == 0:
		return fmt.Errorf("no aggregator answers at %s: %w; start it (weir run, or aggregator), or name the ones that run: --aggregator URL", at, err)
	case err != nil:
		return fmt.Errorf("the aggregator at %s: %w", at, err)
	}

	if (status == http.StatusUnauthorized || status == http.StatusForbidden) && a.local != nil {
		if other, own, otherErr := ask.ThroughSocket(ctx, a.local, "aggregator", strings.TrimPrefix(path, "/v1/"), query); otherErr == nil {
			status, text = other, own
		}
	}

	switch says := strings.TrimSpace(string(text)); status {
	case http.StatusOK:
		if err := json.Unmarshal(text, into); err != nil {
			return fmt.Errorf("the answer of %s is not that of an aggregator: %w", at, err)
		}
		return nil
	case http.StatusNotFound:
		return fmt.Errorf("the aggregator at %s: %w: %.200s", at, errElsewhere, says)
	case http.StatusBadRequest:
		return fmt.Errorf("the aggregator at %s: %w: %.200s", at, errNoKey, says)
	default:
		return fmt.Errorf("the aggregator at %s answers %d %s: %.200s", at, status, http.StatusText(status), says)
	}
}

// A countedKey contains the counts of one key of a rule.
type countedKey struct {
	Rule      string     `json:"rule"`
	Key       string     `json:"key"`
	Partition *int       `json:"partition,omitempty"` // nil of an inline rule
	Where     string     `json:"where"`               // hot, cold, memory or none
	At        time.Time  `json:"at"`
	Newest    *time.Time `json:"newest"`
	Limits    []struct {
		Limit    string     `json:"limit"`
		Count    int64      `json:"count"`
		All      int64      `json:"all"` // of a share
		Estimate bool       `json:"estimate"`
		Clears   *time.Time `json:"clears"`
	} `json:"limits"`
	Block *struct {
		ID      string     `json:"id"`
		From    time.Time  `json:"from"`
		Until   *time.Time `json:"until"`
		Limit   string     `json:"limit"`
		Count   int64      `json:"count"`
		Level   int        `json:"level"`
		Blocked bool       `json:"blocked"`
		Ended   *time.Time `json:"ended"`
	} `json:"block"`
}

// find asks the aggregators in turn until one of them counts the key.
func (a *aggregators) find(ctx context.Context, rule, key string) (*countedKey, error) {
	query := url.Values{"rule": {rule}, "key": {key}}
	var faults []error
	for _, at := range a.urls {
		counted := &countedKey{}
		err := a.ask(ctx, at, "/v1/keys", query, counted)
		if err == nil || errors.Is(err, errNoKey) || ctx.Err() != nil {
			return counted, err
		}
		faults = append(faults, err)
	}
	return nil, errors.Join(faults...)
}

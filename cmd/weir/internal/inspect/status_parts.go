package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/shown"
	"weir/internal/origin"
)

// A partStatus is the status that a part reports at its admin address.
type partStatus struct {
	Part     string          `json:"part"` // collector, aggregator or enforcer
	Address  string          `json:"address"`
	Reached  bool            `json:"reached"`
	Error    string          `json:"error,omitempty"`     // why it was not reached, or did not answer with a status
	Rules    string          `json:"rules,omitempty"`     // hash of the part's active rules
	CaughtUp *bool           `json:"caught_up,omitempty"` // nothing waits there
	Clock    string          `json:"clock,omitempty"`     // how wrong its clock is, by this machine's
	Status   json.RawMessage `json:"status,omitempty"`    // the complete answer: its sources, its partitions

	times shown.Times // for people
}

// partFlags contain the addresses of the parts that status asks.
type partFlags struct{ collectors, aggregators, enforcers []string }

func (f *partFlags) add(c *cobra.Command) {
	for _, part := range []struct {
		urls          *[]string
		name, setting string
	}{{&f.collectors, "collector", "collector.listen"}, {&f.aggregators, "aggregator", "aggregator.listen"}, {&f.enforcers, "enforcer", "enforcer.admin"}} {
		c.Flags().StringArrayVar(part.urls, part.name, nil, "ask the "+part.name+" whose status is at `URL`; may be repeated (default "+part.setting+")")
	}
}

// A partPlace is the address of a part's status.
type partPlace struct {
	part, shown, url string
	local            *config.Config // where the part is next to the tool; nil for an address that a flag names
}

// places returns the addresses that the flags name, and for the other parts those of the configuration.
func (f *partFlags) places(settings *config.Config) ([]partPlace, error) {
	var places []partPlace
	for _, part := range []struct {
		name, address string
		tls           *config.ServerTLS
		urls          []string
	}{
		{"collector", settings.Collector.Listen, &settings.Collector.TLS, f.collectors},
		{"aggregator", settings.Aggregator.Listen, &settings.Aggregator.TLS, f.aggregators},
		{"enforcer", settings.Enforcer.Admin, &settings.Enforcer.TLS, f.enforcers},
	} {
		for _, text := range part.urls {
			at, err := origin.Server(text)
			if errors.Is(err, origin.ErrUser) {
				return nil, exit.Wrongf("--%s: %w", part.name, err)
			}
			if err != nil {
				return nil, exit.Wrongf("--%s: %q is not a URL; write it as http://%s.example:7411", part.name, text, part.name)
			}
			places = append(places, partPlace{part.name, at.Host, strings.TrimSuffix(text, "/") + "/status", nil})
		}

		if len(part.urls) == 0 && part.address != "" {
			places = append(places, partPlace{part.name, part.address, part.tls.URL(part.address) + "/status", settings})
		}
	}

	return places, nil
}

// askParts asks all parts.
func askParts(ctx context.Context, places []partPlace, key string) []partStatus {
	parts := make([]partStatus, len(places))
	var asking sync.WaitGroup
	for i, place := range places {
		parts[i] = partStatus{Part: place.part, Address: place.shown}
		asking.Go(func() { parts[i].ask(ctx, place, key) })
	}
	asking.Wait()
	return parts
}

// wrongClock is how far the clock of a part may be from this machine's. By default, requests that are ahead of a
// collector's clock by 10 seconds do not count.
const wrongClock = 5 * time.Second

func (p *partStatus) ask(ctx context.Context, place partPlace, key string) {
	text, ahead, err := ask.Status(ctx, place.url, key)
	switch {
	case ahead > wrongClock:
		p.Clock = ahead.Round(time.Second).String() + " ahead"
	case ahead < -wrongClock:
		p.Clock = (-ahead).Round(time.Second).String() + " behind"
	}
	if errors.Is(err, ask.ErrKey) && place.local != nil {
		if status, own, otherErr := ask.ThroughSocket(ctx, place.local, p.Part, "status", nil); otherErr == nil && status == http.StatusOK {
			text, err = own, nil
		}
	}
	p.Reached = err == nil || errors.Is(err, ask.ErrAnswer)
	if err != nil {
		p.Error = err.Error()
		if errors.Is(err, ask.ErrNoStatusYet) {
			p.CaughtUp = new(bool) // it has not looked what waits
		}
		return
	}

	var says struct {
		Rules    string `json:"rules"`
		CaughtUp *bool  `json:"caught_up"`
	}

	if err := json.Unmarshal(text, &says); err != nil {
		p.Error = "the answer is not that of a part of Weir"
		return
	}

	p.Rules, p.CaughtUp, p.Status = says.Rules, says.CaughtUp, text
}

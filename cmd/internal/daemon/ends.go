package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"weir/pkg/collector/ends"
	"weir/pkg/inline"
)

// endAttempts ends attempts at rules with ends: log, and returns how many were known.
type endAttempts func(ctx context.Context, ids []inline.ID) (known int, err error)

var errNoEnds = errors.New("a rule has ends: log, and this collector has no enforcer to which it could report the ends of requests, " +
	"so they count until their leases end; name it in collector: {settle: {enforcers: [http://127.0.0.1:7421]}}")

// openEnds makes what reports the ends of requests: to the enforcer of this process, and to those that are named. It is
// nil where there is none.
func (p *Process) openEnds() (*ends.Sender, error) {
	var to []ends.Target
	if own := p.sibling(Enforcer.Name); own != nil && own.end != nil {
		to = append(to, ends.Target{Name: "the enforcer of this process", End: func(ctx context.Context, ids []inline.ID) error {
			_, err := own.end(ctx, ids)
			return err
		}})
	}

	c := &p.Config.Collector.Settle
	if len(c.Enforcers) > 0 {
		transport, err := p.transportTo(&c.TLS)
		if err != nil {
			return nil, fmt.Errorf("collector.settle.tls: %w", err)
		}
		for _, url := range c.Enforcers {
			one := ends.Enforcer{URL: url, Client: &http.Client{Transport: transport}}
			if c.KeyFile != "" {
				one.Key = func() (string, error) { return passwordIn(c.KeyFile) }
			}
			to = append(to, one.Target())
		}
	}

	if len(to) == 0 {
		if rules, _ := p.Config.RuleSet.EndsByLog(); len(rules) > 0 {
			p.Logger.Warn(errNoEnds.Error(), "rules", rules)
		}
		return nil, nil
	}
	return ends.New(to, p.Logger, p.Metrics), nil
}

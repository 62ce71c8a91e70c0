package config

import (
	"strings"
	"time"

	"weir/internal/duration"
	"weir/internal/yamlfile"
)

// Inline configures where inline rules count.
type Inline struct {
	// Store is memory: each enforcer counts for itself, and begins at zero when it starts; or a Redis, PostgreSQL or MySQL,
	// in which all enforcers count together. Default: memory.
	Store InlineStore `yaml:"store"`
	// Budget is how long a request waits for the store; then on_error of the rule decides. Default: 20ms.
	Budget duration.Duration `yaml:"budget"`
	// Enforcers is how many enforcers share the store. A rule with on_error: local gives each its part of the limits while
	// the store fails. Default: 1.
	Enforcers int `yaml:"enforcers"`
	// Keys is how many keys of inline rules are kept at most; of more, one that was not asked for long begins at zero.
	// Default: 1000000.
	Keys int `yaml:"keys"`
	// Attempts is how many attempts are remembered, to be settled. Default: 200000.
	Attempts int `yaml:"attempts"`
	// RequestID is the header in which the edges name each request by an id that they make themselves, as nginx does with
	// proxy_set_header X-Weir-Request $request_id. A request then counts once, also if its edge asks twice. Default: none.
	RequestID string `yaml:"request_id"`
	// Settle is how long an attempt can be settled. Default: 10m.
	Settle duration.Duration `yaml:"settle"`
	// History is how long attempts are kept in a topic of their own, and in a table if the store is PostgreSQL or MySQL;
	// 0 keeps none. Default: 0.
	History duration.Duration `yaml:"history"`
}

const (
	leastInline  = 1000
	mostInline   = 100_000_000
	longestToSet = 24 * time.Hour

	longestBudget = 5 * time.Second
	mostEnforcers = 10_000
)

// Validate checks the sizes.
func (i *Inline) Validate(v yamlfile.Value) {
	if place := v.Key("budget"); !place.Faulty() && (i.Budget < duration.Duration(time.Millisecond) || time.Duration(i.Budget) > longestBudget) {
		place.Faultf("write 1ms to 5s", "requests cannot wait %s for the store", i.Budget)
	}
	if place := v.Key("enforcers"); !place.Faulty() && (i.Enforcers < 1 || i.Enforcers > mostEnforcers) {
		place.Faultf("write 1 to 10000", "%d enforcers are not possible", i.Enforcers)
	}
	for name, n := range map[string]int{"keys": i.Keys, "attempts": i.Attempts} {
		if place := v.Key(name); !place.Faulty() && (n < leastInline || n > mostInline) {
			place.Faultf("write 1000 to 100000000", "%d %s are not possible", n, name)
		}
	}
	if place := v.Key("request_id"); !place.Faulty() && strings.ContainsAny(i.RequestID, " :\t\r\n") {
		place.Faultf("write it as X-Weir-Request", "%q is not the name of a header", i.RequestID)
	}
	if place := v.Key("history"); !place.Faulty() && i.History != 0 && i.History < minutes(1) {
		place.Faultf("write 1m or more, or 0 for no history", "a history of %s is too short", i.History)
	}
	if place := v.Key("settle"); !place.Faulty() && (i.Settle <= 0 || time.Duration(i.Settle) > longestToSet) {
		place.Faultf("write 1s to 24h", "attempts cannot be settled for %s", i.Settle)
	}
}

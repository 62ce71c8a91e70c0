package aggregator

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/store"
	"weir/internal/topic"
	"weir/pkg/aggregator/publishing"
	"weir/pkg/rule"
)

// Config says what an Aggregator works with. Client, Store and the producers are closed by who opened them.
type Config struct {
	Client     topic.Log
	Group      string        // of all aggregators, in full
	Hits       string        // the topic, in full
	Partitions int           // of it
	Retention  time.Duration // of it: a source silent for longer is forgotten

	Blocklist        publishing.Sender
	BlocklistTopic   string
	Events           publishing.Sender
	EventsPartitions int
	GroupHits        publishing.Sender // to Hits, of group rules; nil leaves these out

	Store       store.Store
	HotKeys     int // windows in memory
	MostWaiting int // hits of a partition that wait for the store; 0 is 100,000

	Rules  *rule.Set
	Reread func() // asks for the rules to be read again; Reload follows where they have changed

	Late  time.Duration // how late a hit may come
	Ahead time.Duration // how far ahead of its collector's clock it may be

	Logger  *slog.Logger
	Metrics prometheus.Registerer
	Now     func() time.Time // nil: the wall clock
}

// Package notify sends the events of the blocklist to people and their tools: webhooks, Slack, Mattermost, PagerDuty,
// Alertmanager, and mail.
//
// Each receiver reads the topic weir.events as a consumer group of its own, so a receiver that fails delays no other.
// All processes that know a receiver are members of its group. The owner of a partition works in rounds: it collects
// events for Receiver.Group, makes messages of them, sends these one after another, and commits the position after the
// round. The commit before the first message has the boundaries of the round in its metadata, and each commit after a
// message the ids of those that were sent. So after a kill the same messages are made again with the same ids, and at most
// one per partition is sent a second time.
//
// A receiver that is new begins at the end of the topic. While a receiver fails, its events wait in the topic. Those that
// are older than Receiver.Stale when their turn comes are summed up in one message. A message that was repeated for
// Receiver.GiveUp is dropped, logged and counted. No more than Receiver.PerMinute messages begin in a minute; the last one
// sums up those that find no room.
//
// Run starts a goroutine for each receiver and partition, and waits for them. They block on the network and nothing
// waits for them. Each partition keeps at most maxKept events of maxEvent bytes and the counts of the others. Secrets are
// read from their files for each message and are not a part of any error.
package notify

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"weir/internal/sleep"
	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/pkg/blocklist"
)

// A Receiver is someone who gets messages, what about, and how.
type Receiver struct {
	Name     string
	Rules    []string // names of rules; * stands for any characters; empty is every rule
	Events   []string // of Events
	Modes    []blocklist.Mode
	Orders   []blocklist.Kind // of events of manual entries
	Severity string           // info, warning, error or critical

	Group     time.Duration // how long the first event of a round waits for others
	PerMinute int           // messages, at least 1
	Stale     time.Duration // events that are older are summed up
	GiveUp    time.Duration // how long a message is repeated
	Timeout   time.Duration // of one attempt

	To Target
}

// Events are the kinds of events that a receiver can ask for.
var Events = []string{blocklist.EventBlocked, blocklist.EventExtended, blocklist.EventCorrected, blocklist.EventEnded,
	blocklist.EventLifted, blocklist.EventOrdered}

// Severities are those of PagerDuty, which the other forms use as well.
var Severities = []string{"info", "warning", "error", "critical"}

// A Target delivers messages in one form. It keeps no state between messages.
type Target interface {
	// Kind is webhook, slack, mattermost, pagerduty, alertmanager or mail.
	Kind() string

	// Send delivers a message and returns the beginning of the answer. An error that wraps errRefused cannot be solved by
	// repeating.
	Send(ctx context.Context, m *Message) (answer string, err error)

	shape() shape
}

// A Log is what is needed of a topic.Log.
type Log interface {
	topic.Members
	topic.Positions
	topic.Spans
	Reader(topic string, partition int, offset int64, maxBytes int) topic.Reader
}

// A Config configures a Notifier.
type Config struct {
	Log       Log
	Topic     string // of the events, in full
	Group     string // a receiver's group is Group, a dot, and its name
	Receivers []Receiver
	Logger    *slog.Logger
	Metrics   prometheus.Registerer // may be nil
}

// A Notifier runs the receivers.
type Notifier struct {
	config    Config
	receivers []*sender
}

// New makes a Notifier. It starts nothing.
func New(c Config) *Notifier {
	n := &Notifier{config: c}
	for _, r := range c.Receivers {
		s := &sender{Receiver: r, log: c.Log, topic: c.Topic, group: GroupOf(c.Group, r.Name), logger: c.Logger.With("receiver", r.Name),
			metrics: newMetrics(c.Metrics, r.Name), limiter: rate.NewLimiter(rate.Limit(float64(r.PerMinute)/60), r.PerMinute)}
		s.faults = telemetry.NewFaults(s.logger)
		n.receivers = append(n.receivers, s)
	}
	return n
}

// GroupOf returns the name of a receiver's consumer group.
func GroupOf(group, receiver string) string { return group + "." + receiver }

// Run sends messages until the context is done.
func (n *Notifier) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, s := range n.receivers {
		running.Go(func() { s.run(ctx) })
	}
	running.Wait()
}

// Status returns the state of each receiver.
func (n *Notifier) Status() []Status {
	states := make([]Status, 0, len(n.receivers))
	for _, s := range n.receivers {
		states = append(states, s.status())
	}
	return states
}

// A Status is the state of a receiver in this process.
type Status struct {
	Receiver string     `json:"receiver"`
	Kind     string     `json:"kind"`
	Sent     int64      `json:"sent"`            // messages
	Dropped  int64      `json:"dropped"`         // messages
	Waiting  int        `json:"waiting"`         // events
	Since    *time.Time `json:"since,omitempty"` // when it began to fail
	Error    string     `json:"error,omitempty"` // of the last attempt; empty when that succeeded
}

// A sender is a receiver that runs.
type sender struct {
	Receiver
	log     Log
	topic   string
	group   string
	logger  *slog.Logger
	faults  *telemetry.Faults
	metrics *metrics
	limiter *rate.Limiter

	mu            sync.Mutex
	sent, dropped int64
	waiting       int
	failing       time.Time // zero when the last attempt succeeded
	failure       string
	unread        bool           // it is the topic that fails, and not an attempt
	read          topic.Identity // of the topic that this process read first
}

const rejoinEvery = 5 * time.Second

// run is a member of the receiver's group until the context is done.
func (s *sender) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.log.RunGroup(ctx, topic.Group{Name: s.group, Topics: map[string]int{s.topic: 0}}, s.own)
		if err != nil && ctx.Err() == nil {
			s.faults.Note("group", fmt.Errorf("notify: receiver %s: %w", s.Name, err))
			sleep.For(ctx, rejoinEvery)
		}
	}
}

func (s *sender) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := Status{Receiver: s.Name, Kind: s.To.Kind(), Sent: s.sent, Dropped: s.dropped, Waiting: s.waiting, Error: s.failure}
	if !s.failing.IsZero() {
		since := s.failing.UTC()
		state.Since = &since
	}
	return state
}

// waits adds to the events that wait.
func (s *sender) waits(events int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting += events
	s.metrics.waiting.Set(float64(s.waiting))
}

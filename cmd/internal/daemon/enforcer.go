package daemon

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/internal/keys"
	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/pkg/blocklist"
	"weir/pkg/blocklist/follow"
	"weir/pkg/blocklist/kafkalog"
	"weir/pkg/enforcer"
	"weir/pkg/enforcer/crawlers"
	"weir/pkg/enforcer/crowdsec"
	"weir/pkg/enforcer/envoy"
	"weir/pkg/enforcer/outright"
	"weir/pkg/enforcer/past"
	"weir/pkg/enforcer/plain"
	"weir/pkg/enforcer/proof"
	"weir/pkg/inline"
	"weir/pkg/notify"
)

// Enforcer is the part that edges ask.
var Enforcer = Part{
	Name:     "enforcer",
	About:    "answers edges from the blocklist, and accepts manual entries.",
	Admin:    func(c *config.Config) (address, keys string) { return c.Enforcer.Admin, c.Enforcer.Keys },
	Switches: []Switch{{"dry-run", "print the changes to nftables and HAProxy instead of making them", "enforcer.dry_run=true"}},
	Open: func(ctx context.Context, p *Process) (Running, error) {
		client, err := p.enforcerClient()
		if err != nil {
			return nil, exit.Wrongf("kafka: %w", err)
		}
		e, err := OpenEnforcer(ctx, p, client)
		if err != nil {
			if client != nil {
				client.Close()
			}
			return nil, err
		}
		if client != nil {
			e.closeAlso = client.Close
		}
		return e, nil
	},
}

// enforcerClient returns nil for an enforcer that follows another one and has no brokers. It takes no manual entries.
func (p *Process) enforcerClient() (topic.Log, error) {
	c := p.Config
	if c.Enforcer.Follow != followKafka && len(c.Kafka.Brokers) == 0 && p.Local == nil {
		return nil, nil
	}
	names := []string{BlocklistTopic(c).Name, EventsTopic(c).Name, HitsTopic(c).Name}
	if c.KeepsAttempts() {
		names = append(names, AttemptsTopic(c).Name)
	}
	if c.Enforcer.Evidence > 0 {
		names = append(names, EvidenceTopic(c).Name)
	}
	return p.openLog(names...)
}

const followKafka = "kafka"

// A RunningEnforcer is an open enforcer with the follower that updates its list, and the agents that apply the list
// elsewhere.
type RunningEnforcer struct {
	*enforcer.Enforcer
	process   *Process
	set       *blocklist.Set
	client    topic.Log // nil without Kafka
	follower  *follow.Follower
	bouncers  *crowdsec.API
	crawlers  *crawlers.Finder // nil without topics for manual entries
	events    *past.Index      // nil without one
	grpc      *envoy.Server    // nil without enforcer.grpc
	producers []topic.Appender
	closeAlso func()
	keys      *keys.File
	notifier  *notify.Notifier // nil when no one is notified
	inline    io.Closer        // nil without a store that others share
	evicts    *telemetry.Faults
	proofs    *proof.Store // nil without evidence

	agentFaults atomic.Pointer[[]func() string] // of agents, each why it cannot copy the list
}

// OpenEnforcer makes the enforcer that the configuration describes. It does not wait for Kafka: until Kafka answers the
// enforcer serves the last complete list. The client is nil when the configuration has no Kafka.
func OpenEnforcer(ctx context.Context, p *Process, client topic.Log) (*RunningEnforcer, error) {
	if p.Config.RuleSet == nil {
		return nil, exit.Wrong(errNoRules)
	}
	r := &RunningEnforcer{process: p, client: client, set: blocklist.NewSet(blocklist.Limits{}), evicts: telemetry.NewFaults(p.Logger), closeAlso: func() {}}
	var err error
	if r.follower, err = r.openFollower(); err != nil {
		return nil, exit.Wrong(err)
	}

	r.events = r.openEvents()
	settings, err := r.settings(ctx)
	if r.proofs = r.openProofs(); r.proofs != nil {
		settings.Evidence = r.proofs.Of
	}
	if err == nil {
		r.Enforcer, err = enforcer.Open(settings)
	}
	if address := p.Config.Enforcer.GRPC; err == nil && address != "" {
		r.grpc, err = envoy.Open(envoy.Config{Decide: r.Enforcer, Listen: address, TLS: settings.TLS, Keys: settings.Keys, Logger: p.Logger, Metrics: p.Metrics})
	}
	if err != nil {
		return nil, errors.Join(err, r.closeProducers(canceled()), r.closeInlineStore())
	}

	p.end = r.End
	r.mount()
	if client != nil {
		r.crawlers = crawlers.New(crawlers.Config{Set: r.set, Rules: r.Rules, Server: p.Config.Enforcer.DNS, Allow: r.AllowCrawler, Logger: p.Logger, Metrics: p.Metrics, Now: time.Now})
	}
	r.notifier = r.openNotifier()
	p.keeps(true, "the list is written again; manual entries that wait to be sent are only in memory until the topics have them", p.Config.Data, "enforcer")

	// The enforcer is not ready until the list is complete (becomeReady), but serves what it has.
	p.Health.Lack("there is no complete list yet")
	return r, nil
}

func (r *RunningEnforcer) openFollower() (*follow.Follower, error) {
	c := r.process.Config
	to := follow.Config{Set: r.set, File: filepath.Join(c.Data, "enforcer", "list"), Logger: r.process.Logger}
	if c.Enforcer.Follow == followKafka {
		return follow.NewFromLog(to, kafkalog.New(r.client, BlocklistTopic(c).Name)), nil
	}
	upstream, err := r.process.upstreamOf(&c.Enforcer)
	if err != nil {
		return nil, err
	}
	return follow.NewFromUpstream(to, upstream)
}

func (r *RunningEnforcer) settings(ctx context.Context) (enforcer.Config, error) {
	p, c := r.process, r.process.Config
	settings := enforcer.Config{
		Set: r.set, Listen: c.Enforcer.Listen, Socket: c.Enforcer.Socket, Refusal: c.Enforcer.Refuse, LimitHeaders: limitHeaders[c.Enforcer.LimitHeaders],
		DenyWithoutList: c.Enforcer.WithoutList == "deny", Folder: filepath.Join(c.Data, "enforcer"), Follows: c.Enforcer.Follow, Hosts: c.Hosts,
		EventsPartitions: c.Kafka.Events.Partitions, HitsPartitions: c.Kafka.Hits.Partitions, Logger: p.Logger, Metrics: p.Metrics,
		Keep: r.follower.Keep, Unsaved: func() string { return r.follower.Status().Unsaved },
		Inline: inline.Config{Keys: c.Inline.Keys, Attempts: c.Inline.Attempts, Settle: time.Duration(c.Inline.Settle)},
		Refused: func(entry *blocklist.Entry, client netip.Addr) {
			r.bouncers.Saw(entry, client)
			r.crawlers.Saw(entry, client)
		},
	}

	if settings.Events = r.events; r.events == nil {
		settings.NoEvents = noEvents(c)
	}
	if r.client != nil {
		settings.WhatIf = r.whatIf
	}
	if c.Enforcer.Follow == followKafka && p.Local != nil {
		settings.Follows = "the topics in " + c.StoreFolder()
	}

	var err error
	if settings.InlineStore, err = r.openInlineStore(ctx); err != nil {
		return settings, exit.Wrong(err)
	}
	if settings.Ruling, err = rulingOf(c); err != nil {
		return settings, err
	}
	if settings.Keys, err = p.keysOf(c.Enforcer.Keys); err != nil {
		return settings, exit.Wrong(err)
	}
	if settings.TLS, err = p.serverTLS(c.Enforcer.TLS); err != nil {
		return settings, exit.Wrong(err)
	}

	r.keys = settings.Keys

	// Without Kafka there is no place for manual entries, and the enforcer refuses them.
	if r.client != nil {
		settings.Sinks = r.openSinks()
	}
	switch {
	case !c.KeepsAttempts():
	case r.client != nil:
		settings.History = r.openHistory()
	case settings.InlineStore == nil || settings.InlineStore.History == nil || c.RefusalsSource() != nil:
		return settings, exit.Wrong(errNoPlaceForAttempts)
	}

	return settings, nil
}

var limitHeaders = map[config.LimitHeaders]enforcer.LimitHeaders{
	"both": enforcer.BothLimitHeaders, "draft": enforcer.DraftLimitHeaders, "legacy": enforcer.LegacyLimitHeaders, "none": enforcer.NoLimitHeaders,
}

// rulingOf returns the settings that can change while the enforcer runs.
func rulingOf(c *config.Config) (enforcer.Ruling, error) {
	trusted, err := client(c)
	return enforcer.Ruling{Rules: c.RuleSet, Client: trusted, Header: c.Client.Header, Fields: c.Enforcer.Fields,
		RequestID: c.Inline.RequestID, Shadow: c.Mode == config.Shadow}, err
}

// ordersBytes is how much each producer of manual entries queues at most.
const ordersBytes = 4 << 20

func (r *RunningEnforcer) openSinks() *enforcer.Sinks {
	open := func(to topic.Topic) topic.Appender {
		producer := r.client.Appender(topic.AppenderConfig{Topic: to.Name, Partitions: to.Partitions, QueueBytes: ordersBytes})
		r.producers = append(r.producers, producer)
		return producer
	}

	c := r.process.Config
	sinks := &enforcer.Sinks{Blocklist: open(BlocklistTopic(c)), Events: open(EventsTopic(c)), Hits: open(HitsTopic(c))}
	ours := slices.Clone(r.producers)
	r.process.queue("orders", float64(len(ours)*ordersBytes), func() (held float64) {
		for _, producer := range ours {
			held += float64(producer.Held())
		}
		return held
	})

	return sinks
}

var errNoPlaceForAttempts = errors.New("attempts at inline rules are to be kept, and this enforcer has no topics and no inline.store in SQL; name kafka.brokers, or leave inline.history out")

// attemptsBytes is how much the producer of attempts queues at most.
const attemptsBytes = 4 << 20

func (r *RunningEnforcer) openHistory() *enforcer.History {
	to := AttemptsTopic(r.process.Config)
	producer := r.client.Appender(topic.AppenderConfig{Topic: to.Name, Partitions: to.Partitions, QueueBytes: attemptsBytes})
	r.producers = append(r.producers, producer)
	return &enforcer.History{Appender: producer, Partitions: to.Partitions}
}

// mount adds the list's other forms: CrowdSec's API and plain text.
func (r *RunningEnforcer) mount() {
	p, c := r.process, r.process.Config
	list := outright.While(r.Refuses, r.set)
	r.bouncers = crowdsec.Open(crowdsec.Config{
		List: list, Rules: r.Rules, Addresses: c.Enforcer.Crowdsec.Addresses, Asked: r.Asked, Folder: filepath.Join(c.Data, "enforcer", "crowdsec"), Logger: p.Logger, Metrics: p.Metrics,
		Admit: func(q *http.Request) (name string, ok bool) {
			name, err := r.Admit(q, keys.Read)
			return name, err == nil
		},
	})
	r.Mount(r.bouncers.Handle)
	r.mountConsole()
	r.mountParts()
	r.Mount(plain.New(plain.Config{List: list, Rules: r.Rules, Guard: r.Guard}).Handle)
}

// Status returns the enforcer's status with that of its follower.
func (r *RunningEnforcer) Status() any {
	following := r.follower.Status()
	s := struct {
		enforcer.Status
		Unread int64           `json:"unread"`           // records that were left out
		Events any             `json:"events,omitempty"` // the index of events, where there is one
		Notify []notify.Status `json:"notify,omitempty"` // the receivers, where there are some
	}{Status: r.Enforcer.Status(), Unread: following.Unread}
	s.CaughtUp = s.CaughtUp && following.Trouble == "" // why the list is not up to date
	troubles := append([]string{following.Trouble, s.Trouble, r.evicts.Lasts(evicts)}, r.withoutList()...)
	s.Trouble = strings.Join(slices.DeleteFunc(troubles, func(text string) bool { return text == "" }), "; ")
	if r.notifier != nil {
		s.Notify = r.notifier.Status()
	}
	if r.events != nil {
		s.Events = r.events.Status()
	}
	return s
}

// Reload applies new rules, trusted proxies and fields.
func (r *RunningEnforcer) Reload(c *config.Config) error {
	ruling, err := rulingOf(c)
	if err != nil {
		return err
	}
	return r.Rule(ruling)
}

// Close closes the enforcer's producers and its client. The next start sends the manual entries that Kafka does not have
// yet.
func (r *RunningEnforcer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	err := r.closeProducers(ctx)
	r.closeAlso()
	return errors.Join(err, r.closeInlineStore())
}

func (r *RunningEnforcer) closeProducers(ctx context.Context) error {
	var errs []error
	for _, producer := range r.producers {
		if err := producer.Close(ctx); err != nil && !errors.Is(err, topic.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

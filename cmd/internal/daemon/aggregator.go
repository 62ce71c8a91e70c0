package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/internal/regular"
	"weir/internal/store"
	"weir/internal/store/disk"
	"weir/internal/store/redis"
	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/pkg/aggregator"
	"weir/pkg/rule"
	"weir/pkg/window"
)

// Aggregator is the part that counts.
var Aggregator = Part{
	Name:  "aggregator",
	About: "counts the hits in Kafka, each exactly once, and publishes the keys that broke a limit.",
	Admin: func(c *config.Config) (address, keys string) { return c.Aggregator.Listen, c.Aggregator.Keys },
	Open: func(ctx context.Context, p *Process) (Running, error) {
		c := p.Config
		client, err := p.openLog(HitsTopic(c).Name, BlocklistTopic(c).Name, EventsTopic(c).Name)
		if err != nil {
			return nil, exit.Wrongf("kafka: %w", err)
		}
		a, err := OpenAggregator(ctx, p, client)
		if err != nil {
			client.Close()
			return nil, err
		}
		a.closeAlso = client.Close
		return a, nil
	},
}

// A RunningAggregator is an open aggregator with its store and the producers that it sends to.
type RunningAggregator struct {
	*aggregator.Aggregator
	store             store.Store
	blocklist, events topic.Appender
	groups            topic.Appender // to the hits
	evicts            *telemetry.Faults
	logger            *slog.Logger
	closeAlso         func()
}

// OpenAggregator makes the aggregator that the configuration describes. It reads the hits with the given client.
func OpenAggregator(ctx context.Context, p *Process, client topic.Log) (*RunningAggregator, error) {
	c := p.Config
	if c.RuleSet == nil {
		return nil, exit.Wrong(errNoRules)
	}

	hits, list, events := HitsTopic(c), BlocklistTopic(c), EventsTopic(c)
	if err := p.EnsureTopics(ctx, client, hits, list, events); err != nil {
		return nil, err
	}

	// The topics come before the store: a wrong number of partitions is found before anything is opened.
	cold, err := p.openStore(ctx)
	if err != nil {
		return nil, err
	}

	r := &RunningAggregator{store: cold, evicts: telemetry.NewFaults(p.Logger), logger: p.Logger, closeAlso: func() {}}
	r.blocklist = p.producer(client, list, "blocklist")
	r.events = p.producer(client, events, "events")
	r.groups = p.producer(client, hits, "groups")
	settings := aggregator.Config{
		Client: client, Group: c.AggregatorGroup(), Hits: hits.Name, Partitions: hits.Partitions, Retention: time.Duration(c.Kafka.Hits.Retention),
		Blocklist: r.blocklist, BlocklistTopic: list.Name, Events: r.events, EventsPartitions: events.Partitions, GroupHits: r.groups,
		Store: cold, HotKeys: c.Aggregator.HotKeys, Rules: c.RuleSet, Reread: p.Reread,
		Late: countedLate(c), Ahead: time.Duration(c.Time.Ahead), Logger: p.Logger, Metrics: p.Metrics,
	}

	if r.Aggregator, err = aggregator.Open(ctx, settings); err != nil {
		return nil, errors.Join(permanent(err), r.Close())
	}

	r.Handle(p.Handle)
	if c.Store.Redis == "" {
		p.keeps(true, "a new store is made; with kafka.brokers, the hits that weir.hits still has are counted again", c.StoreFolder(), "LOCK")
	}
	return r, nil
}

// permanent makes a wrong of an error that another configuration corrects.
func permanent(err error) error {
	if errors.Is(err, aggregator.ErrPartitions) || errors.Is(err, topic.ErrPartitions) {
		return exit.Wrong(err)
	}
	return err
}

func (p *Process) producer(client topic.Log, to topic.Topic, name string) topic.Appender {
	producer := client.Appender(topic.AppenderConfig{Topic: to.Name, Partitions: to.Partitions, QueueBytes: queueBytes})
	p.queue(name, queueBytes, func() float64 { return float64(producer.Held()) })
	return producer
}

// openStore opens the store. It retries until it succeeds, the context is done, or an error cannot pass by itself.
func (p *Process) openStore(ctx context.Context) (store.Store, error) {
	open, passes, err := p.storeOpener()
	if err != nil {
		return nil, err
	}

	var opened store.Store
	err = p.retry(ctx, "store", p.Health.Unready, passes, func() (err error) {
		opened, err = open(ctx)
		return err
	})
	return opened, err
}

// storeOpener returns how the store is opened, and which of its errors may pass by themselves.
func (p *Process) storeOpener() (open func(context.Context) (store.Store, error), passes func(error) bool, err error) {
	if p.Config.Store.Redis == "" && p.Local != nil {
		return func(context.Context) (store.Store, error) { return disk.On(p.Local.database), nil }, func(error) bool { return true }, nil
	}
	if p.Config.Store.Redis == "" {
		options := disk.Options{Folder: p.Config.StoreFolder(), Log: p.Logger}
		return func(ctx context.Context) (store.Store, error) { return opened(disk.Open(ctx, options)) },
			func(err error) bool { return errors.Is(err, disk.ErrBroken) }, nil
	}
	options, err := RedisOptions(p.Config)
	if err != nil {
		return nil, nil, exit.Wrong(err)
	}
	return func(ctx context.Context) (store.Store, error) { return opened(redis.Open(ctx, options)) },
		func(err error) bool { return !errors.Is(err, store.ErrForeign) }, nil
}

// opened returns a nil interface, not an interface with a nil pointer, when opening failed.
func opened[S store.Store](s S, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// RedisOptions returns the options for the Redis of a configuration whose rules are loaded.
func RedisOptions(c *config.Config) (redis.Options, error) {
	password, err := passwordIn(c.Store.PasswordFile)
	if err != nil {
		return redis.Options{}, fmt.Errorf("store: %w", err)
	}
	again := func() (string, error) { return passwordIn(c.Store.PasswordFile) }
	return redis.Options{URL: c.Store.Redis, User: c.Store.User, Password: password, ReadPassword: again, Prefix: c.Kafka.Prefix, Expire: expiry(c)}, nil
}

// InlineRedisOptions returns the options for the Redis that counts inline rules.
func InlineRedisOptions(c *config.Config) (redis.Options, error) {
	file := c.Inline.Store.PasswordFile
	password, err := passwordIn(file)
	if err != nil {
		return redis.Options{}, fmt.Errorf("inline.store: %w", err)
	}
	again := func() (string, error) { return passwordIn(file) }
	return redis.Options{URL: c.Inline.Store.Redis, User: c.Inline.Store.User, Password: password, ReadPassword: again, Prefix: c.Kafka.Prefix + "inline:"}, nil
}

// passwordIn reads a password from a file, without line breaks at its end; "" when no file is named.
func passwordIn(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := regular.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	telemetry.Secret(path, password)
	return password, nil
}

// expiry returns the time without a write after which Redis may delete a key: then its window cannot matter any more, and
// none of its hits can be read again. 0 means never.
func expiry(c *config.Config) time.Duration {
	longest := time.Duration(0)
	for _, r := range c.RuleSet.Counted().Rules {
		if !r.CountsLog() {
			continue
		}
		matters := mattersFor(r)
		if matters == window.Forever {
			return 0
		}
		longest = max(longest, matters)
	}
	return 2*(longest+countedLate(c)) + time.Duration(c.Kafka.Hits.Retention)
}

// countedLate returns how late a hit may be and still count. A request may be late in its own log by time.late, and logs
// that a collector catches up with together may be nearly as far apart, so a hit can be late by twice that.
func countedLate(c *config.Config) time.Duration { return 2 * time.Duration(c.Time.Late) }

// mattersFor returns how long after its last hit a key of a rule is remembered.
func mattersFor(r *rule.Rule) time.Duration {
	longest := r.Block.For
	for _, then := range r.Block.Then {
		longest = max(longest, then)
	}
	if longest == window.Forever || r.Block.Forget == window.Forever {
		return window.Forever
	}
	longest += r.Block.Forget + r.Late(0)
	for _, limit := range r.Limits {
		longest = max(longest, limit.Per)
	}
	return longest
}

// Run counts until the context is done. It fails when a topic's number of partitions is not the configured one.
func (r *RunningAggregator) Run(ctx context.Context) error {
	watching, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	if inRedis, ok := r.store.(*redis.Store); ok {
		watch.Go(func() { watchEviction(watching, inRedis.Check, r.evicts) })
	}
	defer watch.Wait()
	defer cancel()
	return permanent(r.Aggregator.Run(ctx))
}

// Status returns the aggregator's status with the error of its store, and why it cannot write to Kafka. While a Redis fails,
// the partitions say whether hits wait.
func (r *RunningAggregator) Status() any {
	s := struct {
		aggregator.Status
		Store   string `json:"store,omitempty"`   // why it cannot be used
		Trouble string `json:"trouble,omitempty"` // why Kafka does not have what was sent
	}{Status: r.Aggregator.Status()}
	for _, to := range []topic.Appender{r.blocklist, r.events, r.groups} {
		producer, ok := to.(interface{ Fault() error })
		if !ok {
			continue
		}
		if err := producer.Fault(); err != nil {
			s.Trouble = "what the aggregator sends waits: " + err.Error()
		}
	}
	onDisk, ok := r.store.(*disk.Store)
	if !ok {
		s.Store = cmp.Or(r.Aggregator.StoreFault(), r.evicts.Lasts(evicts))
		return s
	}
	if err := onDisk.Fault(); err != nil {
		s.Store, s.CaughtUp = err.Error(), false
	}
	return s
}

// Reload applies new rules.
func (r *RunningAggregator) Reload(c *config.Config) error { return r.Aggregator.Reload(c.RuleSet) }

// Close closes the aggregator, its store and its producers. The partitions' next owner publishes the records that Kafka
// does not have yet.
func (r *RunningAggregator) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	var errs []error
	for _, producer := range []topic.Appender{r.blocklist, r.events, r.groups} {
		if err := producer.Close(ctx); err != nil && !errors.Is(err, topic.ErrClosed) {
			errs = append(errs, err)
		}
	}

	if err := r.store.Close(); errors.Is(err, disk.ErrBroken) {
		r.logger.Warn("the store could not be closed; hits that it lost are counted again", "error", err)
	} else {
		errs = append(errs, err)
	}

	r.closeAlso()
	return errors.Join(errs...)
}

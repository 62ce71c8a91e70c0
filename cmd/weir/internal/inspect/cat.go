package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/daemon"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/live"
	"weir/internal/duration"
	"weir/internal/sleep"
	"weir/internal/topic"
)

// A catCommand contains the flags of `weir cat`.
type catCommand struct {
	live      live.Flags
	partition int // -1 is all
	from      string
	follow    bool
	output    command.Output
}

func newCat() *cobra.Command {
	cat := &catCommand{}
	c := &cobra.Command{
		Use:   "cat [flags] hits|blocklist|attempts",
		Short: "Show the records of the topics between the parts",
		Long: `Cat shows the batches of hits that collectors have sent, the entries of the blocklist, or the attempts at inline rules that
enforcers have decided, partition by partition. It stops at the last record that existed when it started. Records that cannot be read are reported with their place; the
others are shown, and the exit code is 1.

Without Kafka it asks the process that has the topics. When no process has, it reads them from the store itself.`,
		Example: `  weir cat hits --from 5m --follow
  weir cat blocklist --json
  weir cat hits --partition 3 --from 41
  weir cat attempts --from 1h`,
		ValidArgs: catTopics,
		Args:      oneTopic,
		RunE:      func(c *cobra.Command, args []string) error { return cat.run(c, args[0]) },
	}
	cat.live.Add(c)
	c.Flags().IntVar(&cat.partition, "partition", -1, "show partition `N` only")
	c.Flags().Lookup("partition").DefValue = "all"
	c.Flags().StringVar(&cat.from, "from", "earliest", "begin at `WHERE`: earliest, latest, an offset, or 25h before now")
	c.Flags().BoolVar(&cat.follow, "follow", false, "continue with new records until interrupted")
	cat.output.Add(c, "text", "json", "plain")
	return c
}

var catTopics = []string{daemon.Hits, daemon.Blocklist, daemon.Attempts}

func oneTopic(c *cobra.Command, args []string) error {
	if len(args) == 1 && slices.Contains(catTopics, args[0]) {
		return nil
	}
	return exit.Wrongf("cat needs one word, hits, blocklist or attempts; for example: %s", command.Example(c))
}

func (cat *catCommand) run(c *cobra.Command, what string) error {
	from, err := parsePlace(cat.from)
	if err != nil {
		return err
	}

	settings, err := cat.live.LoadButRules()
	if err != nil {
		return err
	}

	name := settings.Kafka.Prefix + what
	client, err := live.Connect(settings, c.ErrOrStderr(), name)
	if err != nil {
		return err
	}
	defer client.Close()
	r := &catRun{client: client, topic: name, shown: newCatWriter(c.OutOrStdout(), c.ErrOrStderr(), name, cat.output.Form)}
	r.newShow = r.shown.hits
	switch what {
	case daemon.Blocklist:
		r.newShow = r.shown.blocklist
	case daemon.Attempts:
		r.newShow = r.shown.attempts
	}

	err = r.open(c.Context(), from, cat.partition)
	if err == nil {
		err = r.run(c.Context(), cat.follow)
	}
	return errors.Join(err, r.shown.end())
}

// A catFrom is the place where reading begins: an offset, or some time before now.
type catFrom struct {
	offset int64         // -1 earliest, -2 latest, -3 before now
	before time.Duration // only then
}

const (
	atEarliest = -1 - iota
	atLatest
	beforeNow
)

func parsePlace(text string) (catFrom, error) {
	switch text {
	case "earliest":
		return catFrom{offset: atEarliest}, nil
	case "latest":
		return catFrom{offset: atLatest}, nil
	}

	if offset, err := strconv.ParseInt(text, 10, 64); err == nil && offset >= 0 {
		return catFrom{offset: offset}, nil
	}
	before, err := duration.Parse(text)
	if err != nil || before == duration.Forever {
		return catFrom{}, exit.Wrongf("--from %s is not a place to begin; write earliest, latest, an offset, or a time before now, such as 25h", text)
	}

	return catFrom{beforeNow, before}, nil
}

// A catRun reads the partitions of a topic.
type catRun struct {
	client  topic.Log
	topic   string
	shown   *catWriter
	newShow func(partition int) func(*topic.Record) // for one partition's records; used by one goroutine
	parts   []catPart
}

// A catPart is a partition with the range of offsets that is read.
type catPart struct {
	partition int
	reader    topic.Reader
	end       int64 // when cat began
	show      func(*topic.Record)
}

// open finds the first offset and the end of each partition.
func (r *catRun) open(ctx context.Context, from catFrom, only int) error {
	spans, err := r.spans(ctx)
	if errors.Is(err, topic.ErrNoTopic) {
		return fmt.Errorf("there is no topic %s: nothing has written to it yet, or kafka.prefix is another one", r.topic)
	}
	if err != nil {
		return err
	}
	if only >= len(spans) || only < -1 {
		return fmt.Errorf("there is no partition %d: %s has %d, from 0 on", only, r.topic, len(spans))
	}
	if from.offset >= 0 && only < 0 && len(spans) > 1 {
		return exit.Wrongf("--from %d: each of the %d partitions has offsets of its own; add --partition", from.offset, len(spans))
	}

	for p, span := range spans {
		if only >= 0 && p != only {
			continue
		}
		begin, err := r.begin(ctx, from, p, span)
		if err != nil {
			return err
		}
		r.parts = append(r.parts, catPart{p, r.client.Reader(r.topic, p, begin, 0), span.End, r.newShow(p)})
	}

	return nil
}

// leaderPatience is how long cat waits for the leaders of partitions, which move and are new with a new topic.
const leaderPatience = 5 * time.Second

func (r *catRun) spans(ctx context.Context) (spans []topic.Span, err error) {
	for began := time.Now(); ; {
		spans, err = r.client.Offsets(ctx, r.topic)
		if !errors.Is(err, topic.ErrNoLeader) || time.Since(began) > leaderPatience || ctx.Err() != nil {
			return spans, err
		}
		sleep.For(ctx, 250*time.Millisecond)
	}
}

func (r *catRun) begin(ctx context.Context, from catFrom, partition int, span topic.Span) (int64, error) {
	switch from.offset {
	case atEarliest:
		return span.Start, nil
	case atLatest:
		return span.End, nil
	case beforeNow:
		return r.client.OffsetAt(ctx, r.topic, partition, time.Now().Add(-from.before))
	}
	if from.offset > span.End {
		return 0, fmt.Errorf("--from %d: %s/%d ends at %d", from.offset, r.topic, partition, span.End)
	}
	return from.offset, nil
}

// run shows the records of each partition to its end. With follow it then shows new records of all partitions as they
// come.
func (r *catRun) run(ctx context.Context, follow bool) error {
	for i := range r.parts {
		if err := r.read(ctx, &r.parts[i], false); err != nil {
			return err
		}
	}

	if err := r.shown.flush(); err != nil || !follow {
		return err
	}
	// Each partition is followed by a goroutine of its own, so that records come as soon as they are written.
	failed := make([]error, len(r.parts))
	following, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	for i := range r.parts {
		running.Go(func() {
			failed[i] = r.read(following, &r.parts[i], true)
			stop()
		})
	}

	running.Wait()
	if ctx.Err() != nil {
		return nil // interrupted, which is the usual end of --follow
	}

	// The first goroutine that fails stops the others, which then return context.Canceled.
	for _, err := range failed {
		if !errors.Is(err, context.Canceled) {
			return err
		}
	}

	return nil
}

// catTries is how many fetches may fail in a row without --follow: about ten seconds.
const catTries = 8

// read shows a partition's records to its end, or until the context is done.
func (r *catRun) read(ctx context.Context, p *catPart, follow bool) error {
	failed := 0
	for follow || p.reader.Next() < p.end {
		records, err := p.reader.Fetch(ctx)
		if err == nil {
			failed = 0
			if err := r.shown.each(records, p, follow); err != nil {
				return err
			}
			continue
		}

		failed++
		if !follow && failed == catTries {
			return err
		}
		if err := r.missed(ctx, p, err, follow); err != nil {
			return err
		}
	}

	return nil
}

// missed returns nil when reading can go on after an error, and moves the reader to where it goes on.
func (r *catRun) missed(ctx context.Context, p *catPart, err error, follow bool) error {
	what := strings.TrimPrefix(err.Error(), "fetching ")
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, topic.ErrTrimmed):
		r.shown.warn(what)
	case errors.Is(err, topic.ErrPastEnd) && follow:
		r.shown.warn(what + "; the topic was made again, and is shown from its beginning")
	case errors.Is(err, topic.ErrPastEnd):
		return err
	default:
		return nil // the client has logged it, and the next fetch tries again
	}

	p.reader.SetNext(p.reader.Span().Start)
	return nil
}

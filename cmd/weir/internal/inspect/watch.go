package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
)

// A watchCommand contains the flags of `weir watch`.
type watchCommand struct {
	enforcer ask.Flags
	rule     string
	plain    bool
	output   command.Output
}

func newWatch() *cobra.Command {
	w := &watchCommand{}
	c := &cobra.Command{
		Use:   "watch [flags]",
		Short: "Watch the blocklist live: each new entry, its reason and end",
		Long: `Watch shows every change of the blocklist as an enforcer learns of it, until you interrupt it: each blocked key with its
rule, its end and the reason, and each key that is let in before its end. A block that simply ends is not shown, because
its end was shown when it began.

The text form has at most thirty lines a second: in a flood, further changes are counted by rule and network. Programs
(--json) get every change, one a line.

When the enforcer is lost, watch reconnects by itself and continues where it was. If the enforcer does not have the
changes since then, watch compares the new list with the old one, and reports that.

In a terminal the changes are shown in place until you press q, the newest first. Enter shows what weir explain knows of
a key.`,
		Example: `  weir watch
  weir watch --rule sign-in
  weir watch --json | jq -r .key`,
		Args: command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return w.run(c) },
	}
	w.enforcer.Add(c)
	c.Flags().StringVar(&w.rule, "rule", "", "show the changes of one `RULE` only; manual entries have the rule manual")
	c.Flags().BoolVar(&w.plain, "plain", false, "write lines, in a terminal too")
	w.output.Add(c, "text", "json", "plain")
	return c
}

// A watchShow shows changes. add may keep some back until flush.
type watchShow interface {
	add(now time.Time, changes []watchChange) error
	flush(now time.Time) error
}

func (w *watchCommand) run(c *cobra.Command) error {
	enforcer, err := w.enforcer.Connect()
	if err != nil {
		return err
	}
	defer enforcer.Close()
	var show watchShow = &watchLines{out: c.OutOrStdout(), form: w.output.Form}
	if w.output.Form == "text" {
		show = newWatchFold(c.OutOrStdout())
	}

	feed := &watchFeed{enforcer: enforcer, query: url.Values{}, stderr: c.ErrOrStderr(), seen: newWatchSeen()}
	if w.rule != "" {
		feed.query.Set("rule", w.rule)
	}
	if w.output.Form == "text" && !w.plain && browses(c) {
		return w.view(c, feed)
	}
	return watchUntil(c.Context(), feed, show)
}

// watchUntil shows changes until the context is done, which is the usual end.
func watchUntil(ctx context.Context, feed *watchFeed, show watchShow) error {
	if err := feed.begin(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	changes, failed := make(chan []watchChange), make(chan error, 1)
	go func() { failed <- feed.run(ctx, changes) }()
	err := showUntil(ctx, changes, failed, show)
	stop()
	for range changes { // closed when the feed has ended
	}
	return errors.Join(err, show.flush(time.Now()))
}

// foldEvery is the time after which the counts of a flood are shown.
const foldEvery = time.Second

func showUntil(ctx context.Context, changes <-chan []watchChange, failed <-chan error, show watchShow) error {
	ticker := time.NewTicker(foldEvery)
	defer ticker.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			if ctx.Err() != nil {
				return nil
			}
			return err
		case some, ok := <-changes:
			if !ok {
				changes = nil // the error follows on failed
				continue
			}
			err = show.add(time.Now(), some)
		case now := <-ticker.C:
			err = show.flush(now)
		}

		if err != nil {
			return err
		}
	}
}

// watchLines shows every change on a line of its own.
type watchLines struct {
	out  io.Writer
	form string
}

func (l *watchLines) add(_ time.Time, changes []watchChange) error {
	for i := range changes {
		e := &changes[i].Entry
		var err error
		switch {
		case l.form == "json":
			err = output.JSON(l.out).Encode(e)
		case changes[i].refuses():
			_, err = fmt.Fprintln(l.out, e.Plain())
		}

		if err != nil {
			return err
		}
	}

	return nil
}

func (l *watchLines) flush(time.Time) error { return nil }

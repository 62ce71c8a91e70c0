package inspect

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"sync/atomic"
	"time"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/output"
	"weir/pkg/blocklist"
)

// A watchFeed asks an enforcer repeatedly for the changes since the last version that it received.
type watchFeed struct {
	enforcer *ask.Enforcer
	query    url.Values // sent with each request, next to the version
	stderr   io.Writer
	seen     *watchSeen

	version blocklist.Version
	local   string      // names the manual entries that were received and have no version yet
	failure string      // the error that was reported last; empty while the enforcer answers
	away    atomic.Bool // failure is not empty, for other goroutines
}

const (
	watchWait       = 30 * time.Second // how long one request waits for a change
	watchFirstPause = 100 * time.Millisecond
	watchLastPause  = 5 * time.Second
)

// begin reads the complete list, so that later changes can be recognised. It fails when no enforcer can be asked.
func (f *watchFeed) begin(ctx context.Context) error {
	list, err := f.enforcer.List(ctx, f.query)
	if err != nil {
		return err
	}
	defer list.Close()
	on := 0
	for entry, err := range list.All() {
		if err != nil {
			return err
		}
		if change := f.seen.change(entry); change.what != "" && change.Blocks() {
			on++
		}
	}

	f.version, f.local = list.Header.Version, list.Local
	f.report("%s on the list of %s; changes from now on:", output.Counted(on, "key"), f.enforcer.At())
	return nil
}

func (f *watchFeed) report(format string, args ...any) {
	fmt.Fprintf(f.stderr, "weir: "+format+"\n", args...)
}

// run sends changes until the context is done, and then closes the channel.
func (f *watchFeed) run(ctx context.Context, changes chan<- []watchChange) error {
	defer close(changes)
	pause := watchFirstPause
	for {
		asked := time.Now()
		some, err := f.next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case exit.IsWrong(err):
			return err
		case err != nil:
			f.lost(err)
		case f.failure != "":
			f.report("the enforcer at %s answers again; changes are shown from where it was lost", f.enforcer.At())
			f.failure = ""
			f.away.Store(false)
		}

		if len(some) > 0 {
			pause = watchFirstPause
			select {
			case changes <- some:
			case <-ctx.Done():
				return nil
			}
			continue
		}

		// An answer without changes after a wait is usual: the next request follows at once.
		if err == nil && time.Since(asked) > time.Second {
			pause = watchFirstPause
			continue
		}

		select { // an answer without changes came at once, so the next request waits a little
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}

		pause = min(2*pause, watchLastPause)
	}
}

// lost makes the next request try all places of the enforcer again, and reports each error once.
func (f *watchFeed) lost(err error) {
	f.enforcer.Retry()
	f.away.Store(true)
	if err.Error() != f.failure {
		f.report("%v; trying again", err)
		f.failure = err.Error()
	}
}

// next waits for changes once. Changes that it returns with an error are valid, and are not returned again.
func (f *watchFeed) next(ctx context.Context) ([]watchChange, error) {
	query := maps.Clone(f.query)
	query.Set("after", f.version.String())
	query.Set("local", f.local)
	query.Set("wait", watchWait.String())
	list, err := f.enforcer.List(ctx, query)
	if err != nil {
		return nil, err
	}
	defer list.Close()
	// A complete list in place of the changes begins a round; entries of the round before that it does not have are gone.
	before := f.seen.round
	if list.Header.Snapshot {
		f.report("the enforcer does not have the changes after %s: the new list is compared with the old one", f.version)
		f.seen.round++
	}

	var some []watchChange
	for entry, err := range list.All() {
		if err != nil {
			return some, fmt.Errorf("reading the changes: %w", err)
		}
		if change := f.seen.change(entry); change.what != "" {
			some = append(some, change)
		}
	}

	f.version, f.local = list.Header.Version, list.Local
	if f.seen.round > before {
		if gone := f.seen.dropGone(time.Now().UnixMilli()); gone > 0 {
			f.report("%s left the list meanwhile, before their end", output.Counted(gone, "key"))
		}
	}

	return some, nil
}

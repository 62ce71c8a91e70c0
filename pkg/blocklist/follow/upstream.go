package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"weir/internal/origin"
	"weir/internal/sleep"
	"weir/pkg/blocklist"
)

// An Upstream is another enforcer.
type Upstream struct {
	URL    string // https://host:7421; a path before /v1 may follow
	Key    func() (string, error)
	Client *http.Client  // nil: the package makes one
	Wait   time.Duration // of a long poll; 0 is 30 s
	// Patience is how long the upstream may send nothing beyond Wait, at the beginning of an answer and in it. 0 is 10
	// s.
	Patience time.Duration
}

const (
	defaultWait     = 30 * time.Second
	defaultPatience = 10 * time.Second
	firstPause      = 100 * time.Millisecond
	longestPause    = 5 * time.Second
	snapshotsEvery  = 2 * time.Second // at most, for orders that the upstream lost

	listPath = "/v1/blocklist"
)

// StatusNotYet is an enforcer's answer when it has not reached the wanted version.
const StatusNotYet = http.StatusTooEarly

// NewestField is a header field of a follower's request. It names the record that the follower's list ends with. An
// enforcer whose list has another record there was set back, for example with its machine, and answers with all of its
// list.
const NewestField = "Weir-Newest"

var errSilent = errors.New("it sends nothing")

type upstreamSource struct {
	*Follower
	Upstream
	base  *url.URL
	again bool      // the clock went back, and no snapshot was read since
	begun bool      // an answer was read since the start
	whole time.Time // of the last snapshot
}

func newUpstreamSource(f *Follower, u Upstream) (*upstreamSource, error) {
	base, err := origin.Server(u.URL)
	if errors.Is(err, origin.ErrUser) {
		return nil, fmt.Errorf("the enforcer to follow: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("the enforcer to follow: %q is no URL such as https://host:7421", u.URL)
	}

	// A redirect to another host would otherwise get the API key.
	u.Client = origin.Stay(cmp.Or(u.Client, &http.Client{}))
	u.Wait = cmp.Or(u.Wait, defaultWait)
	u.Patience = cmp.Or(u.Patience, defaultPatience)
	return &upstreamSource{Follower: f, Upstream: u, base: base}, nil
}

func (u *upstreamSource) run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		before, asked := u.config.Set.State(), time.Now()
		err := u.poll(ctx)
		_ = u.config.Set.Apply(u.now()) // forgets ended records
		if ctx.Err() != nil {
			return
		}

		if err == nil {
			u.well("upstream")
			pause = firstPause
			// An enforcer waits for a change. A cache in front of it may not, and a request would follow the other.
			if u.config.Set.State() == before {
				sleep.For(ctx, firstPause-time.Since(asked))
			}
			continue
		}

		u.trouble("upstream", fmt.Errorf("following %s: %w", u.base.Redacted(), err))

		// Random, so that followers of an enforcer that was restarted do not all come back at once.
		sleep.For(ctx, pause/2+rand.N(pause))
		pause = min(2*pause, longestPause)
	}
}

// poll asks once for the changes after the current list.
func (u *upstreamSource) poll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	// A connection that is dead without an error is noticed: the first answer may take as long as the poll, each later
	// piece only Patience.
	silence := time.AfterFunc(u.Wait+u.Patience, func() { cancel(errSilent) })
	defer silence.Stop()
	response, err := u.ask(ctx)
	if err != nil {
		return because(ctx, err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotModified || response.StatusCode == http.StatusNoContent:
		return nil
	case response.StatusCode == StatusNotYet:
		return fmt.Errorf("%w: it is behind %v", blocklist.ErrNotYet, u.config.Set.Version())
	case response.StatusCode != http.StatusOK:
		return refused(response)
	}

	// The source may lose these orders before the log has them, so they are put on this disk, too.
	orders := u.config.Set.LocalAbove()
	header, err := u.config.Set.Read(&watched{response.Body, func() { silence.Reset(u.Patience) }}, u.now())
	if err == nil {
		u.again = u.again && !header.Snapshot
		u.begun = true
	}
	if err == nil && header.Snapshot {
		u.whole = time.Now()
	}
	if u.config.Set.LostAbove() { // behind one address may be several enforcers, and only one has the orders
		sleep.For(ctx, snapshotsEvery-time.Since(u.whole))
	}
	if err == nil && u.config.Set.LocalAbove() != orders {
		_ = u.Keep() // orders do not wait for the next write; Keep logs its errors
	}

	return because(ctx, err)
}

func (u *upstreamSource) ask(ctx context.Context) (*http.Response, error) {
	set := u.config.Set
	query := url.Values{}
	u.again = u.clockWentBack() || u.again
	version, newest := set.Newest()
	// Without after the answer is a snapshot, at once. A list from the disk whose last record is not known may be of a time
	// that the other enforcer knows nothing of any more.
	if set.Whole() && !u.again && !set.LostAbove() && (newest != "" || u.begun) {
		query.Set("after", version.String())
		query.Set("wait", u.Wait.String())
	}

	if local := set.LocalAbove(); local != "" {
		query.Set("local", local)
	}
	where := *u.base
	where.Path = strings.TrimSuffix(where.Path, "/") + listPath
	where.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), http.NoBody)
	if err != nil {
		return nil, err
	}

	request.Header.Set("Accept", blocklist.ContentBinary)
	if newest != "" {
		request.Header.Set(NewestField, newest)
	}
	if err := u.authorize(request); err != nil {
		return nil, err
	}
	return u.Client.Do(request)
}

func (u *upstreamSource) authorize(request *http.Request) error {
	if u.Key == nil {
		return nil
	}
	key, err := u.Key()
	if err != nil {
		return fmt.Errorf("the key: %w", err)
	}
	request.Header.Set("X-Api-Key", key)
	return nil
}

// because returns the cause of a context's end instead of the error that followed from it.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// refused turns an answer into an error.
func refused(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, 200)) // the status alone is enough
	return fmt.Errorf("it answers %s: %s", response.Status, strings.TrimSpace(string(text)))
}

// watched calls back for each piece that arrives.
type watched struct {
	io.Reader
	came func()
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	if n > 0 {
		w.came()
	}
	return n, err
}

// Package client lets a Go program use a blocklist: it follows the list of an enforcer, and asks it in memory.
//
//	list, err := client.Open(client.Config{URL: "https://weir.internal:7421", Key: key})
//	…
//	defer list.Close()
//	http.ListenAndServe(address, list.Middleware(handler, client.ByAddress))
//
// A List holds the whole list or the last whole one, never a part. While there is none yet, requests pass, or, where
// Config.Closed says so, do not. The enforcer may be away: the list stays, entries end by their own time, and Status
// says how old the list is and why. With Config.File it outlives the process too.
//
// A Request is asked about by its address, its user and the fields that are given: by every entry of a rule that counts
// by one of these alone, and by every order. What rules cover is not known here: entries of a rule that refuses only some
// requests (covers: match) refuse all of the key's, unless Config.Rules leaves the rule out; keys of several fields
// are asked for by CheckKey.
//
// Open starts goroutines, Close ends them and waits. All methods may be called by any number of goroutines; a check
// takes no lock, does no I/O and takes well below a microsecond. A million entries take some 130 MB.
package client

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/blocklist/follow"
)

// Config says which list is followed.
type Config struct {
	URL    string                 // of the enforcer
	Key    string                 // of the role read
	Client *http.Client           // nil is one of our own
	File   string                 // where the last whole list is kept; "" keeps none
	Closed bool                   // without any list nobody passes
	Rules  func(rule string) bool // which rules count; nil: all
	Logger *slog.Logger           // nil is silence
}

// A List is the blocklist in this process.
type List struct {
	config   Config
	set      *blocklist.Set
	follower *follow.Follower
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// Open begins to follow. It does not wait for the list: Ready does.
func Open(config Config) (*List, error) {
	if config.Client == nil {
		config.Client = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	l := &List{config: config, set: blocklist.NewSet(blocklist.Limits{Changes: 4 << 10})}
	var err error
	l.follower, err = follow.NewFromUpstream(follow.Config{Set: l.set, File: config.File, Logger: config.Logger},
		follow.Upstream{URL: config.URL, Client: config.Client, Key: func() (string, error) { return config.Key, nil }})
	if err != nil {
		return nil, err
	}

	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.running.Go(func() { l.follower.Run(ctx) })
	return l, nil
}

// Close ends following.
func (l *List) Close() {
	l.stop()
	l.running.Wait()
	l.config.Client.CloseIdleConnections()
}

// Ready waits until there is a whole list, be it an old one, or the context is done.
func (l *List) Ready(ctx context.Context) error {
	for {
		changed := l.set.Changed()
		if l.set.Whole() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A Status says how following goes.
type Status struct {
	Whole   bool   // there is a list
	Version string // the same at every enforcer that has the same list
	Age     time.Duration
	Trouble string // why the list does not keep up; empty when it does
}

// Status says how following goes.
func (l *List) Status() Status {
	state := l.set.State()
	s := Status{Whole: state.Whole, Version: state.Version.String(), Trouble: l.follower.Status().Trouble}
	if state.Whole {
		s.Age = time.Since(time.UnixMilli(state.AsOf))
	}
	return s
}

// A Request is who sends one.
type Request struct {
	IP   netip.Addr // not valid: not asked for
	User string     // "": not asked for
	// Fields are those by which rules count or orders block. A path stands here as rules have it: decoded, without dots and
	// double slashes (docs/rules.md, Paths); request.PathForm makes it so.
	Fields []blocklist.Field
}

// A Verdict says whether a request may pass.
type Verdict struct {
	Refused    bool
	Rule       string        // that refuses it; manual for what a person ordered; "" when there is no list
	RetryAfter time.Duration // until when, at least a second; 0 when nobody knows
}

// Check asks whether a request may pass.
func (l *List) Check(r Request) Verdict {
	now := time.Now()
	if !l.set.Whole() {
		return Verdict{Refused: l.config.Closed}
	}
	asked := blocklist.Asked{IP: r.IP, User: r.User, Fields: r.Fields}
	return l.verdict(l.set.CheckAlone(&asked, now.UnixMilli(), l.config.Rules), now)
}

// CheckKey asks for a rule's key, in its canonical form.
func (l *List) CheckKey(rule, key string) Verdict {
	now := time.Now()
	if !l.set.Whole() {
		return Verdict{Refused: l.config.Closed}
	}
	asked := blocklist.Asked{Keys: []blocklist.RuleKey{{Rule: rule, Key: []byte(key)}}}
	return l.verdict(l.set.Check(&asked, now.UnixMilli()), now)
}

func (l *List) verdict(a blocklist.Answer, now time.Time) Verdict {
	if !a.Entry.Found() {
		return Verdict{}
	}
	v := Verdict{Refused: true, Rule: a.Entry.Rule()}
	if until := a.Entry.Until(); until != blocklist.Never {
		v.RetryAfter = max(time.Second, time.UnixMilli(until).Sub(now))
	}
	return v
}

// ByAddress makes a Request of the address that the connection comes from. Behind a proxy that is the proxy's: write a
// function of your own there.
func ByAddress(r *http.Request) Request {
	address, _ := netip.ParseAddrPort(r.RemoteAddr)
	return Request{IP: address.Addr().Unmap()}
}

// Middleware answers 429 with Retry-After to requests that are refused, and hands on all others.
func (l *List) Middleware(next http.Handler, who func(*http.Request) Request) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := l.Check(who(r))
		if !v.Refused {
			next.ServeHTTP(w, r)
			return
		}
		if v.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.FormatInt(int64((v.RetryAfter+time.Second-1)/time.Second), 10))
		}
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	})
}

// Package client lets a Go program use a blocklist: it follows the list of an enforcer, and asks it in memory.
//
//	list, err := client.Open(client.Config{URL: "https://weir.internal:7421", Key: key})
//	…
//	defer list.Close()
//	http.ListenAndServe(address, list.Middleware(handler, client.ByAddress))
//
// A List contains the complete list or the last complete one, never a part. While there is none yet, requests pass;
// with Config.Closed they are refused. When the enforcer is away the list stays, entries end by their own time, and
// Status reports how old the list is and why. With Config.File the list outlives the process too.
//
// A check compares a request's address, user and given fields with every entry of a rule that counts by one of these
// alone, and with every order. The package does not know which requests a rule covers. Entries of a rule that refuses
// only some requests (covers: match) therefore refuse all requests of the key, unless Config.Rules leaves the rule out.
// CheckKey asks for keys of several fields.
//
// Open starts goroutines, Close ends them and waits. All methods may be called by any number of goroutines; a check
// takes no lock, does no I/O and takes well below a microsecond. A million entries take some 130 MB.
//
// Other programs may import this package (docs/go.md).
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

// Config names the list to follow.
type Config struct {
	URL    string                 // of the enforcer
	Key    string                 // of the role read
	Client *http.Client           // nil: the package makes one
	File   string                 // keeps the last complete list; "" keeps none
	Closed bool                   // refuse all requests while there is no list
	Rules  func(rule string) bool // which rules count; nil: all
	Logger *slog.Logger           // nil logs nothing
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

// Ready waits until there is a complete list, which may be an old one, or until the context is done.
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

// A Status reports how up to date the list is.
type Status struct {
	Whole   bool   // there is a list
	Version string // equal at all enforcers that have the same list
	Age     time.Duration
	Trouble string // why the list does not keep up; empty when it does
}

// Status reports how up to date the list is.
func (l *List) Status() Status {
	state := l.set.State()
	s := Status{Whole: state.Whole, Version: state.Version.String(), Trouble: l.follower.Status().Trouble}
	if state.Whole {
		s.Age = time.Since(time.UnixMilli(state.AsOf))
	}
	return s
}

// A Request identifies the client of a request.
type Request struct {
	IP   netip.Addr // not valid: not checked
	User string     // "": not checked
	// Fields are those by which rules count or orders block. A path must have the form that rules use: decoded, without
	// dots and double slashes (docs/rules.md, Paths); request.PathForm makes it.
	Fields []blocklist.Field
}

// A Verdict reports whether a request may pass.
type Verdict struct {
	Refused    bool
	Rule       string        // that refuses it; manual for an order of a person; "" when there is no list
	RetryAfter time.Duration // until when, at least a second; 0 when that is unknown
}

// Check reports whether a request may pass.
func (l *List) Check(r Request) Verdict {
	now := time.Now()
	if !l.set.Whole() {
		return Verdict{Refused: l.config.Closed}
	}
	asked := blocklist.Asked{IP: r.IP, User: r.User, Fields: r.Fields}
	return l.verdict(l.set.CheckAlone(&asked, now.UnixMilli(), l.config.Rules), now)
}

// CheckKey reports whether a key of a rule, in its canonical form, may pass.
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

// ByAddress makes a Request of the address that the connection comes from. Behind a proxy that is the proxy's address:
// write your own function there.
func ByAddress(r *http.Request) Request {
	address, _ := netip.ParseAddrPort(r.RemoteAddr)
	return Request{IP: address.Addr().Unmap()}
}

// Middleware answers 429 with Retry-After to requests that are refused, and passes on all others.
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

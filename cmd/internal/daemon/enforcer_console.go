package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/internal/keys"
	"weir/internal/origin"
	"weir/internal/telemetry"
	"weir/pkg/enforcer"
	"weir/pkg/enforcer/console"
	"weir/pkg/enforcer/console/provider"
)

// mountConsole adds the pages for people.
func (r *RunningEnforcer) mountConsole() {
	p, c := r.process, r.process.Config
	serves, actions := c.Enforcer.ServesConsole()
	if !serves {
		return
	}

	pages := console.New(console.Config{
		Set: r.set, Rules: r.Rules, Refuses: r.Refuses, Refused: r.RefusedBy, API: r.Enforcer, As: enforcer.As, Keys: r.keys, ReadOnly: !actions,
		Admit:  func(q *http.Request) (string, error) { return r.Admit(q, keys.Read) },
		Client: func(q *http.Request) netip.Addr { return r.Caller(q) },
		Turn:   r.SearchTurn,
		Person: r.person(), Provider: consoleProvider(&c.Enforcer.ConsoleOIDC), Redirect: c.Enforcer.ConsoleOIDC.Redirect,
		Parts: r.consoleParts(), Ending: r.Ending(), Version: telemetry.Version(), Logger: p.Logger,
	})
	r.Mount(pages.Handle)
}

// consoleProvider is nil where people do not log in with a provider.
func consoleProvider(c *config.ConsoleOIDC) *provider.Provider {
	if c.Issuer == "" {
		return nil
	}
	return provider.New(provider.Config{
		Issuer: c.Issuer, ClientID: c.ClientID, Secret: func() (string, error) { return passwordIn(c.ClientSecretFile) },
		Redirect: c.Redirect, Scopes: c.Scopes, Claim: c.Claim, Read: c.Read, Write: c.Write, Now: time.Now,
	})
}

// person is nil when there is no socket.
func (r *RunningEnforcer) person() func(*http.Request) (string, bool) {
	if r.process.Config.Enforcer.Socket == "" {
		return nil
	}
	return enforcer.Person
}

// partPatience bounds a question of the console to another process.
const partPatience = 2 * time.Second

// consoleParts are the parts that the console asks: those of this process, or else those that the configuration names.
func (r *RunningEnforcer) consoleParts() (all []console.Part) {
	c := r.process.Config
	client := origin.Stay(&http.Client{Timeout: partPatience, Transport: &http.Transport{DisableKeepAlives: true}})
	for _, part := range []struct {
		name, address string
		tls           *config.ServerTLS
	}{
		{"collector", c.Collector.Listen, &c.Collector.TLS}, {"aggregator", c.Aggregator.Listen, &c.Aggregator.TLS}, {"enforcer", c.Enforcer.Admin, &c.Enforcer.TLS},
	} {
		one := console.Part{Name: part.name, Address: part.address}
		switch own := r.process.sibling(part.name); {
		case own != nil:
			one.Get = own.answerOwn
		case part.address == "":
			continue
		default:
			url := part.tls.URL(part.address)
			one.Get = func(ctx context.Context, path string) (int, []byte, error) { return get(ctx, client, url+path) }
		}
		all = append(all, one)
	}
	return all
}

// sibling returns a part of this process by its name; nil where it is in another process.
func (p *Process) sibling(name string) *Process {
	if p.part == "" && name == "enforcer" {
		return p
	}
	for _, one := range p.others {
		if one.part == name {
			return one
		}
	}
	return nil
}

var errNoAddress = errors.New("it has no address for its status")

// answerOwn answers a question about this part without a connection.
func (p *Process) answerOwn(ctx context.Context, path string) (status int, body []byte, err error) {
	if p.api == nil {
		return 0, nil, errNoAddress
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	a := &ownAnswer{header: http.Header{}, status: http.StatusOK}
	p.api.ServeHTTP(a, r)
	return a.status, a.body.Bytes(), nil
}

// An ownAnswer keeps an answer in memory.
type ownAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header is for http.ResponseWriter.
func (a *ownAnswer) Header() http.Header { return a.header }

// WriteHeader begins the answer.
func (a *ownAnswer) WriteHeader(status int) { a.status = status }

// Write keeps bytes.
func (a *ownAnswer) Write(b []byte) (int, error) { return a.body.Write(b) }

// maxPartAnswer is how many bytes of another process's answer are read.
const maxPartAnswer = 16 << 20

func get(ctx context.Context, client *http.Client, url string) (status int, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, nil, exit.Cause(err)
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(io.LimitReader(answer.Body, maxPartAnswer))
	return answer.StatusCode, body, err
}

// Package provider asks an OpenID Connect provider who a person is: the authorization code flow with PKCE (S256), state
// and nonce. go-oidc checks the identity token: its signature by the provider's keys, its issuer, audience and expiry.
//
// A log-in that has begun is a sealed text in a cookie of the browser. So nothing of it is kept here, and no number of
// begun log-ins ends another one. Only the states of log-ins that were completed are remembered until they end, so that
// none is used twice. No token is kept or logged.
//
// Nothing is fetched before the first log-in. Every call ends after 10 seconds and reads at most 1 MiB an answer. The
// caller bounds how many calls run at the same time. A Provider is safe for concurrent use. It starts no goroutine;
// go-oidc fetches keys in one, which ends with its request.
package provider

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"weir/internal/keys"
	"weir/internal/keytext"
	"weir/internal/origin"
)

const (
	patience  = 10 * time.Second // of one log-in's step, and of each request
	maxAnswer = 1 << 20
	known     = time.Hour // how long the provider's addresses are used before they are asked for again
	maxName   = 200

	// maxSignature bounds the signature, in base64, and so the RSA key that checks it: one of 8,192 bits is allowed. A key
	// of 100 KB would take a minute, which nothing ends.
	maxSignature = 1400
)

// Config configures a Provider.
type Config struct {
	Issuer   string
	ClientID string
	Secret   func() (string, error) // read at each log-in; empty for a public client
	Redirect string
	Scopes   []string
	Claim    string   // of the identity token: a text or a list of texts
	Read     []string // values of the claim with which a person may read
	Write    []string // values of the claim with which a person may also act
	Now      func() time.Time
}

// A Provider answers who a person is.
type Provider struct {
	config Config
	client *http.Client
	seal   seal

	mu    sync.Mutex
	found *oidc.Provider
	at    time.Time // when it was found
}

// New makes a provider, and asks nothing.
func New(c Config) *Provider {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.IdleConnTimeout, transport.MaxResponseHeaderBytes = 4, patience, maxAnswer
	client := origin.Stay(&http.Client{Timeout: patience, Transport: bounded{transport}})
	return &Provider{config: c, client: client, seal: newSeal(c.Now)}
}

// A LoginError is the reason why a log-in failed: a sentence for the person, and the cause for the log.
type LoginError struct {
	Text  string
	Cause error // nil when the text says it all
}

// Error is the text for the log.
func (r *LoginError) Error() string {
	if r.Cause == nil {
		return r.Text
	}
	return r.Text + " " + clipped(r.Cause.Error())
}

// Unwrap returns the cause.
func (r *LoginError) Unwrap() error { return r.Cause }

// Begin begins a log-in: the address that the browser goes to, and the text of its cookie.
func (p *Provider) Begin(ctx context.Context, next string) (address, cookie string, err error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), patience)
	defer cancel()
	o, _, err := p.discover(ctx)
	if err != nil {
		return "", "", err
	}

	begun := begun{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: next, Until: p.config.Now().Add(lasts)}
	return o.AuthCodeURL(begun.State, oidc.Nonce(begun.Nonce), oauth2.S256ChallengeOption(begun.Verifier)), p.seal.close(&begun), nil
}

// End ends a log-in with the cookie of the browser and the provider's answer: the person, without a key, and the page to
// go to. The page is also returned with an error if the log-in was begun here.
func (p *Provider) End(ctx context.Context, cookie string, query func(string) string) (person keys.Key, next string, err error) {
	begun, ok := p.seal.open(cookie)
	if !ok || subtle.ConstantTimeCompare([]byte(begun.State), []byte(query("state"))) != 1 {
		return person, "", &LoginError{Text: "This log-in was not begun in this browser, is complete already, or took longer than 10 minutes. Begin again."}
	}
	if code := query("error"); code != "" {
		return person, begun.Next, &LoginError{Text: "The provider ended the log-in: " + clipped(code) + ".", Cause: errors.New(query("error_description"))}
	}

	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), patience)
	defer cancel()
	token, err := p.exchange(ctx, query("code"), begun)
	if err != nil {
		return person, begun.Next, err
	}
	person, err = p.person(token)
	if err == nil && !p.seal.use(begun) {
		err = &LoginError{Text: "This log-in is complete already. Begin again."}
	}
	return person, begun.Next, err
}

// discover asks for the provider's addresses, if they are not known.
func (p *Provider) discover(ctx context.Context) (*oauth2.Config, *oidc.Provider, error) {
	p.mu.Lock()
	found := p.found
	if p.config.Now().Sub(p.at) > known {
		found = nil
	}
	p.mu.Unlock()

	if found == nil { // several may ask at the same time; each is bounded, and none waits for another
		var err error
		if found, err = oidc.NewProvider(ctx, p.config.Issuer); err != nil {
			return nil, nil, p.away(err)
		}
		if err := p.encrypted(found); err != nil {
			return nil, nil, p.away(err)
		}
		p.mu.Lock()
		p.found, p.at = found, p.config.Now()
		p.mu.Unlock()
	}

	secret, err := p.config.Secret()
	if err != nil {
		return nil, nil, &LoginError{Text: "The enforcer cannot read its client secret. Its log has the reason.", Cause: err}
	}
	endpoint := found.Endpoint()
	if secret == "" {
		endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client has no password to try first
	}
	return &oauth2.Config{ClientID: p.config.ClientID, ClientSecret: secret, Endpoint: endpoint, RedirectURL: p.config.Redirect, Scopes: p.config.Scopes}, found, nil
}

// encrypted checks that no address of a provider is less protected than the issuer: codes and secrets go there.
func (p *Provider) encrypted(found *oidc.Provider) error {
	var also struct {
		Keys string `json:"jwks_uri"`
	}
	if err := found.Claims(&also); err != nil {
		return err
	}
	for _, address := range []string{found.Endpoint().AuthURL, found.Endpoint().TokenURL, also.Keys} {
		if !strings.HasPrefix(address, "https://") && (strings.HasPrefix(p.config.Issuer, "https://") || !strings.HasPrefix(address, "http://")) {
			return fmt.Errorf("it names the address %q, which is not encrypted", clipped(address))
		}
	}
	return nil
}

func (p *Provider) away(err error) error {
	return &LoginError{Text: "The provider " + p.config.Issuer + " cannot be asked. The enforcer's log has the reason.", Cause: err}
}

// exchange exchanges the code for an identity token, and checks it.
func (p *Provider) exchange(ctx context.Context, code string, begun *begun) (*oidc.IDToken, error) {
	o, found, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	both, err := o.Exchange(ctx, code, oauth2.VerifierOption(begun.Verifier))
	if refused := (*oauth2.RetrieveError)(nil); errors.As(err, &refused) { // its text has the complete answer
		err = fmt.Errorf("the token endpoint answered %s: %s %s", refused.Response.Status, refused.ErrorCode, refused.ErrorDescription)
		return nil, &LoginError{Text: "The provider did not accept the log-in. The enforcer's log has the reason.", Cause: err}
	}
	if err != nil {
		return nil, p.away(err)
	}

	text, _ := both.Extra("id_token").(string)
	if len(text)-strings.LastIndexByte(text, '.') > maxSignature {
		return nil, &LoginError{Text: "The provider's token is not accepted. The enforcer's log has the reason.", Cause: errors.New("its signature is too long")}
	}
	token, err := found.VerifierContext(ctx, &oidc.Config{ClientID: p.config.ClientID, Now: p.config.Now}).Verify(ctx, text)
	if expired := (*oidc.TokenExpiredError)(nil); errors.As(err, &expired) {
		return nil, &LoginError{Text: "The provider's token has expired. Compare the clocks of both machines.", Cause: err}
	}
	if err == nil && subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(begun.Nonce)) != 1 {
		err = errors.New("its nonce is that of another log-in")
	}
	if err != nil {
		return nil, &LoginError{Text: "The provider's token is not accepted. The enforcer's log has the reason.", Cause: err}
	}
	return token, nil
}

// person is who a token is about, and what that person may do.
func (p *Provider) person(token *oidc.IDToken) (person keys.Key, err error) {
	c, err := readClaims(token, p.config.Claim)
	if err != nil {
		return person, &LoginError{Text: "The provider's token is not accepted. The enforcer's log has the reason.", Cause: err}
	}
	if c.party != "" && c.party != p.config.ClientID {
		return person, &LoginError{Text: "The provider's token is for another program.", Cause: fmt.Errorf("authorized party %s", c.party)}
	}
	if c.name == "" || len(c.name) > maxName || keytext.Shown(c.name) != c.name {
		return person, &LoginError{Text: "The provider's name for you is empty, too long, or has characters that cannot be shown.", Cause: errors.New(c.name)}
	}

	has := func(value string) bool { return slices.Contains(c.values, value) }
	switch {
	case slices.ContainsFunc(p.config.Write, has):
		return keys.Key{Name: c.name, Role: keys.Write}, nil
	case slices.ContainsFunc(p.config.Read, has):
		return keys.Key{Name: c.name, Role: keys.Read}, nil
	}
	return person, &LoginError{Text: fmt.Sprintf("%s may not log in here: the provider's token has no %s that enforcer.console_oidc names.", c.name, p.config.Claim)}
}

// clipped bounds text of others for people and the log.
func clipped(text string) string {
	const most = 300
	if len(text) > most {
		text = text[:most] + "…"
	}
	return keytext.Shown(text)
}

// bounded bounds the bodies of answers.
type bounded struct{ http.RoundTripper }

// RoundTrip sends a request.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	}
	return answer, err
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/internal/origin"
)

// A partStatus is the status that a part reports at its admin address.
type partStatus struct {
	Part     string          `json:"part"` // collector, aggregator or enforcer
	Address  string          `json:"address"`
	Reached  bool            `json:"reached"`
	Error    string          `json:"error,omitempty"`     // why it was not reached, or did not answer with a status
	Rules    string          `json:"rules,omitempty"`     // hash of the part's active rules
	CaughtUp *bool           `json:"caught_up,omitempty"` // nothing waits there
	Status   json.RawMessage `json:"status,omitempty"`    // the complete answer: its sources, its partitions
}

const partPatience = 2 * time.Second

// partFlags contain the addresses of the parts that status asks.
type partFlags struct{ collectors, aggregators, enforcers []string }

func (f *partFlags) add(c *cobra.Command) {
	for _, part := range []struct {
		urls          *[]string
		name, setting string
	}{{&f.collectors, "collector", "collector.listen"}, {&f.aggregators, "aggregator", "aggregator.listen"}, {&f.enforcers, "enforcer", "enforcer.admin"}} {
		c.Flags().StringArrayVar(part.urls, part.name, nil, "ask the "+part.name+" whose status is at `URL`; may be repeated (default "+part.setting+")")
	}
}

// A partPlace is the address of a part's status.
type partPlace struct{ part, shown, url string }

// places returns the addresses that the flags name, and for the other parts those of the configuration.
func (f *partFlags) places(settings *config.Config) ([]partPlace, error) {
	var places []partPlace
	for _, part := range []struct {
		name, address string
		tls           *config.ServerTLS
		urls          []string
	}{
		{"collector", settings.Collector.Listen, &settings.Collector.TLS, f.collectors},
		{"aggregator", settings.Aggregator.Listen, &settings.Aggregator.TLS, f.aggregators},
		{"enforcer", settings.Enforcer.Admin, &settings.Enforcer.TLS, f.enforcers},
	} {
		for _, text := range part.urls {
			at, err := url.Parse(text)
			if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
				return nil, exit.Wrongf("--%s: %q is not a URL; write it as http://%s.example:7411", part.name, text, part.name)
			}
			places = append(places, partPlace{part.name, at.Host, strings.TrimSuffix(text, "/") + "/status"})
		}

		if len(part.urls) == 0 && part.address != "" {
			places = append(places, partPlace{part.name, part.address, urlOf(part.address, part.tls) + "/status"})
		}
	}

	return places, nil
}

// askParts asks all parts.
func askParts(ctx context.Context, places []partPlace, key string) []partStatus {
	parts := make([]partStatus, len(places))
	var asking sync.WaitGroup
	for i, place := range places {
		parts[i] = partStatus{Part: place.part, Address: place.shown}
		asking.Go(func() { parts[i].ask(ctx, place.url, key) })
	}
	asking.Wait()
	return parts
}

// urlOf returns the URL for an address that a part listens on.
func urlOf(address string, t *config.ServerTLS) string {
	if t.Cert != "" {
		return "https://" + reachable(address)
	}
	return "http://" + reachable(address)
}

// partClient returns a client for the parts, with the roots and the certificate of the user's file.
func partClient(patience time.Duration) (*http.Client, error) {
	file, err := readClientFile()
	if err != nil {
		return nil, err
	}
	secure, err := file.tls()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	transport.DisableKeepAlives = true // they are asked once
	return origin.Stay(&http.Client{Transport: transport, Timeout: patience}), nil
}

// reachable returns the address to connect to for an address that a part listens on.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	ip, err := netip.ParseAddr(host)
	if host != "" && (err != nil || !ip.IsUnspecified()) {
		return address
	}
	return net.JoinHostPort("localhost", port)
}

func (p *partStatus) ask(ctx context.Context, url, key string) {
	ctx, cancel := context.WithTimeout(ctx, partPatience)
	defer cancel()
	text, err := getStatus(ctx, url, key)
	p.Reached = err == nil || errors.Is(err, errAnswer)
	if err != nil {
		p.Error = err.Error()
		return
	}

	var says struct {
		Rules    string `json:"rules"`
		CaughtUp *bool  `json:"caught_up"`
	}

	if err := json.Unmarshal(text, &says); err != nil {
		p.Error = "the answer is not that of a part of Weir"
		return
	}

	p.Rules, p.CaughtUp, p.Status = says.Rules, says.CaughtUp, text
}

// errAnswer means that there was an answer, but not a status.
var errAnswer = errors.New("answers")

// maxStatus is how many bytes of a part's answer are read.
const maxStatus = 16 << 20

func getStatus(ctx context.Context, url, key string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if key != "" {
		request.Header.Set("X-Api-Key", key)
	}

	client, err := partClient(partPatience)
	if err != nil {
		return nil, err
	}

	answer, err := client.Do(request)
	if err != nil {
		return nil, exit.Cause(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxStatus))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("it %w %s: %.200s", errAnswer, answer.Status, bytes.TrimSpace(text))
	}

	return text, err
}

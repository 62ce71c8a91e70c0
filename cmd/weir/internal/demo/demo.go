// Package demo simulates a small site for a first look at Weir: visitors, three abusers, and a server that asks the enforcer
// about each request and writes its access log. All its files are in a temporary folder that Close removes. It knows of
// Weir only the configuration's text and the question to the enforcer.
package demo

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A Site simulates a small site: visitors who come and go, three abusers, and a server that asks the enforcer about
// each request and writes its access log.
type Site struct {
	folder  string
	log     string // the path of its access log
	check   string // the enforcer's URL for checks
	client  http.Client
	random  *rand.Rand
	pending float64 // visitors' requests that are due; may be a fraction
	seen    map[netip.Addr]*tally
}

// A tally counts the requests of a client.
type tally struct{ requests, refused int }

const (
	visitors          = 1000
	visitorsPerSecond = 40.0    // requests of all visitors together
	logBytes          = 8 << 20 // a longer log is rotated
	tick              = 50 * time.Millisecond
	patience          = 200 * time.Millisecond // for the enforcer's answer; then the request is let through
	rules             = "rules: [{name: per-client, key: ip, limits: [30/10s, 100/min], block: {for: 30s, then: [2m]}}]\n"
	configText        = "data: data\nkafka: {hits: {partitions: 4, retention: 1h}}\n" + rules + "client: {trusted_proxies: [127.0.0.0/8, \"::1/128\"]}\ncollector: {sources: [{name: demo, file: [%q], format: combined}]}\n"
)

// An abuser sends the same request at a constant rate.
type abuser struct {
	address   netip.Addr
	perSecond float64
	request   string
	agent     string
}

var abusers = []abuser{
	{netip.MustParseAddr("203.0.113.66"), 12, "POST /login", "python-requests/2.32"},
	{netip.MustParseAddr("198.51.100.23"), 8, "GET /search?q=%d", "Scrapy/2.11"},
	{netip.MustParseAddr("2001:db8:bad:1::7"), 5, "GET /api/prices?page=%d", "curl/8.5.0"},
}

var pages = []string{"GET /", "GET /about", "GET /products/%d", "GET /static/site.css", "GET /images/%d.webp", "POST /basket", "GET /api/stock?id=%d"}

// Open makes a folder with the configuration and the empty log of a site.
func Open() (*Site, error) {
	folder, err := os.MkdirTemp("", "weir-demo-")
	if err != nil {
		return nil, err
	}
	d := &Site{folder: folder, log: filepath.Join(folder, "access.log"), random: rand.New(rand.NewPCG(1, 2)), seen: map[netip.Addr]*tally{}}
	if err := os.WriteFile(d.log, nil, 0o644); err != nil {
		return nil, err
	}
	return d, os.WriteFile(d.Config(), fmt.Appendf(nil, configText, d.log), 0o644)
}

// Config returns the path of the configuration that reads the log.
func (d *Site) Config() string { return filepath.Join(d.folder, "weir.yaml") }

// Close removes the folder, with the data that is in it.
func (d *Site) Close() { _ = os.RemoveAll(d.folder) } // the system cleans up its temporary folder

// Abusers returns the addresses of the clients that send too much.
func Abusers() []netip.Addr {
	all := make([]netip.Addr, len(abusers))
	for i, a := range abusers {
		all[i] = a.address
	}
	return all
}

// Run sends requests, each after a question at the enforcer's URL for checks, until the context is done.
func (d *Site) Run(ctx context.Context, check string) error {
	d.check = check
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	defer d.client.CloseIdleConnections()
	due := make([]float64, len(abusers))
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}

		for i, a := range abusers {
			for due[i] += a.perSecond * tick.Seconds(); due[i] >= 1; due[i]-- {
				if err := d.serve(ctx, a.address, a.request, a.agent); err != nil {
					return err
				}
			}
		}

		for d.pending += visitorsPerSecond * tick.Seconds(); d.pending >= 1; d.pending-- {
			page := pages[d.random.IntN(len(pages))]
			if err := d.serve(ctx, visitor(d.random.IntN(visitors)), page, "Mozilla/5.0 (X11; Linux x86_64)"); err != nil {
				return err
			}
		}
	}
}

func visitor(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 0, byte(2 + n/250), byte(1 + n%250)})
}

// serve asks the enforcer about one request and writes its line to the log.
func (d *Site) serve(ctx context.Context, client netip.Addr, page, agent string) error {
	if strings.Contains(page, "%d") {
		page = fmt.Sprintf(page, d.random.IntN(500))
	}
	method, path, _ := strings.Cut(page, " ")
	status := http.StatusOK
	if d.seen[client] == nil {
		d.seen[client] = &tally{}
	}
	d.seen[client].requests++
	if d.refused(ctx, client, method, path) {
		status = http.StatusTooManyRequests
		d.seen[client].refused++
	}
	line := fmt.Sprintf("%s - - [%s] \"%s HTTP/1.1\" %d %d \"-\" \"%s\"\n",
		client, time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"), page, status, 200+d.random.IntN(5000), agent)

	// Append to the log, and rotate it when it is long.
	if info, err := os.Stat(d.log); err == nil && info.Size() > logBytes {
		if err := os.Rename(d.log, d.log+".1"); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line)

	if closing := file.Close(); err == nil {
		return closing
	}
	return err
}

// refused reports whether the enforcer refuses a request; false when the enforcer does not answer.
func (d *Site) refused(ctx context.Context, client netip.Addr, method, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.check, nil)
	if err != nil {
		return false
	}

	request.Header.Set("X-Forwarded-For", client.String())
	request.Header.Set("X-Forwarded-Method", method)
	request.Header.Set("X-Forwarded-Uri", path)
	answer, err := d.client.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body) // so that the connection is used again
	return answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusForbidden
}

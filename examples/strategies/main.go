// Strategies sends the same traffic to a rule under each algorithm, and draws what each lets through:
//
//	go run ./examples/strategies -out DIR
//
// There are two cases, each with a rule for each algorithm. In bursts, one caller asks 30 times at once, again and again. In crowd, 20 callers ask at the same
// time, each a bit more often than its limit allows. A weir run on this machine decides each request for each algorithm,
// while the caller waits; its socket is the only thing that listens. Then weir compare decides the attempts once more, and
// draws bursts.html and crowd.html.
//
// It takes 10 seconds (-time) and the time to build weir, unless -weir names one.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var algorithms = []string{"sliding", "fixed", "counter", "token", "uniform", "leaky"}

const (
	limit = "10/2s"

	burst     = 30
	eachBurst = 1500 * time.Millisecond
	callers   = 20
	eachCall  = 150 * time.Millisecond // 6.7 a second, where 5 are allowed
	longest   = time.Minute
)

func main() {
	if err := send(); err != nil {
		fmt.Fprintln(os.Stderr, "strategies:", err)
		os.Exit(1)
	}
}

func send() error {
	out := flag.String("out", ".", "the folder for the pages")
	span := flag.Duration("time", 10*time.Second, "how long requests are sent, at most a minute")
	weir := flag.String("weir", "", "the program weir; built if it is not named")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return run(ctx, os.Stdout, *weir, *out, min(*span, longest))
}

func run(ctx context.Context, w io.Writer, weir, out string, span time.Duration) (err error) {
	folder, err := os.MkdirTemp("", "weir")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if weir == "" {
		weir = filepath.Join(folder, "weir")
		build := exec.CommandContext(ctx, "go", "build", "-o", weir, "weir/cmd/weir")
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building weir: %w\n%s", err, text)
		}
	}

	config := filepath.Join(folder, "weir.yaml")
	if err := os.WriteFile(config, []byte(configuration()), 0o600); err != nil {
		return err
	}
	end, err := start(ctx, weir, config, filepath.Join(folder, "log"))
	if err != nil {
		return err
	}
	to := newClient(filepath.Join(folder, "data", "weir.sock"))
	err = to.ready(ctx)
	if err == nil {
		fmt.Fprintf(w, "sends %v of traffic, limit %s\n", span, limit)
		err = to.send(ctx, span)
	}
	// When it ends, the process writes the attempts that wait.
	if err = errors.Join(err, end()); err != nil {
		return err
	}

	for _, name := range []string{"bursts", "crowd"} {
		to.show(w, name)
		page := filepath.Join(out, name+".html")
		compare := exec.CommandContext(ctx, weir, "compare", name+"-sliding", "--config", config, "--algorithms", "all", "--html", page)
		text, err := compare.CombinedOutput()
		if err != nil {
			return fmt.Errorf("weir compare: %w\n%s", err, text)
		}
		fmt.Fprintf(w, "\n%s\nthe picture is in %s\n", text, page)
	}
	return nil
}

// configuration has a rule for each case and algorithm. The log that it reads stays empty: all is decided inline.
func configuration() string {
	var b strings.Builder
	fmt.Fprint(&b, "data: data\nenforcer: {listen: '', admin: ''}\naggregator: {listen: ''}\ncollector: {listen: '', sources: [{file: access.log, format: combined}]}\n",
		"inline: {history: 1h}\nrules:\n  - {name: ready, key: ip, limits: [1/s], inline: true}\n")
	for _, name := range []string{"bursts", "crowd"} {
		for _, algorithm := range algorithms {
			fmt.Fprintf(&b, "  - {name: %s-%s, key: ip, limits: [%s], algorithm: %s, inline: true}\n", name, algorithm, limit, algorithm)
		}
	}
	return b.String()
}

// start runs weir. The function that it returns stops it.
func start(ctx context.Context, weir, config, logFile string) (end func() error, err error) {
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	process := exec.CommandContext(ctx, weir, "run", "--config", config)
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return func() error {
		_ = process.Process.Signal(os.Interrupt)
		err := process.Wait()
		if err != nil {
			text, _ := os.ReadFile(logFile)
			err = fmt.Errorf("weir run: %w\n%s", err, text)
		}
		return errors.Join(err, log.Close())
	}, nil
}

// A client asks the enforcer, and counts its answers.
type client struct {
	http              http.Client
	admitted, refused map[string]*atomic.Int64 // by the rule
}

func newClient(socket string) *client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	c := &client{http: http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}}, admitted: map[string]*atomic.Int64{}, refused: map[string]*atomic.Int64{}}
	for _, name := range []string{"bursts", "crowd"} {
		for _, algorithm := range algorithms {
			c.admitted[name+"-"+algorithm], c.refused[name+"-"+algorithm] = new(atomic.Int64), new(atomic.Int64)
		}
	}
	return c
}

// ready waits until the enforcer answers.
func (c *client) ready(ctx context.Context) (err error) {
	for range 600 {
		if _, err = c.take(ctx, "ready", "203.0.113.1", 0); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("weir does not answer: %w", err)
}

// take makes an attempt at a rule.
func (c *client) take(ctx context.Context, rule, ip string, cost int) (admitted bool, err error) {
	body, _ := json.Marshal(map[string]any{"rule": rule, "fields": map[string]string{"ip": ip}, "cost": cost})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/take", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	if err != nil {
		return false, err
	}
	switch answer.StatusCode {
	case http.StatusOK, http.StatusTooManyRequests:
		return answer.StatusCode == http.StatusOK, nil
	}
	return false, fmt.Errorf("%s: %s", answer.Status, text)
}

// ask makes an attempt under each algorithm.
func (c *client) ask(ctx context.Context, name, ip string) error {
	for _, algorithm := range algorithms {
		rule := name + "-" + algorithm
		admitted, err := c.take(ctx, rule, ip, 1)
		switch {
		case err != nil:
			return err
		case admitted:
			c.admitted[rule].Add(1)
		default:
			c.refused[rule].Add(1)
		}
	}
	return nil
}

// send sends both cases at once.
func (c *client) send(ctx context.Context, span time.Duration) error {
	ctx, stop := context.WithTimeout(ctx, span+longest)
	defer stop()
	var running sync.WaitGroup
	failed := make([]error, 1+callers)
	running.Go(func() { failed[0] = c.bursts(ctx, span) })
	for i := range callers {
		running.Go(func() { failed[1+i] = c.caller(ctx, fmt.Sprintf("203.0.113.%d", 100+i), span) })
	}
	running.Wait()
	return errors.Join(failed...)
}

// bursts is one caller that asks many times at once.
func (c *client) bursts(ctx context.Context, span time.Duration) error {
	for range every(ctx, eachBurst, span) {
		var running sync.WaitGroup
		failed := make([]error, burst)
		for i := range burst {
			running.Go(func() { failed[i] = c.ask(ctx, "bursts", "203.0.113.7") })
		}
		running.Wait()
		if err := errors.Join(failed...); err != nil {
			return err
		}
	}
	return nil
}

// caller is one of many that ask steadily.
func (c *client) caller(ctx context.Context, ip string, span time.Duration) error {
	time.Sleep(rand.N(eachCall))
	for range every(ctx, eachCall, span) {
		if err := c.ask(ctx, "crowd", ip); err != nil {
			return err
		}
	}
	return nil
}

// every yields at once, and then at intervals until the span is over.
func every(ctx context.Context, interval, span time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		began := time.Now()
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for ctx.Err() == nil && time.Since(began) < span && yield() {
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	}
}

// show prints what was answered while the callers waited.
func (c *client) show(w io.Writer, name string) {
	fmt.Fprintf(w, "\n%s, decided while the callers waited:\n", name)
	for _, algorithm := range algorithms {
		rule := name + "-" + algorithm
		fmt.Fprintf(w, "  %-8s  %5d admitted, %5d refused\n", algorithm, c.admitted[rule].Load(), c.refused[rule].Load())
	}
}

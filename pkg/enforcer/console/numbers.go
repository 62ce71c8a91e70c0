package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/keytext"
	"weir/pkg/blocklist"
)

// Numbers are what the enforcer has counted since its start.
type numbers struct {
	Checks     int64 `json:"checks"`
	Refused    int64 `json:"refused"`
	LastMinute struct {
		Checks  int64 `json:"checks"`
		Refused int64 `json:"refused"`
	} `json:"last_minute"`
	PerSecond struct {
		Checks  []float64 `json:"checks"`
		Refused []float64 `json:"refused"`
	} `json:"per_second"`
	Rules map[string]struct {
		Refused      int64  `json:"refused"`
		BlockedToday *int64 `json:"blocked_today"` // nil where the enforcer has no history
	} `json:"rules"`
	Entries []struct {
		Rule, Key   string
		Target      string
		Until       string
		Refused     int64
		LastMinute  int64     `json:"last_minute"`
		LastRefused time.Time `json:"last_refused"`
	} `json:"entries"`

	Lines []line // the chart
	Most  string // the value at its top
}

// numbers asks the enforcer for them; nil where it has none.
func (c *Console) numbers(r *http.Request, v *visitor, query url.Values) *numbers {
	n := &numbers{}
	answer := c.ask(r, v, http.MethodGet, "/v1/numbers", query, nil)
	if answer.status != http.StatusOK || json.Unmarshal(answer.body.Bytes(), n) != nil {
		return nil
	}
	n.chart()
	return n
}

// A figures is what a live page shows of them.
type figures struct {
	Checks  string `json:"checks"`
	Refused string `json:"refused"`
	Minute  string `json:"minute"` // refusals of the last minute
	Most    string `json:"most"`
	Lines   []line `json:"lines"`
}

// Figures are the numbers as the page shows them.
func (n *numbers) Figures() *figures {
	return &figures{Checks: grouped(int(n.Checks)), Refused: grouped(int(n.Refused)), Minute: grouped(int(n.LastMinute.Refused)), Most: n.Most, Lines: n.Lines}
}

// An hour is the figures for all live pages together.
type hour struct {
	mu   sync.Mutex
	last *figures
	made time.Time
}

// hour returns the figures of now, or those of some seconds ago; nil where there are none, or another page asks for them.
func (c *Console) hour(r *http.Request, v *visitor) *figures {
	if !c.figures.mu.TryLock() {
		return nil
	}
	defer c.figures.mu.Unlock()
	if time.Since(c.figures.made) >= figureEvery/2 {
		c.figures.last = nil
		if n := c.numbers(r, v, nil); n != nil {
			c.figures.last = n.Figures()
		}
		c.figures.made = time.Now()
	}
	return c.figures.last
}

// refused answers the script of the page Now: how many requests the entries with these ids have refused.
func (c *Console) refused(w http.ResponseWriter, r *http.Request, _ *visitor) error {
	ids := r.URL.Query()["id"]
	if c.config.Refused == nil || len(ids) > pageRows {
		return problem{http.StatusBadRequest, fmt.Sprintf("This is for at most %d entries.", pageRows)}
	}
	refused := make(map[string]string, len(ids))
	for _, id := range ids {
		refused[id] = grouped(int(c.config.Refused(id)))
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(refused)
}

// byRefused is the group of the keys that are refused most.
const byRefused = "refused"

// A refusedKey is a key with the requests that were refused because of an entry.
type refusedKey struct {
	Key, Link, Rule, Left, Last string
	Refused, Minute             int64
}

// maxRefusedAsked is how many entries are looked at for those that a query selects.
const maxRefusedAsked = 1000

// mostRefused returns the entries that refuse most, of those that a query selects.
func (c *Console) mostRefused(r *http.Request, v *visitor, q *query) (all []*refusedKey) {
	asked := url.Values{"entries": {strconv.Itoa(maxRefusedAsked)}}
	if q.Rule != "" {
		asked.Set("rule", q.Rule)
	}
	n := c.numbers(r, v, asked)
	if n == nil {
		return nil
	}
	now := c.config.Now()
	for _, e := range n.Entries {
		of := subject{rule: e.Rule, key: []byte(e.Key)}
		if e.Rule == blocklist.ManualRule {
			of.kind = blocklist.OrderBlock
		}
		if len(all) == pageRows || !q.wants(of) {
			continue
		}
		one := &refusedKey{Key: keytext.Shown(e.Target), Link: keyLink(e.Target), Rule: keytext.Shown(e.Rule), Refused: e.Refused, Minute: e.LastMinute, Last: e.LastRefused.UTC().Format(time.RFC3339), Left: "until ended"}
		if until, err := time.Parse(time.RFC3339, e.Until); err == nil {
			one.Left = span(until.Sub(now))
		}
		all = append(all, one)
	}
	return all
}

// The size of the chart of an hour, in units of its SVG.
const (
	chartWidth  = 240
	chartHeight = 36
)

// A line is one line of the chart.
type line struct {
	Class  string `json:"class"`
	Points string `json:"points"`
}

// chart draws requests and refusals a second.
func (n *numbers) chart() {
	most := 0.0
	for _, values := range [][]float64{n.PerSecond.Checks, n.PerSecond.Refused} {
		for _, value := range values {
			most = max(most, value)
		}
	}
	if most <= 0 {
		return
	}
	n.Most = strconv.FormatFloat(most, 'f', 1, 64)
	n.Lines = []line{{"checks", points(n.PerSecond.Checks, most)}, {"refused", points(n.PerSecond.Refused, most)}}
}

// points are the points of a line, with 0 at the bottom.
func points(values []float64, most float64) string {
	var b strings.Builder
	for i, value := range values {
		x := float64(chartWidth)
		if len(values) > 1 {
			x = chartWidth * float64(i) / float64(len(values)-1)
		}
		fmt.Fprintf(&b, "%.1f,%.1f ", x, chartHeight-1-(chartHeight-2)*max(0, value)/most)
	}
	return strings.TrimSuffix(b.String(), " ")
}

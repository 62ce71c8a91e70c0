package edges

import (
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/test/wait"
)

// Only a password makes a user of random requests: none without it counts for one. With it, no more pass than an inline
// limit by user allows, and none when the user is blocked.
func TestRandomRequestsOfUsers(t *testing.T) {
	for _, edge := range userEdges {
		t.Run(edge.name, func(t *testing.T) {
			t.Parallel()
			s, r := newRandomRequests(t)
			address, log := edge.start(s)
			r.http1, r.http2 = address, address
			wait.Until(t, "the edge answers", func() bool { return asks(t, address, "GET /", "", "") == 200 })

			for range r.count {
				target := r.random.pick("/private/x", "/public", r.random.target(), "http://alice@app.example/private/x", "http://alice:wrong@app.example/x%2F..%2Fprivate/x", "/x/..%2Fprivate/x", "/private%2Fx")
				r.send(stranger, r.random.as(edge.http2, target, r.random.claims()))
			}
			asks(t, address, "GET /last", "", "")
			wait.Until(t, "the log is written", func() bool { return strings.Contains(log(), "/last") })
			set, _, err := rule.Parse("rules.yaml", []byte(documented(t, edge.rules)))
			if err != nil {
				t.Fatal(err)
			}
			choice := must(request.Choose("none", edge.format, strings.Split(strings.TrimSpace(log()), "\n"), request.Options{}))
			decoder, judge := must(request.NewDecoder(choice.Envelope, choice.Format, request.Options{})), set.NewJudge()
			for line := range strings.Lines(log()) {
				decoder.DecodeEach(strings.TrimSpace(line), func(r *request.Request, err error) {
					if err == nil && len(judge.Hits(r)) > 0 {
						t.Errorf("counts for a user: %s", line)
					}
				})
			}
			if !edge.checks {
				return
			}

			begun := time.Now()
			of := func(path string) func(reached) bool {
				return func(r reached) bool { return strings.HasPrefix(r.line, "GET "+path) }
			}
			for range r.count {
				r.send(stranger, r.random.as(edge.http2, "/private/of-users", [][2]string{r.random.password("secret")}))
			}
			passed, minutes := len(r.app.reached(of("/private/of-users"))), int(time.Since(begun)/time.Minute)
			if most := 5 * (2 + minutes); passed == 0 || passed > most {
				t.Errorf("of %d requests of alice in %d minutes, %d passed a limit of 5/min", r.count, minutes, passed)
			}
			s.order(blocklist.OrderBlock, "user:alice")
			for range r.count {
				r.neverReaches("alice, who is blocked", stranger, r.random.as(edge.http2, "/private/x", [][2]string{r.random.password("secret")}), of("/private/x"))
			}
		})
	}
}

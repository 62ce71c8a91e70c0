package enforcer

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/pkg/request"
)

// An answer by which enough remains names no time, also if the clock goes on between reading a request and deciding it.
func TestAnAnswerOfEnoughNamesNoTime(t *testing.T) {
	var ticks atomic.Int64
	began := time.Now()
	r := open(t, list(t), func(c *Config) {
		c.Ruling.Rules = parsed(t, "rules: [{name: quota, key: ip, limits: [10/min], inline: true}]")
		c.Now = func() time.Time { return began.Add(time.Duration(ticks.Add(1)) * time.Millisecond) }
	})
	check := httptest.NewRecorder()
	q := httptest.NewRequest(http.MethodGet, "/v1/check/envoy/a", nil)
	q.RemoteAddr = "203.0.113.7:5000"
	r.ServeHTTP(check, q)
	for name, values := range check.Header() {
		if got := strings.Join(values, ""); name == "RateLimit" && got != `"quota 10/min";r=9` {
			t.Errorf("a check: %s", got)
		}
	}

	answers := make([]PartAnswer, 1)
	if err := r.Limit(httptest.NewRecorder(), []Part{{Fields: []request.Field{{Name: "ip", Value: "203.0.113.8"}}}}, answers); err != nil || answers[0].Rule != "quota" || answers[0].Again != 0 {
		t.Errorf("%+v, %v", answers, err)
	}
}

package daemon

import (
	"net/http"
	"strings"
	"testing"

	"weir/internal/kafka"
	"weir/test/dns"
)

// A blocked crawler that DNS confirms is let through at all enforcers, with its name as the reason; an address that only
// claims to be one stays blocked. New rules are enough.
func TestACrawlerIsLetThrough(t *testing.T) {
	t.Parallel()
	server := dns.Start(t, "--host-record=crawl-7.googlebot.com,203.0.113.7", "--ptr-record=8.113.0.203.in-addr.arpa,crawl-7.googlebot.com")
	broker := newMortal(t)
	e := newEdge(t, broker.yaml(), "  dns: "+server).start()
	p := newPublisher(t, kafka.Config{Brokers: []string{broker.config.Listen}, Prefix: "weir."}, e.process.Config)
	for _, ip := range []string{"203.0.113.7", "203.0.113.8"} {
		p.block(ip)
	}
	p.marks()
	e.await("blocked", func() bool { return e.check("203.0.113.7") == http.StatusTooManyRequests })
	follower := newFollower(t, e)

	e.write("rules.yaml", oneRule+"allow: [{crawler: googlebot, note: search}]\n")
	e.await("let through", func() bool { return e.check("203.0.113.7") == http.StatusOK })
	other := newEdge(t, broker.yaml(), "  dns: "+server)
	other.write("rules.yaml", oneRule+"allow: [{crawler: googlebot}]\n")
	other.start()
	other.await("let through at another", func() bool { return other.check("203.0.113.7") == http.StatusOK })
	follower.await("let through at who follows", func() bool { return follower.check("203.0.113.7") == http.StatusOK })
	_, text := e.ask("GET", e.listen, "/v1/allows", "", "X-Api-Key", "reader")
	if !strings.Contains(text, `"by":"weir"`) || !strings.Contains(text, `"why":"crawler googlebot: crawl-7.googlebot.com"`) || strings.Contains(text, "203.0.113.8") {
		t.Error(text)
	}
	if code, text := e.ask("GET", e.listen, "/v1/blocklist.txt", "", "X-Api-Key", "reader"); code != 200 || strings.TrimSpace(text) != "203.0.113.8" {
		t.Errorf("%d %q", code, text)
	}
	e.await("the event", func() bool {
		_, text := e.ask("GET", e.listen, "/v1/events?key=203.0.113.7", "", "X-Api-Key", "reader")
		return strings.Contains(text, "crawler googlebot: crawl-7.googlebot.com")
	})
	if e.check("203.0.113.8") != http.StatusTooManyRequests {
		t.Error("another with its name passes")
	}
}

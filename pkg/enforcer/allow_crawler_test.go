package enforcer

import (
	"net/netip"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/test/wait"
)

// An allow of a crawler is a manual entry of Weir: active at once, and in the topics with its event. Two enforcers make the
// same one in the same minute.
func TestACrawlerGetsAManualEntry(t *testing.T) {
	now := time.Date(2026, 3, 3, 8, 0, 20, 0, time.UTC)
	client, until, why := netip.MustParseAddr("203.0.113.7"), now.Add(time.Hour).UnixMilli(), "crawler googlebot: crawl-7.googlebot.com"
	var made []blocklist.Record
	for range 2 {
		at := now
		r := start(t, list(t), func(c *Config) { c.Now = func() time.Time { return at } })
		if err := r.AllowCrawler(client, until, why); err != nil {
			t.Fatal(err)
		}
		if said := r.config.Set.Check(&blocklist.Asked{IP: client}, now.UnixMilli()); !said.Allowed.Found() || said.Allowed.Until() != until {
			t.Error("it is not allowed")
		}
		wait.Until(t, "the topics have it", func() bool { return len(r.blocklist.messages()) == 1 && len(r.events.messages()) == 1 })
		m := r.blocklist.messages()[0]
		record, err := blocklist.DecodeRecord(m.Key, m.Value)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, record)
		now = now.Add(30 * time.Second)
	}
	if o := made[0].Order; o.By != "weir" || o.Why != why || o.Kind != blocklist.OrderAllow || o.ID != made[1].Order.ID {
		t.Errorf("%+v and %+v", o, made[1].Order)
	}
}

func TestWhereACrawlerCannotBeAllowed(t *testing.T) {
	client, until := netip.MustParseAddr("203.0.113.7"), time.Now().Add(time.Hour).UnixMilli()
	follower := start(t, list(t), func(c *Config) { c.Sinks = nil })
	if err := follower.AllowCrawler(client, until, "why"); err == nil {
		t.Error("without topics it is allowed")
	}
	full := open(t, list(t), nil)
	full.outbox.held.Store(maxParcels/2 + 1)
	if err := full.AllowCrawler(client, until, "why"); err == nil {
		t.Error("crawlers leave no room for people")
	}
	ended := start(t, list(t), nil)
	ended.stop()
	if err := ended.AllowCrawler(client, until, "why"); err == nil {
		t.Error("after the end it is allowed")
	}
}

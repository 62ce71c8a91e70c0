package rule_test

import (
	"net/netip"
	"testing"
)

// A name is a crawler's if it is a domain of it or lies under one, and the rules allow that crawler.
func TestCrawlerOf(t *testing.T) {
	set := mustParse(t, "rules: [{name: a, key: ip, limits: [1/s]}]\ncrawlers: {monitor: [Probes.example., \"*.x.example\"]}\nallow: [{crawler: [googlebot, monitor]}]")
	for host, want := range map[string]string{
		"crawl-66-249-66-1.googlebot.com": "googlebot", "googlebot.com": "googlebot", "a.b.googlebot.com": "googlebot", "one.probes.example": "monitor", "x.example": "monitor",
		"evilgooglebot.com": "", "googlebot.com.evil.example": "", "com": "", "": "", ".": "", "1.bc.googleusercontent.com": "", "msnbot-1.search.msn.com": "", "example": "",
	} {
		if got := set.CrawlerOf(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
	if elsewhere := set.Sparing([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}); elsewhere.CrawlerOf("googlebot.com") != "googlebot" {
		t.Error("a set made of it has no crawlers")
	}
	if len(set.Allows) != 0 {
		t.Error("crawlers are an entry that requests are compared with")
	}
}

// Crawlers are a part of the fingerprint: an enforcer without them decides something else.
func TestCrawlersAreInTheFingerprint(t *testing.T) {
	const rules = "rules: [{name: a, key: ip, limits: [1/s]}]\n"
	prints := map[string]string{}
	for _, more := range []string{"", "allow: [{crawler: googlebot}]", "allow: [{crawler: bingbot}]", "crawlers: {m: [a.example]}\nallow: [{crawler: m}]", "crawlers: {m: [b.example]}\nallow: [{crawler: m}]"} {
		print := mustParse(t, rules+more).Fingerprint()
		if other, twice := prints[print]; twice {
			t.Errorf("%q and %q have one fingerprint", more, other)
		}
		prints[print] = more
	}
	if mustParse(t, rules+"crawlers: {m: [a.example]}").Fingerprint() != mustParse(t, rules).Fingerprint() {
		t.Error("a crawler that is not allowed changes it")
	}
}

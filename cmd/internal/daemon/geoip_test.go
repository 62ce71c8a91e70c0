package daemon

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"weir/cmd/internal/config"
	"weir/pkg/geoip"
	"weir/pkg/geoip/geoiptest"
	"weir/pkg/rule"
	"weir/test/locked"
)

// A holding part has the rules of the last reload.
type holding struct{ rules *rule.Set }

func (*holding) Run(context.Context) error { return nil }
func (*holding) Status() any               { return struct{}{} }
func (*holding) Close() error              { return nil }

func (h *holding) Reload(c *config.Config) error {
	h.rules = c.RuleSet
	return nil
}

// A changed database is found by the look at files, and is new rules. One that is damaged leaves the database and the rules
// as they are, and the status says so.
func TestDatabasesAreReadAgain(t *testing.T) {
	folder := t.TempDir()
	file, database := filepath.Join(folder, "weir.yaml"), filepath.Join(folder, "asn.mmdb")
	if err := os.WriteFile(file, []byte("geoip: {databases: asn.mmdb}\nrules: [{name: a, key: asn, limits: [10/min]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	networks := map[string]geoiptest.Entry{"203.0.113.0/24": {ASN: 1}}
	geoiptest.Write(t, database, 1, networks)
	options := config.Options{File: file, Opened: &geoip.Opened{}}
	first, _, err := config.Load(options)
	if err != nil {
		t.Fatal(err)
	}

	var log locked.Buffer
	part := &holding{rules: first.RuleSet}
	p := &Process{Config: first, Logger: slog.New(slog.NewTextHandler(&log, nil)), Metrics: prometheus.NewRegistry(), files: &rereads{}}
	r := newReloader(p, part, options, nil)
	status := func() string {
		text, err := json.Marshal(p.files.withConfiguration(part.Status)())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	looks := func() { // as often as a file that settles needs
		for range 3 {
			if r.changed(look(r.current)) {
				r.reload()
			}
		}
	}

	looks()
	if part.rules != first.RuleSet {
		t.Error("it was read again without a change")
	}
	whole := geoiptest.Bytes(t, 2, map[string]geoiptest.Entry{"203.0.113.0/24": {ASN: 2}})
	if err := os.WriteFile(database, whole[:len(whole)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	looks()
	if part.rules != first.RuleSet || !strings.Contains(status(), "asn.mmdb is not a complete database") || !strings.Contains(log.String(), "the previous one stays active") {
		t.Errorf("%s\n%s", status(), log.String())
	}
	if err := os.WriteFile(database, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	looks()
	if part.rules == first.RuleSet || part.rules.Fingerprint() == first.RuleSet.Fingerprint() || status() != "{}" {
		t.Errorf("%s\n%s", status(), log.String())
	}

	// With other rules, the database is the same one.
	second := part.rules
	if err := os.WriteFile(file, []byte("geoip: {databases: asn.mmdb}\nrules: [{name: b, key: asn, limits: [10/min]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	looks()
	if part.rules == second || part.rules.GeoIP().All()[0] != second.GeoIP().All()[0] {
		t.Error("an unchanged database was read again")
	}
}

// Programs that only ask need no database: they have no fingerprint to compare then.
func TestDatabasesOfThoseWhoAsk(t *testing.T) {
	for text, has := range map[string]bool{"key: ip": true, "key: asn": false, "key: ip, match: 'country == \"DE\"'": false} {
		o := config.Options{File: filepath.Join(t.TempDir(), "weir.yaml"), ToAsk: true}
		c, _, err := config.Read([]byte("geoip: {databases: gone.mmdb}\nrules: [{name: a, limits: [10/min], "+text+"}]\n"), o)
		if err != nil || (c.RuleSet.Fingerprint() != "") != has {
			t.Errorf("%s: %v", text, err)
		}
		o.ToAsk = false
		if _, _, err := config.Read([]byte("geoip: {databases: gone.mmdb}\nrules: [{name: a, limits: [10/min], key: ip}]\n"), o); err == nil || !strings.Contains(err.Error(), "gone.mmdb") {
			t.Errorf("a database that is missing: %v", err)
		}
	}
}

package console_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// A key with a hash is found by its secret, which the page and its address then lack.
func TestASecretIsFoundByItsHash(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, _, err := rule.Parse("rules.yaml", []byte("rules: [{name: keys, key: tenant, limits: [3/min], secret: true}]\nsecret_file: "+file))
	if err != nil {
		t.Fatal(err)
	}
	hash := rules.HiddenValue("tenant", "k-123")
	entry := verdict("keys", hash, map[string]string{"tenant": hash})
	s := newStand(t, false, entry, ofIP("203.0.113.1"))
	s.config.Rules = func() *rule.Set { return rules }
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/find" {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"entries": []*blocklist.Entry{entry}})
	}
	s.start()
	for _, text := range []string{"k-123", "tenant:k-123", hash, "tenant:" + hash, hash[:9]} {
		if _, body, _ := s.get("/console/?q=" + url.QueryEscape(text)); len(keysOf(body)) != 1 || keysOf(body)[0] != hash {
			t.Errorf("%s: %q", text, keysOf(body))
		}
	}
	if _, body, _ := s.get("/console/?q=k-1234"); len(keysOf(body)) != 0 {
		t.Errorf("another value finds %q", keysOf(body))
	}
	status, _, header := s.get("/console/key?key=k-123")
	if status != http.StatusSeeOther || header.Get("Location") != "/console/key?key="+url.QueryEscape(hash) {
		t.Errorf("%d %v", status, header)
	}
	if status, body, _ := s.get("/console/key?key=" + url.QueryEscape(hash)); status != http.StatusOK || !strings.Contains(body, hash) {
		t.Errorf("%d", status)
	}
}

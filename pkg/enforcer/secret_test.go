package enforcer

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/pkg/request"
)

const secretValue = "live-key-17"

// secretRuling has rules by a secret, and the hash that stands for it.
func secretRuling(t testing.TB) (Ruling, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	ruling := usualRuling(t)
	ruling.Rules = parsed(t, `
rules:
  - {name: per-ip, key: ip, limits: [10/min]}
  - {name: keys, key: http_x_api_key, limits: [3/min], secret: true}
  - {name: users, key: user, limits: [3/min], secret: true}
  - {name: quota, key: http_x_api_key, limits: [100/min], secret: true, inline: true}
  - {name: agents, key: agent, limits: [100/min], secret: true, inline: true}
secret_file: `+file)
	return ruling, ruling.Rules.HiddenValue("http_x_api_key", secretValue)
}

// An entry with a hash refuses the requests with the secret, and no one who sends the hash. People find it and end it by
// the secret and by the hash.
func TestSecretIsRefusedByItsHash(t *testing.T) {
	ruling, hash := secretRuling(t)
	r := start(t, list(t, verdict("keys", hash, map[string]string{"http_x_api_key": hash})), func(c *Config) { c.Ruling = ruling })
	if got := r.checks("203.0.113.8", "X-Api-Key", secretValue); got.status != 429 || strings.Contains(got.body, secretValue) {
		t.Errorf("%d %s", got.status, got.body)
	}
	for _, other := range []string{hash, secretValue + "x", ""} {
		if got := r.checks("203.0.113.8", "X-Api-Key", other); got.status != 200 {
			t.Errorf("%q: %d", other, got.status)
		}
	}

	for _, key := range []string{secretValue, "http_x_api_key:" + secretValue, hash, "http_x_api_key:" + hash} {
		var got found
		r.get("/v1/find?key="+url.QueryEscape(key)).read(t, &got)
		if len(got.Entries) != 1 || got.Entries[0].Key != hash {
			t.Errorf("%s: %+v", key, got)
		}
	}
	var got unblocked
	r.ask(r.overSocket(), http.MethodDelete, "/v1/blocks?why=x&allow=1h&key="+secretValue, "").read(t, &got)
	if len(got.Lifted) != 1 || got.Lifted[0].Key != hash || got.Allowed == nil || got.Allowed.Fields["http_x_api_key"] != hash {
		t.Fatalf("%+v", got)
	}
	if got := r.checks("203.0.113.8", "X-Api-Key", secretValue); got.status != 200 || got.Header.Get(markField) != markAllowed {
		t.Errorf("%d %v", got.status, got.Header)
	}
	if got := r.checks("203.0.113.8", "X-Api-Key", hash); got.Header.Get(markField) != "" {
		t.Errorf("the hash is a master key: %v", got.Header)
	}
}

// Manual entries of a secret field have the hash, wherever they are sent.
func TestOrdersOfSecretsHaveHashes(t *testing.T) {
	ruling, hash := secretRuling(t)
	r := start(t, list(t), func(c *Config) { c.Ruling = ruling })
	for _, target := range []string{"http_x_api_key:" + secretValue, "user:" + secretValue, "agent:" + secretValue} {
		var got ordered
		r.ask(r.overSocket(), http.MethodPost, "/v1/blocks", `{"target": "`+target+`", "for": "1h", "why": "x", "confirm": true}`).read(t, &got)
		if got.Order == nil || got.Order.Key == "" || strings.Contains(got.Order.Key, secretValue) {
			t.Fatalf("%s: %+v", target, got)
		}
	}
	for _, headers := range [][]string{{"X-Api-Key", secretValue}, {"X-User", secretValue}, {"User-Agent", secretValue}} {
		if got := r.checks("203.0.113.8", headers...); got.status != 429 || strings.Contains(got.body, secretValue) {
			t.Errorf("%v: %d %s", headers, got.status, got.body)
		}
		if got := r.checks("203.0.113.8", headers[0], hash); got.status != 200 {
			t.Errorf("%v: the hash is refused", headers)
		}
	}
	for _, sent := range append(r.blocklist.messages(), r.events.messages()...) {
		if strings.Contains(string(sent.Value)+string(sent.Key), secretValue) {
			t.Errorf("%s %q", sent.Key, sent.Value)
		}
	}
	if got := r.ask(r.overSocket(), http.MethodDelete, "/v1/blocks?why=x&key=user:"+secretValue, ""); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// Records of attempts, the keys that are counted and the entries of queues have hashes.
func TestAttemptsOfSecretsHaveHashes(t *testing.T) {
	ruling, hash := secretRuling(t)
	r, kept := withHistory(t, func(c *Config) { c.Ruling = ruling })
	r.checks("203.0.113.8", "X-Api-Key", secretValue, "X-User", secretValue, "User-Agent", secretValue, "X-Forwarded-Uri", "/k/"+secretValue+"?a="+secretValue)
	r.take(`{"rule": "quota", "fields": {"http_x_api_key": "` + secretValue + `"}}`)
	r.take(`{"rule": "agents", "fields": {"agent": "other"}}`)
	r.stop()
	for _, m := range kept.messages() {
		if strings.Contains(string(m.Value)+string(m.Key), secretValue) || strings.Contains(string(m.Value), "other") {
			t.Errorf("%s %s", m.Key, m.Value)
		}
	}
	records := kept.records(t)
	if len(records) != 3 || records[0].Takes[0].Key != hash || records[0].User != hash || records[0].Agent != hash || records[0].Path != "/k/***?a=***" {
		t.Errorf("%+v", records)
	}

	q := &request.Request{User: secretValue, Path: "/", Fields: []request.Field{{Name: "http_x_api_key", Value: secretValue}, {Name: "tenant", Value: "t"}}}
	shown := *ruling.Rules.NewJudge().Masked(q)
	if got := strings.Join(queueFields(&shown, ruling.Rules), " "); got != "field.user "+hash+" field.path / field.http_x_api_key "+hash+" field.tenant t" {
		t.Error(got)
	}
}

// Counts of a key are asked for by the secret, or the hash.
func TestCountsOfASecret(t *testing.T) {
	ruling, hash := secretRuling(t)
	r := start(t, list(t), func(c *Config) { c.Ruling = ruling })
	r.checks("203.0.113.8", "X-Api-Key", secretValue)
	for _, key := range []string{secretValue, hash} {
		var got counts
		r.get("/v1/keys?rule=quota&key="+url.QueryEscape(key)).read(t, &got)
		if got.Key != hash || got.Limits[0].Count != 1 {
			t.Errorf("%+v", got)
		}
	}
	if got := r.get("/v1/top"); strings.Contains(got.body, secretValue) || !strings.Contains(got.body, hash) {
		t.Error(got.body)
	}
}

// BenchmarkCheckOfSecrets measures checks by rules that count by a header, in clear and hashed.
func BenchmarkCheckOfSecrets(b *testing.B) {
	secret, _ := secretRuling(b)
	clear := secret
	clear.Rules = parsed(b, "rules: [{name: per-ip, key: ip, limits: [10/min]}, {name: keys, key: http_x_api_key, limits: [3/min]}, {name: users, key: user, limits: [3/min]}]")
	secret.Rules = parsed(b, "rules: [{name: per-ip, key: ip, limits: [10/min]}, {name: keys, key: http_x_api_key, limits: [3/min], secret: true}, {name: users, key: user, limits: [3/min], secret: true}]\nsecret_file: ../rule/testdata/hash.key")
	for name, ruling := range map[string]Ruling{"clear": clear, "secret": secret} {
		b.Run(name, func(b *testing.B) {
			e, err := Open(Config{Set: thousands(b, 1), Ruling: ruling, Refusal: 429, Logger: quiet})
			if err != nil {
				b.Fatal(err)
			}
			r := asked(b, "GET /v1/check/nginx HTTP/1.1\nHost: shop.example\nX-Original-URI: /a?b\nX-Original-Method: GET\nX-Forwarded-For: 203.0.113.8\nX-User: alice\nX-Api-Key: "+secretValue)
			w := &unread{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				e.ServeHTTP(w, r)
			}
		})
	}
}

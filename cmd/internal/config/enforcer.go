package config

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"weir/internal/yamlfile"
)

// Aggregator says how much is counted in memory.
type Aggregator struct {
	// Listen is the address for keys, status, metrics, health and profiles; beyond loopback it needs keys or client
	// certificates. Default: 127.0.0.1:7411.
	Listen string `yaml:"listen"`
	// Keys is the file of the API keys. Default: none.
	Keys string `yaml:"keys"`
	// TLS encrypts the address. Default: not encrypted.
	TLS ServerTLS `yaml:"tls"`
	// HotKeys is how many keys are held in memory, over all partitions of the process. Default: 1000000.
	HotKeys int `yaml:"hot_keys"`
}

// Validate checks the address and the number.
func (a *Aggregator) Validate(v yamlfile.Value) {
	guard(v.Key("listen"), a.Listen, keysOrLoopback, a.Keys != "" || a.TLS.Clients != "")
	if place := v.Key("hot_keys"); !place.Faulty() && a.HotKeys < 1 {
		place.Faultf("write how many keys to hold in memory; each takes about 300 bytes", "%d keys are not possible", a.HotKeys)
	}
}

const keysOrLoopback = "add keys, a file of API keys, or tls with clients, or listen on 127.0.0.1"

// Enforcer says how the list is served.
type Enforcer struct {
	// Listen is the address for checks and the list; beyond loopback it needs keys or client certificates.
	// Default: 127.0.0.1:7421.
	Listen string `yaml:"listen"`
	// Admin is the address for metrics, status, health and profiles; beyond loopback it needs keys or client
	// certificates. Default: 127.0.0.1:7431.
	Admin string `yaml:"admin"`
	// Socket is the unix socket for people on this machine: who may open it is admin. It is relative to the data
	// folder. Default: weir.sock.
	Socket string `yaml:"socket"`
	// Keys is the file of the API keys. Default: none.
	Keys string `yaml:"keys"`
	// TLS encrypts both addresses. Default: not encrypted.
	TLS ServerTLS `yaml:"tls"`
	// Follow is where the list comes from: kafka, or another enforcer's URL. Default: kafka.
	Follow string `yaml:"follow"`
	// FollowKeyFile holds the API key that the enforcer followed asks for, role read. Default: none.
	FollowKeyFile string `yaml:"follow_key_file"`
	// FollowTLS is how the enforcer followed is connected to where its URL is https. Default: the system's roots.
	FollowTLS ClientTLS `yaml:"follow_tls"`
	// WithoutList is the answer while there is no whole list yet: allow or deny. Default: allow.
	WithoutList Answer `yaml:"without_list"`
	// Refuse is the status of a refusal at /v1/check: 429, or 403. At /v1/check/nginx and /ingress-nginx it is 403 in any case, at those of
	// the other edges 429. Default: 429.
	Refuse int `yaml:"refuse"`
	// Fields are the headers that edges set themselves, by the fields of rules that they are: {user: X-User}. Further
	// fields that are not named here are taken from the header of their name. Default: none, and users are not known.
	Fields map[string]string `yaml:"fields"`
	// LimitHeaders are the fields that tell a refused client which limit it broke, beside Retry-After: draft (RateLimit
	// and RateLimit-Policy), legacy (X-RateLimit-…), both, or none. Default: both.
	LimitHeaders LimitHeaders `yaml:"limit_headers"`
	// Crowdsec is how CrowdSec's bouncers are answered.
	Crowdsec Crowdsec `yaml:"crowdsec"`
	// NFTables keeps the list in this machine's firewall.
	NFTables NFTables `yaml:"nftables"`
	// HAProxy keeps the list in the map of a HAProxy.
	HAProxy HAProxy `yaml:"haproxy"`
	// DryRun tells on standard output what would be done to the firewall and to HAProxy, and does nothing to them.
	// Default: false.
	DryRun bool `yaml:"dry_run"`
}

// Validate checks the addresses.
func (e *Enforcer) Validate(v yamlfile.Value) {
	guarded := e.Keys != "" || e.TLS.Clients != ""
	guard(v.Key("listen"), e.Listen, keysOrLoopback, guarded)
	guard(v.Key("admin"), e.Admin, keysOrLoopback, guarded)
	if place := v.Key("refuse"); !place.Faulty() && e.Refuse != http.StatusTooManyRequests && e.Refuse != http.StatusForbidden {
		place.Faultf("write 429 or 403", "edges do not take %d for a refusal", e.Refuse)
	}

	e.checkFields(v.Key("fields"))
	if e.Follow == "kafka" {
		return
	}

	at, err := url.Parse(e.Follow)
	if err != nil || at.Host == "" || (at.Scheme != "http" && at.Scheme != "https") {
		v.Key("follow").Faultf("write kafka, or https://enforcer.example:7421", "%q is no enforcer's URL", e.Follow)
	}
}

// checkFields checks what edges are believed to set.
func (e *Enforcer) checkFields(v yamlfile.Value) {
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		switch name {
		case "ip", "method", "host", "path", "raw_path", "query", "status", "bytes", "agent", "referrer":
			v.Key(name).Faultf("leave it out; for ip set client.header", "%s is always taken from the request", name)
		}
		if header := e.Fields[name]; header == "" || strings.ContainsAny(header, " :\t\r\n") {
			v.Key(name).Faultf("write it as X-User", "%q is no name of a header", header)
		}
	}
}

// LimitHeaders are fields of a refusal.
type LimitHeaders string

// FromYAML reads which ones.
func (l *LimitHeaders) FromYAML(v yamlfile.Value) {
	*l = LimitHeaders(oneOf(v, "both", "draft", "legacy", "none"))
}

// An Answer is what a check says without a list.
type Answer string

// FromYAML reads an answer.
func (a *Answer) FromYAML(v yamlfile.Value) { *a = Answer(oneOf(v, "allow", "deny")) }

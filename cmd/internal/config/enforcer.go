package config

import (
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"weir/internal/origin"
	"weir/internal/yamlfile"
)

// Aggregator configures the address of the aggregator and its memory.
type Aggregator struct {
	// Listen is the address for keys, status, metrics, health and profiles; beyond loopback it needs keys or client
	// certificates. Default: 127.0.0.1:7411.
	Listen string `yaml:"listen"`
	// Keys is the file of the API keys. Default: none.
	Keys string `yaml:"keys"`
	// TLS encrypts the address. Default: not encrypted.
	TLS ServerTLS `yaml:"tls"`
	// HotKeys is how many keys are kept in memory, over all partitions of the process. Default: 1000000.
	HotKeys int `yaml:"hot_keys"`
}

// Validate checks the address and the number.
func (a *Aggregator) Validate(v yamlfile.Value) {
	guard(v.Key("listen"), a.Listen, keysOrLoopback, a.Keys != "" || a.TLS.Clients != "")
	if place := v.Key("hot_keys"); !place.Faulty() && a.HotKeys < 1 {
		place.Faultf("write how many keys to keep in memory; each takes about 300 bytes", "%d keys are not possible", a.HotKeys)
	}
}

const keysOrLoopback = "add keys, a file of API keys, or tls with clients, or listen on 127.0.0.1"

// Enforcer configures how the list is served.
type Enforcer struct {
	// Listen is the address for checks and the list; beyond loopback it needs keys or client certificates.
	// Default: 127.0.0.1:7421.
	Listen string `yaml:"listen"`
	// GRPC is the address for Envoy's protocols over gRPC: the rate limit service and external authorization; beyond
	// loopback it needs keys or client certificates. Default: none.
	GRPC string `yaml:"grpc"`
	// Admin is the address for metrics, status, health and profiles; beyond loopback it needs keys or client
	// certificates. Default: 127.0.0.1:7431.
	Admin string `yaml:"admin"`
	// Socket is the unix socket for people on this machine: a user who may open it has the role admin. It is relative to
	// the data folder. Default: weir.sock.
	Socket string `yaml:"socket"`
	// Keys is the file of the API keys. Default: none.
	Keys string `yaml:"keys"`
	// TLS encrypts all these addresses. Default: not encrypted.
	TLS ServerTLS `yaml:"tls"`
	// Follow is the origin of the list: kafka, or another enforcer's URL. Default: kafka.
	Follow string `yaml:"follow"`
	// FollowKeyFile contains the API key for the followed enforcer, with the role read. Default: none.
	FollowKeyFile string `yaml:"follow_key_file"`
	// FollowTLS configures the connection to a followed enforcer whose URL is https. Default: the system's roots.
	FollowTLS ClientTLS `yaml:"follow_tls"`
	// WithoutList is the answer while there is no complete list yet: allow or deny. Default: allow.
	WithoutList Answer `yaml:"without_list"`
	// Refuse is the status of a refusal at /v1/check: 429 or 403. At /v1/check/nginx and /ingress-nginx it is always 403,
	// at the paths for other edges always 429. Default: 429.
	Refuse int `yaml:"refuse"`
	// Fields map fields of rules to the headers that edges set themselves: {user: X-User}. Other further fields come from
	// the header of the same name. Default: none, and users are not known.
	Fields map[string]string `yaml:"fields"`
	// Evidence is how much memory keeps the last requests that counted for entries; the oldest entries lose theirs first.
	// 0 keeps none. Default: 32MiB.
	Evidence Size `yaml:"evidence"`
	// DNS is the address of the DNS server that is asked about crawlers in allow: 127.0.0.1:53. Default: the system's.
	DNS string `yaml:"dns"`
	// LimitHeaders are the headers, besides Retry-After, that describe the broken limit to a refused client: draft
	// (RateLimit and RateLimit-Policy), legacy (X-RateLimit-…), both, or none. Default: both.
	LimitHeaders LimitHeaders `yaml:"limit_headers"`
	// Console serves pages for people at /console/ of listen: on, read (no actions), or off. Default: on, and off beyond
	// loopback without keys.
	Console Console `yaml:"console"`
	// ConsoleOIDC is an OpenID Connect provider with which people log in to the console. Default: none.
	ConsoleOIDC ConsoleOIDC `yaml:"console_oidc"`
	// Events is how many events of weir.events the enforcer keeps in an index on disk, the newest ones, for weir history;
	// each takes about 400 bytes. 0 is no index. Default: 10000000.
	Events int64 `yaml:"events"`
	// Crowdsec configures the answers to CrowdSec's bouncers.
	Crowdsec Crowdsec `yaml:"crowdsec"`
	// NFTables keeps the list in this machine's firewall.
	NFTables NFTables `yaml:"nftables"`
	// HAProxy keeps the list in a map of HAProxy.
	HAProxy HAProxy `yaml:"haproxy"`
	// DryRun prints the changes to the firewall and to HAProxy on standard output instead of making them. Default: false.
	DryRun bool `yaml:"dry_run"`
}

// Validate checks the addresses.
func (e *Enforcer) Validate(v yamlfile.Value) {
	guarded := e.Keys != "" || e.TLS.Clients != ""
	guard(v.Key("listen"), e.Listen, keysOrLoopback, guarded)
	guard(v.Key("grpc"), e.GRPC, keysOrLoopback, guarded)
	guard(v.Key("admin"), e.Admin, keysOrLoopback, guarded)
	if place := v.Key("refuse"); !place.Faulty() && e.Refuse != http.StatusTooManyRequests && e.Refuse != http.StatusForbidden {
		place.Faultf("write 429 or 403", "edges do not understand %d as a refusal", e.Refuse)
	}

	if server, err := netip.ParseAddrPort(e.DNS); e.DNS != "" && (err != nil || server.Port() == 0) {
		v.Key("dns").Faultf("write it as 127.0.0.1:53, or leave it out", "%q is not the address of a DNS server with its port", e.DNS)
	}

	if place := v.Key("events"); !place.Faulty() && e.Events < 0 {
		place.Faultf("write how many events to keep, or 0 for no index", "%d events are not possible", e.Events)
	}

	if serves, _ := e.ServesConsole(); e.ConsoleOIDC.Issuer != "" && !serves {
		v.Key("console_oidc").Faultf("write console: on, or leave console_oidc out", "this enforcer serves no console")
	}
	e.checkFields(v.Key("fields"))
	if e.Follow == "kafka" {
		return
	}

	switch _, err := origin.Server(e.Follow); {
	case errors.Is(err, origin.ErrUser):
		v.Key("follow").Fault(err)
	case err != nil:
		v.Key("follow").Faultf("write kafka, or https://enforcer.example:7421", "%q is not the URL of an enforcer", e.Follow)
	}
}

// checkFields checks the headers that edges set.
func (e *Enforcer) checkFields(v yamlfile.Value) {
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		switch name {
		case "ip", "method", "host", "path", "raw_path", "query", "status", "bytes", "agent", "referrer":
			v.Key(name).Faultf("leave it out; for ip set client.header", "%s is always taken from the request", name)
		}
		if header := e.Fields[name]; header == "" || strings.ContainsAny(header, " :\t\r\n") {
			v.Key(name).Faultf("write it as X-User", "%q is not the name of a header", header)
		}
	}
}

// LimitHeaders is both, draft, legacy or none.
type LimitHeaders string

// FromYAML reads one of the words.
func (l *LimitHeaders) FromYAML(v yamlfile.Value) {
	*l = LimitHeaders(oneOf(v, "both", "draft", "legacy", "none"))
}

// Console is on, read or off; empty is the default.
type Console string

// FromYAML reads one of the words. Unlike other texts, on and off need no quotes.
func (c *Console) FromYAML(v yamlfile.Value) {
	text, ok := v.Scalar()
	switch {
	case ok && (text == "on" || text == "true"):
		*c = "on"
	case ok && (text == "off" || text == "false"):
		*c = "off"
	default:
		*c = Console(oneOf(v, "on", "off", "read"))
	}
}

// ServesConsole returns whether pages for people are served, and whether they have actions.
func (e *Enforcer) ServesConsole() (serves, actions bool) {
	switch {
	case e.Listen == "" || e.Console == "off":
		return false, false
	case e.Console == "":
		return e.Keys != "" || e.TLS.Clients == "" && origin.IsLoopback(e.Listen), true
	}
	return true, e.Console == "on"
}

// An Answer is allow or deny.
type Answer string

// FromYAML reads an answer.
func (a *Answer) FromYAML(v yamlfile.Value) { *a = Answer(oneOf(v, "allow", "deny")) }

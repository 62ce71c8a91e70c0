package config

import (
	"net/url"

	"weir/internal/yamlfile"
)

// Aggregator says how much is counted in memory.
type Aggregator struct {
	// Listen is the address for keys, status, metrics, health and profiles; beyond loopback it needs keys.
	// Default: 127.0.0.1:7411.
	Listen string `yaml:"listen"`
	// Keys is the file of the API keys. Default: none.
	Keys string `yaml:"keys"`
	// HotKeys is how many keys are held in memory, over all partitions of the process. Default: 1000000.
	HotKeys int `yaml:"hot_keys"`
}

// Validate checks the address and the number.
func (a *Aggregator) Validate(v yamlfile.Value) {
	guard(v.Key("listen"), a.Listen, keysOrLoopback, a.Keys != "")
	if place := v.Key("hot_keys"); !place.Faulty() && a.HotKeys < 1 {
		place.Faultf("write how many keys to hold in memory; each takes about 300 bytes", "%d keys are not possible", a.HotKeys)
	}
}

const keysOrLoopback = "add keys, a file of API keys, or listen on 127.0.0.1"

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
	// WithoutList is the answer while there is no whole list yet: allow or deny. Default: allow.
	WithoutList Answer `yaml:"without_list"`
}

// Validate checks the addresses.
func (e *Enforcer) Validate(v yamlfile.Value) {
	const remedy = "add keys, a file of API keys, or tls with clients, or listen on 127.0.0.1"
	guarded := e.Keys != "" || e.TLS.Clients != ""
	guard(v.Key("listen"), e.Listen, remedy, guarded)
	guard(v.Key("admin"), e.Admin, remedy, guarded)
	if e.Follow == "kafka" {
		return
	}
	at, err := url.Parse(e.Follow)
	if err != nil || at.Host == "" || (at.Scheme != "http" && at.Scheme != "https") {
		v.Key("follow").Faultf("write kafka, or https://enforcer.example:7421", "%q is no enforcer's URL", e.Follow)
	}
}

// An Answer is what a check says without a list.
type Answer string

// FromYAML reads an answer.
func (a *Answer) FromYAML(v yamlfile.Value) { *a = Answer(oneOf(v, "allow", "deny")) }

package config

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/yamlfile"
)

// places are where a configuration is looked for, the first one found is read.
var places = []string{"weir.yaml", "/etc/weir/weir.yaml"}

// find is the first of the usual places that holds a configuration; empty when none does.
func find() string {
	for _, place := range places {
		if _, err := os.Stat(place); err == nil {
			return place
		}
	}
	return ""
}

// dataFolder is where Weir keeps what is its own when the file does not say it.
func dataFolder(lookup func(string) (string, bool)) string {
	if state, ok := lookup("STATE_DIRECTORY"); ok && state != "" {
		first, _, _ := strings.Cut(state, ":") // systemd separates several so
		return first
	}
	const system = "/var/lib/weir"
	if writable(system) || !exists(system) && writable(filepath.Dir(system)) {
		return system
	}
	home, _ := lookup("HOME")
	return filepath.Join(home, ".local", "state", "weir")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }

// resolve makes relative paths whole: relative to the file, and to data for what we write.
func (c *Config) resolve() {
	c.Data = c.reading.path(c.Data)
	if c.Data == "" {
		c.Data = dataFolder(c.reading.lookup)
	}
	if c.Enforcer.Socket != "" && !filepath.IsAbs(c.Enforcer.Socket) {
		c.Enforcer.Socket = filepath.Join(c.Data, c.Enforcer.Socket)
	}
	for _, path := range c.paths() {
		*path = c.reading.path(*path)
	}
}

// paths are all paths to files that others write.
func (c *Config) paths() []*string {
	kafka, enforcer := &c.Kafka, &c.Enforcer
	paths := []*string{
		&kafka.TLS.CA, &kafka.TLS.Cert, &kafka.TLS.Key, &kafka.SASL.PasswordFile, &c.Store.PasswordFile,
		&c.Collector.Keys, &c.Aggregator.Keys, &enforcer.Keys,
		&enforcer.FollowKeyFile, &enforcer.FollowTLS.CA, &enforcer.FollowTLS.Cert, &enforcer.FollowTLS.Key,
	}

	for _, t := range []*ServerTLS{&c.Collector.TLS, &c.Aggregator.TLS, &enforcer.TLS} {
		paths = append(paths, &t.Cert, &t.Key, &t.Clients)
	}
	paths = append(paths, enforcer.HAProxy.paths()...)
	for _, networks := range c.networks() {
		for i := range networks.Files {
			paths = append(paths, &networks.Files[i].Name)
		}
	}

	for i := range c.Collector.Sources {
		s := &c.Collector.Sources[i]
		paths = append(paths, &s.Keys, &s.TLS.Cert, &s.TLS.Key, &s.TLS.Clients)
		paths = appendEach(paths, s.File)
	}

	return paths
}

// networks are all lists of prefixes.
func (c *Config) networks() []*yamlfile.Networks {
	all := []*yamlfile.Networks{&c.Client.TrustedProxies}
	for i := range c.Collector.Sources {
		all = append(all, &c.Collector.Sources[i].From)
	}
	return all
}

func appendEach(paths []*string, texts []string) []*string {
	for i := range texts {
		paths = append(paths, &texts[i])
	}
	return paths
}

// Keys are all keys of the file with their sections: kafka.hits.partitions. Those of a list's elements, which
// only the file itself and --set can name, are written with [].
func Keys() []string {
	var keys []string
	for _, section := range []struct {
		path   string
		sample any
	}{
		{"", Config{}},
		{"client.", Client{}},
		{"time.", Time{}},
		{"log.", Log{}},
		{"kafka.", Kafka{}},
		{"kafka.tls.", ClientTLS{}},
		{"kafka.sasl.", SASL{}},
		{"kafka.hits.", Topic{}},
		{"kafka.blocklist.", BlocklistTopic{}},
		{"kafka.events.", Topic{}},
		{"store.", Store{}},
		{"collector.", Collector{}},
		{"collector.tls.", ServerTLS{}},
		{"collector.sources[].", Source{}},
		{"collector.sources[].tls.", ServerTLS{}},
		{"aggregator.", Aggregator{}},
		{"aggregator.tls.", ServerTLS{}},
		{"enforcer.", Enforcer{}},
		{"enforcer.tls.", ServerTLS{}},
		{"enforcer.follow_tls.", ClientTLS{}},
		{"enforcer.crowdsec.", Crowdsec{}},
		{"enforcer.nftables.", NFTables{}},
		{"enforcer.haproxy.", HAProxy{}},
	} {
		for _, name := range yamlfile.Names(section.sample) {
			keys = append(keys, section.path+name)
		}
	}

	return keys
}

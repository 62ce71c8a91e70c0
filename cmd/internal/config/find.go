package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/network"
	"weir/internal/yamlfile"
)

// places are the usual paths of a configuration; the first that exists is read.
var places = []string{"weir.yaml", "/etc/weir/weir.yaml"}

// Find returns the first of the usual paths that exists; empty when none does.
func Find() string {
	for _, place := range places {
		if _, err := os.Stat(place); err == nil {
			return place
		}
	}
	return ""
}

// dataFolder returns the default folder for Weir's own data.
func dataFolder(lookup func(string) (string, bool)) string {
	if state, ok := lookup("STATE_DIRECTORY"); ok && state != "" {
		first, _, _ := strings.Cut(state, ":") // systemd separates several folders with colons
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

// resolve makes paths relative to the configuration file; the enforcer's socket is relative to the data folder.
func (c *Config) resolve() {
	c.Data = c.loader.path(c.Data)
	if c.Data == "" {
		c.Data = dataFolder(c.loader.lookup)
	}
	if c.Enforcer.Socket != "" && !filepath.IsAbs(c.Enforcer.Socket) {
		c.Enforcer.Socket = filepath.Join(c.Data, c.Enforcer.Socket)
	}
	for _, path := range c.paths() {
		*path = c.loader.path(*path)
	}
}

// paths returns all paths of files that Weir does not write itself.
func (c *Config) paths() []*string {
	kafka, enforcer := &c.Kafka, &c.Enforcer
	paths := []*string{
		&kafka.TLS.CA, &kafka.TLS.Cert, &kafka.TLS.Key, &kafka.SASL.PasswordFile, &kafka.SASL.TokenFile, &c.Store.PasswordFile, &c.Inline.Store.PasswordFile,
		&c.Collector.Keys, &c.Aggregator.Keys, &enforcer.Keys,
		&enforcer.ConsoleOIDC.ClientSecretFile, &enforcer.FollowKeyFile, &enforcer.FollowTLS.CA, &enforcer.FollowTLS.Cert, &enforcer.FollowTLS.Key,
	}

	settle := &c.Collector.Settle
	paths = append(paths, &settle.KeyFile, &settle.TLS.CA, &settle.TLS.Cert, &settle.TLS.Key)
	for _, t := range []*ServerTLS{&c.Collector.TLS, &c.Aggregator.TLS, &enforcer.TLS} {
		paths = append(paths, &t.Cert, &t.Key, &t.Clients)
	}
	paths = append(paths, enforcer.HAProxy.paths()...)
	for _, networks := range c.networks() {
		for i := range networks.Files {
			paths = append(paths, &networks.Files[i].Name)
		}
	}

	paths = appendEach(paths, c.GeoIP.Databases)
	for i := range c.Collector.Sources {
		s := &c.Collector.Sources[i]
		paths = append(paths, &s.Keys, &s.TLS.CA, &s.TLS.Cert, &s.TLS.Key, &s.TLS.Clients, &s.SASL.PasswordFile, &s.SASL.TokenFile, &s.Journald.Folder, &s.RedisStream.PasswordFile, &s.NATS.PasswordFile, &s.NATS.TokenFile, &s.NATS.CredentialsFile, &s.AMQP.PasswordFile)
		if !slices.Contains(s.File, stdin) { // which is no path
			paths = appendEach(paths, s.File)
		}
	}
	for i := range c.Notify {
		for _, path := range c.Notify[i].paths() {
			paths = append(paths, path)
		}
	}

	return paths
}

// A NamedFile is a file that a part reads at its start: API keys, certificates, passwords.
type NamedFile struct {
	Key  string // of the configuration: enforcer.keys
	Path string
	Keys bool // it contains API keys
}

// NamedFiles returns the files of keys, certificates and passwords that the configuration names.
func (c *Config) NamedFiles() (named []NamedFile) {
	add := func(key, path string) {
		if path != "" {
			named = append(named, NamedFile{key, path, strings.HasSuffix(key, ".keys")})
		}
	}
	client := func(key string, t ClientTLS) {
		add(key+".ca", t.CA)
		add(key+".cert", t.Cert)
		add(key+".key", t.Key)
	}
	server := func(section, keys string, t ServerTLS) {
		add(section+".keys", keys)
		add(section+".tls.cert", t.Cert)
		add(section+".tls.key", t.Key)
		add(section+".tls.clients", t.Clients)
	}

	client("kafka.tls", c.Kafka.TLS)
	add("kafka.sasl.password_file", c.Kafka.SASL.PasswordFile)
	add("kafka.sasl.token_file", c.Kafka.SASL.TokenFile)
	add("store.password_file", c.Store.PasswordFile)
	add("inline.store.password_file", c.Inline.Store.PasswordFile)
	server("collector", c.Collector.Keys, c.Collector.TLS)
	add("collector.settle.key_file", c.Collector.Settle.KeyFile)
	client("collector.settle.tls", c.Collector.Settle.TLS)
	for i, s := range c.Collector.Sources {
		section := fmt.Sprintf("collector.sources.%d", i)
		server(section, s.Keys, s.TLS.Server())
		add(section+".tls.ca", s.TLS.CA)
		add(section+".sasl.password_file", s.SASL.PasswordFile)
		add(section+".sasl.token_file", s.SASL.TokenFile)
		add(section+".redis_stream.password_file", s.RedisStream.PasswordFile)
		add(section+".amqp.password_file", s.AMQP.PasswordFile)
		add(section+".nats.password_file", s.NATS.PasswordFile)
		add(section+".nats.token_file", s.NATS.TokenFile)
		add(section+".nats.credentials_file", s.NATS.CredentialsFile)
	}
	server("aggregator", c.Aggregator.Keys, c.Aggregator.TLS)
	server("enforcer", c.Enforcer.Keys, c.Enforcer.TLS)
	add("enforcer.console_oidc.client_secret_file", c.Enforcer.ConsoleOIDC.ClientSecretFile)
	add("enforcer.follow_key_file", c.Enforcer.FollowKeyFile)
	client("enforcer.follow_tls", c.Enforcer.FollowTLS)
	for i := range c.Notify {
		files := c.Notify[i].paths()
		for _, key := range slices.Sorted(maps.Keys(files)) {
			add(fmt.Sprintf("notify.%d.%s", i, key), *files[key])
		}
	}
	return named
}

// networks returns all lists of prefixes.
func (c *Config) networks() []*network.List {
	all := []*network.List{&c.Client.TrustedProxies}
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

// Keys returns all keys of the file with their sections: kafka.hits.partitions. Keys within a list's elements are written
// with []: collector.sources[].format.
func Keys() []string {
	var keys []string
	for _, section := range []struct {
		path   string
		sample any
	}{
		{"", Config{}},
		{"client.", Client{}},
		{"geoip.", GeoIP{}},
		{"time.", Time{}},
		{"log.", Log{}},
		{"kafka.", Kafka{}},
		{"kafka.tls.", ClientTLS{}},
		{"kafka.sasl.", SASL{}},
		{"kafka.hits.", Topic{}},
		{"kafka.blocklist.", BlocklistTopic{}},
		{"kafka.events.", Topic{}},
		{"kafka.evidence.", Topic{}},
		{"kafka.attempts.", Topic{}},
		{"store.", Store{}},
		{"collector.", Collector{}},
		{"collector.tls.", ServerTLS{}},
		{"collector.settle.", Settle{}},
		{"collector.settle.tls.", ClientTLS{}},
		{"collector.sources[].", Source{}},
		{"collector.sources[].journald.", Journald{}},
		{"collector.sources[].redis_stream.", RedisStream{}},
		{"collector.sources[].nats.", NATS{}},
		{"collector.sources[].amqp.", AMQP{}},
		{"collector.sources[].dedupe.", Dedupe{}},
		{"collector.sources[].kinesis.", Kinesis{}},
		{"collector.sources[].hdfs.", HDFS{}},
		{"collector.sources[].tls.", SourceTLS{}},
		{"collector.sources[].sasl.", SASL{}},
		{"aggregator.", Aggregator{}},
		{"aggregator.tls.", ServerTLS{}},
		{"enforcer.", Enforcer{}},
		{"enforcer.tls.", ServerTLS{}},
		{"enforcer.console_oidc.", ConsoleOIDC{}},
		{"enforcer.follow_tls.", ClientTLS{}},
		{"enforcer.crowdsec.", Crowdsec{}},
		{"enforcer.nftables.", NFTables{}},
		{"enforcer.haproxy.", HAProxy{}},
		{"inline.", Inline{}},
		{"inline.store.", InlineStore{}},
		{"notify[].", Receiver{}},
		{"notify[].webhook.", Webhook{}},
		{"notify[].slack.", Chat{}},
		{"notify[].mattermost.", Chat{}},
		{"notify[].pagerduty.", PagerDuty{}},
		{"notify[].alertmanager.", Alertmanager{}},
		{"notify[].mail.", Mail{}},
	} {
		for _, name := range yamlfile.Names(section.sample) {
			keys = append(keys, section.path+name)
		}
	}

	return keys
}

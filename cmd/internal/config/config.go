// Package config reads weir.yaml, the one file that all parts of Weir share.
//
// Load finds the file, replaces its settings by those of the environment (WEIR_AGGREGATOR_HOT_KEYS) and of the command line
// (aggregator.hot_keys=10000), fills in defaults, and checks everything. It returns all faults at once, each with its place.
// A Config that it returns without an error can be used as it is: its paths are resolved, its rules are loaded, and each
// address that other machines can reach requires keys or certificates.
//
// Load opens only the file itself, the rules and the lists of prefixes. A host that cannot be reached or a missing
// certificate is not a fault of the file. A Config is not changed after Load.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"weir/internal/duration"
	"weir/internal/nearest"
	"weir/internal/yamlfile"
	"weir/pkg/rule"
)

// A Config is all of weir.yaml.
type Config struct {
	// File is the path of the configuration; empty when there is no file and all settings are defaults.
	File string

	// Data is the folder for Weir's own data: journals, the last complete blocklist, the topics of a process without Kafka and the disk
	// store have a folder each. Relative paths are relative to the file. Default: $STATE_DIRECTORY, else /var/lib/weir if
	// that is writable, else ~/.local/state/weir.
	Data string `yaml:"data"`
	// Rules are a path, a glob, a list of them, or the rules themselves. Default: rules.yaml next to the file.
	Rules rule.Source `yaml:"rules"`
	// RuleSet contains the loaded rules, all in shadow mode if Mode is shadow. It is nil when there is neither a file nor
	// a setting of rules, and for rules in Options.Siblings.
	RuleSet *rule.Set
	// Mode is enforce, or shadow: blocks are decided and shown, and no request is refused, whatever the rules state.
	// Default: enforce.
	Mode Mode `yaml:"mode"`
	// Hosts are the names, besides localhost and 127.0.0.1, that the Host header may have at loopback addresses without
	// keys. Requests with another Host are refused there, because a web page's own name may resolve to 127.0.0.1.
	// Default: none.
	Hosts Texts `yaml:"hosts"`

	Client     Client     `yaml:"client"`     // how the client of a request is found
	GeoIP      GeoIP      `yaml:"geoip"`      // the networks and countries of addresses
	Time       Time       `yaml:"time"`       // which times are accepted
	Log        Log        `yaml:"log"`        // how the parts log
	Kafka      Kafka      `yaml:"kafka"`      // the broker between the parts
	Store      Store      `yaml:"store"`      // the windows that are not in memory
	Collector  Collector  `yaml:"collector"`  // the sources of requests
	Aggregator Aggregator `yaml:"aggregator"` // how many keys are in memory
	Enforcer   Enforcer   `yaml:"enforcer"`   // how the list is served
	Inline     Inline     `yaml:"inline"`     // where inline rules count
	Notify     []Receiver `yaml:"notify"`     // who is notified of the list's events

	loader loader
}

// Default returns the configuration of an empty file, without the data folder and the rules, which depend on the place of
// the file.
func Default() *Config {
	return &Config{
		Mode:   Enforce,
		Client: Client{Header: "X-Forwarded-For"},
		Time:   Time{Late: minutes(10), Ahead: duration.Duration(10 * time.Second)},
		Log:    Log{Level: "info", Format: "auto"},
		Kafka: Kafka{
			Prefix:  "weir.",
			Session: duration.Duration(9 * time.Second),
			Create:  true,
			Hits:    Topic{Partitions: 16, Retention: hours(48)},
			Events:  Topic{Partitions: 4, Retention: hours(30 * 24)},

			Evidence: Topic{Partitions: 4, Retention: hours(7 * 24)},
			Attempts: Topic{Partitions: 4, Retention: hours(24)},
		},
		Collector:  Collector{Listen: "127.0.0.1:7401", Batch: duration.Duration(20 * time.Millisecond), Evidence: 16 << 20},
		Aggregator: Aggregator{Listen: "127.0.0.1:7411", HotKeys: 1_000_000},
		Enforcer: Enforcer{
			Listen:       "127.0.0.1:7421",
			Admin:        "127.0.0.1:7431",
			Socket:       "weir.sock",
			Follow:       "kafka",
			WithoutList:  "allow",
			Refuse:       429,
			LimitHeaders: "both",
			Events:       10_000_000,
			Evidence:     32 << 20,
			NFTables:     NFTables{AtExit: "keep"},
			HAProxy:      HAProxy{Value: "until"},
		},
		Inline: Inline{Store: defaultInlineStore(), Budget: duration.Duration(20 * time.Millisecond), Enforcers: 1, Keys: 1_000_000, Attempts: 200_000, Settle: minutes(10)},
	}
}

func minutes(n int) duration.Duration { return duration.Duration(time.Duration(n) * time.Minute) }
func hours(n int) duration.Duration   { return duration.Duration(time.Duration(n) * time.Hour) }

// Validate checks settings that depend on each other, resolves paths and reads the other files.
func (c *Config) Validate(v yamlfile.Value) {
	// Paths first: all that follows reads files.
	c.resolve()
	c.checkHosts(v.Key("hosts"))
	c.Kafka.fewerInProcess(v.Key("kafka"))
	if c.Inline.History != 0 && !v.Key("kafka").Key("attempts").Has("retention") {
		c.Kafka.Attempts.Retention = c.Inline.History
	}
	c.Collector.distinctNames(v.Key("collector").Key("sources"))
	c.readOnce(v.Key("collector").Key("sources"), v.Key("kafka").Key("brokers"))
	c.loadRules(v)
	c.checkAttempts(v.Key("collector").Key("sources"))
	c.checkTry()
	c.warnOfShortRetention()
	c.warnOfLateEstimates()
	c.warnOfLongLates()
	c.warnOfLongLeases()
	c.checkQueues()
	c.checkNotify(v.Key("notify"))
	c.warnOfUnknownUsers()
	c.warnOfClaimedFields()
	c.warnOfNoKeys()
	for _, networks := range c.networks() {
		prefixes, faults := networks.Read(c.loader.file)
		c.loader.faults = append(c.loader.faults, faults...)
		if widest, ok := networks.WidestOfFiles(prefixes); ok && networks == &c.Client.TrustedProxies {
			warning := v.Key("client").Key("trusted_proxies").Place()
			warning.What, warning.Remedy = tooWide(widest)
			warning.What = "in a file, " + warning.What
			c.loader.warnings = append(c.loader.warnings, warning)
		}
	}
}

// loadRules reads the rules; those of rules.yaml when the file does not set rules.
func (c *Config) loadRules(v yamlfile.Value) {
	if c.loader.noRules {
		return
	}
	const usual = "rules.yaml"
	if !v.Has("rules") {
		c.Rules = rule.Source{Patterns: []string{usual}}
		// Without a file there is no place for rules next to it. Commands that need none go on; parts refuse it
		// (errNoRules).
		if c.File == "" {
			return
		}
		if !c.loader.has(usual) {
			v.Faultf("write "+usual+" next to the file, or rules: with their path", "there are no rules")
			return
		}
	}

	c.openDatabases(v.Key("geoip").Key("databases"))
	// Rules among the siblings are checked as files of their own.
	if v.Key("rules").Faulty() || c.loader.isSibling(c.Rules.Patterns) {
		return
	}
	if c.missingRules(v.Key("rules")) {
		return
	}
	c.Rules.Fields = c.Collector.fields(c.Client.Header)
	load := c.Rules.Load
	if c.loader.toAsk {
		load = c.Rules.LoadToAsk
	}
	set, warnings, err := load(c.loader.folder)
	c.loader.warnings = append(c.loader.warnings, warnings...)
	if err != nil {
		c.loader.add(err)
		return
	}

	// Here and not in the parts, so that all of them have the same fingerprint.
	if c.Mode == Shadow {
		set = set.Shadowed()
	}
	c.RuleSet = set
}

// missingRules reports files of rules that do not exist at the place that names them.
func (c *Config) missingRules(v yamlfile.Value) (missing bool) {
	places := v.OneOrMore()
	if len(places) != len(c.Rules.Patterns) { // the usual name, which was found
		return false
	}
	for i, path := range c.Rules.Patterns {
		if path = c.loader.path(path); strings.ContainsAny(path, "*?[") {
			continue
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			places[i].Faultf("correct the path, or create the file", "%s does not exist", path)
			missing = true
		}
	}
	return missing
}

// warnOfShortRetention warns of rules that look back further than hits are kept: their counts cannot be restored when the
// store is lost.
func (c *Config) warnOfShortRetention() {
	if c.RuleSet == nil {
		return
	}
	for _, r := range c.RuleSet.Counted().Rules {
		if !r.CountsLog() {
			continue
		}
		for _, limit := range r.Limits {
			if limit.Per > time.Duration(c.Kafka.Hits.Retention) {
				c.loader.warnings = append(c.loader.warnings, yamlfile.Fault{File: c.File,
					What:   fmt.Sprintf("hits are kept for %s, and rule %s has the limit %s: if the store is lost, its counts cannot be restored", c.Kafka.Hits.Retention, r.Name, limit.Text),
					Remedy: "make kafka.hits.retention longer than the longest limit"})
			}
		}
	}
}

// ApartAtMost is how far logs may be apart while a backlog of them is read: time.late, or half of the shortest late of a rule,
// so that the other half is for the order within a log. A late of 0 is for a single log.
func (c *Config) ApartAtMost() time.Duration {
	apart := time.Duration(c.Time.Late)
	if c.RuleSet == nil {
		return apart
	}
	for _, r := range c.RuleSet.Rules {
		if late := r.OwnLate(); late > 0 {
			apart = min(apart, max(late/2, time.Second))
		}
	}
	return apart
}

// warnOfLongLates warns of rules that would wait longer for late requests than these may be late and count.
func (c *Config) warnOfLongLates() {
	if c.RuleSet == nil {
		return
	}
	most := 2 * time.Duration(c.Time.Late)
	for _, r := range c.RuleSet.Rules {
		if late := r.OwnLate(); late > most {
			c.loader.warnings = append(c.loader.warnings, yamlfile.Fault{File: c.File,
				What:   fmt.Sprintf("rule %s has late: %s, and requests that are more than %s late, twice time.late, do not count", r.Name, duration.Duration(late), duration.Duration(most)),
				Remedy: fmt.Sprintf("write late: %s at most, or time: {late: %s}", duration.Duration(most), duration.Duration((late+1)/2))})
		}
	}
}

// warnOfLateEstimates warns of estimates whose window moves in large steps, because requests may come so late.
func (c *Config) warnOfLateEstimates() {
	if c.RuleSet == nil {
		return
	}
	for _, r := range c.RuleSet.Rules {
		if !r.EstimatesValues() {
			continue
		}
		if late := r.Late(2 * time.Duration(c.Time.Late)); late > 2*r.Limits[0].Per {
			c.loader.warnings = append(c.loader.warnings, yamlfile.Fault{File: c.File,
				What:   fmt.Sprintf("rule %s has the limit of %s, and waits %s for late requests: its window moves in large steps, so up to twice as many values can pass around one", r.Name, r.Limits[0].Text, duration.Duration(late)),
				Remedy: "write late in the rule, at most twice the time of the limit, as late: 1m"})
		}
	}
}

// checkQueues finds rules with a queue where inline rules do not count in a Redis.
func (c *Config) checkQueues() {
	if c.RuleSet == nil || c.Inline.Store.Redis != "" {
		return
	}
	for _, r := range c.RuleSet.Rules {
		if r.Queue != nil {
			c.loader.faults = append(c.loader.faults, yamlfile.Fault{File: c.File,
				What:   fmt.Sprintf("rule %s has a queue in Redis, and inline rules do not count in a Redis", r.Name),
				Remedy: `write inline: {store: {redis: "redis://host:6379/0"}}, or leave queue out`})
		}
	}
}

// warnOfLongLeases warns of leases that are longer than attempts can be settled.
func (c *Config) warnOfLongLeases() {
	if c.RuleSet == nil {
		return
	}
	for _, r := range c.RuleSet.Rules {
		if r.Lease > time.Duration(c.Inline.Settle) {
			c.loader.warnings = append(c.loader.warnings, yamlfile.Fault{File: c.File,
				What:   fmt.Sprintf("attempts can be settled for %s, and rule %s has a lease of %s: a request that ends later counts until its lease ends", c.Inline.Settle, r.Name, duration.Duration(r.Lease)),
				Remedy: "make inline.settle as long as the longest lease"})
		}
	}
}

// warnOfNoKeys warns of bouncers that are named by their keys, where no key is read.
func (c *Config) warnOfNoKeys() {
	if len(c.Enforcer.Crowdsec.Addresses) > 0 && c.Enforcer.Keys == "" && c.Enforcer.TLS.Clients == "" {
		c.loader.warnings = append(c.loader.warnings, yamlfile.Fault{File: c.File,
			What:   "enforcer.crowdsec.addresses names API keys, and without enforcer.keys no key is read: the bouncers get prefixes, which they ignore",
			Remedy: "write enforcer: {keys: keys.yaml}, and make the keys with weir keys add --name NAME --role read"})
	}
}

// warnOfUnknownUsers warns of enforced rules by which checks cannot refuse a client, because no header names the user.
func (c *Config) warnOfUnknownUsers() {
	if c.RuleSet == nil || c.Enforcer.Fields["user"] != "" {
		return
	}
	for _, r := range c.RuleSet.Rules {
		if r.Mode == rule.Enforce && slices.Contains(r.Key.Words(), "user") {
			c.loader.warnings = append(c.loader.warnings, yamlfile.Fault{File: c.File,
				What:   fmt.Sprintf("rule %s counts by user, and checks do not know the user: they refuse no one by it", r.Name),
				Remedy: "name the header that edges set, as enforcer: {fields: {user: X-User}}"})
		}
	}
}

// A Mode is enforce or shadow.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow" // blocks are decided and shown, and nothing is refused
)

// FromYAML reads a mode.
func (m *Mode) FromYAML(v yamlfile.Value) { *m = Mode(oneOf(v, string(Enforce), string(Shadow))) }

// Time limits the times of requests that are accepted.
type Time struct {
	// Late is how late a request may be read and still count: older than its key's newest by no more than this.
	// Default: 10m.
	Late duration.Duration `yaml:"late"`
	// Ahead is how far a request's time may be ahead of the collector's clock. Other requests make no hits and are
	// counted in a metric. Default: 10s.
	Ahead duration.Duration `yaml:"ahead"`
}

// longestLate is what windows can look back, twice: see time.late in docs/configuration.md.
const longestLate = 5 * 366 * 24 * time.Hour

// Validate checks the lateness.
func (t *Time) Validate(v yamlfile.Value) {
	if time.Duration(t.Late) > longestLate {
		v.Key("late").Faultf("write 1830d or less; minutes are usual", "a lateness of %s is too long", v.Key("late").Text())
	}
}

// Log configures the parts' logs.
type Log struct {
	// Level is debug, info, warn or error: messages below it are left out. Default: info.
	Level Level `yaml:"level"`
	// Format is text, json, or auto: text on a terminal and in journald, JSON lines elsewhere. Default: auto.
	Format LogFormat `yaml:"format"`
}

// A Level is the lowest level that is logged.
type Level string

// FromYAML reads a level.
func (l *Level) FromYAML(v yamlfile.Value) { *l = Level(oneOf(v, "debug", "info", "warn", "error")) }

// A LogFormat is auto, text or json.
type LogFormat string

// FromYAML reads a log format.
func (f *LogFormat) FromYAML(v yamlfile.Value) { *f = LogFormat(oneOf(v, "auto", "text", "json")) }

// oneOf reads one of a few words. Any other word is a fault.
func oneOf(v yamlfile.Value, words ...string) string {
	text := v.Text()
	for _, word := range words {
		if text == word {
			return word
		}
	}
	if text != "" {
		v.Faultf(nearest.Suggest(text, words, "write one of "), "%q is not known here", text)
	}
	return ""
}

// nth returns an element of a list, or the list itself if it is shorter.
func nth(v yamlfile.Value, i int) yamlfile.Value {
	if elements, ok := v.List(); ok && i < len(elements) {
		return elements[i]
	}
	return v
}

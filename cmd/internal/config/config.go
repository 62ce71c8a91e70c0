// Package config reads weir.yaml, the one file that all parts of Weir share.
//
// Load finds the file, puts the environment's settings (WEIR_AGGREGATOR_HOT_KEYS) and the command line's
// (aggregator.hot_keys=10000) in place of what it says, fills in what is left out, and checks everything: all
// faults are told at once, each with its place, and a Config that was returned without an error can be used as
// it is: its paths are whole, its rules are read, what listens beyond this machine asks who is there.
//
// Nothing is opened but the file itself, the rules and the lists of prefixes: a host that cannot be reached or a
// certificate that is not there yet is no fault of the file. A Config is not changed after Load.
package config

import (
	"fmt"
	"slices"
	"time"

	"weir/internal/yamlfile"
	"weir/pkg/rule"
)

// A Config is all of weir.yaml.
type Config struct {
	// File is where the configuration was read from; empty when there is no file and all is default.
	File string

	// Data is the folder for what Weir itself keeps: journals, the last whole blocklist, the embedded broker, the
	// disk store, a folder each. Relative paths are relative to the file. Default: $STATE_DIRECTORY, else
	// /var/lib/weir where that is writable, else ~/.local/state/weir.
	Data string `yaml:"data"`
	// Rules are what is limited: a path, a glob, a list of them, or the rules themselves. Default: rules.yaml
	// beside the file.
	Rules rule.Source `yaml:"rules"`
	// RuleSet is what Rules say, all in shadow mode where Mode is. It is nil when there is no file and no word about
	// rules, and for rules that stand in Options.Beside.
	RuleSet *rule.Set
	// Mode is enforce, or shadow: everything is decided and shown and nothing refused, whatever the rules say.
	// Default: enforce.
	Mode Mode `yaml:"mode"`
	// Hosts are names by which loopback addresses that ask for no key may be asked, besides localhost and 127.0.0.1: what
	// has another Host is refused there, because a web page can have its own name lead to 127.0.0.1. Default: none.
	Hosts Texts `yaml:"hosts"`

	Client     Client     `yaml:"client"`     // who the client is
	Time       Time       `yaml:"time"`       // what times are believed
	Log        Log        `yaml:"log"`        // what the parts say of themselves
	Kafka      Kafka      `yaml:"kafka"`      // the broker between the parts
	Store      Store      `yaml:"store"`      // the windows that are not in memory
	Collector  Collector  `yaml:"collector"`  // where requests come from
	Aggregator Aggregator `yaml:"aggregator"` // how much is counted in memory
	Enforcer   Enforcer   `yaml:"enforcer"`   // how the list is served

	reading reading
}

// Default is the configuration of which a file says nothing, without the data folder and the rules, which depend
// on where it is read.
func Default() *Config {
	return &Config{
		Mode:   Enforce,
		Client: Client{Header: "X-Forwarded-For"},
		Time:   Time{Late: minutes(10), Ahead: yamlfile.Duration(10 * time.Second)},
		Log:    Log{Level: "info", Format: "auto"},
		Kafka: Kafka{
			Prefix: "weir.",
			Create: true,
			Hits:   Topic{Partitions: 16, Retention: hours(48)},
			Events: Topic{Partitions: 4, Retention: hours(30 * 24)},
		},
		Collector:  Collector{Listen: "127.0.0.1:7401"},
		Aggregator: Aggregator{Listen: "127.0.0.1:7411", HotKeys: 1_000_000},
		Enforcer: Enforcer{
			Listen:       "127.0.0.1:7421",
			Admin:        "127.0.0.1:7431",
			Socket:       "weir.sock",
			Follow:       "kafka",
			WithoutList:  "allow",
			Refuse:       429,
			LimitHeaders: "both",
			NFTables:     NFTables{AtExit: "keep"},
			HAProxy:      HAProxy{Value: "until"},
		},
	}
}

func minutes(n int) yamlfile.Duration { return yamlfile.Duration(time.Duration(n) * time.Minute) }
func hours(n int) yamlfile.Duration   { return yamlfile.Duration(time.Duration(n) * time.Hour) }

// Validate checks what concerns the file as a whole: it is where paths become whole and other files are read.
func (c *Config) Validate(v yamlfile.Value) {
	c.resolve()
	c.checkHosts(v.Key("hosts"))
	c.Kafka.fewerInProcess(v.Key("kafka"))
	c.Collector.distinctNames(v.Key("collector").Key("sources"))
	c.loadRules(v)
	c.warnOfShortRetention()
	c.warnOfUnknownUsers()
	c.warnOfClaimedFields()
	for _, networks := range c.networks() {
		_, faults := networks.Read(c.reading.file)
		c.reading.faults = append(c.reading.faults, faults...)
	}
}

// loadRules reads the rules, and those of rules.yaml where nothing is said of them.
func (c *Config) loadRules(v yamlfile.Value) {
	if c.reading.noRules {
		return
	}
	const usual = "rules.yaml"
	if !v.Has("rules") {
		c.Rules = rule.Source{Patterns: []string{usual}}
		if c.File == "" {
			return
		}
		if !c.reading.has(usual) {
			v.Faultf("write "+usual+" beside the file, or rules: and their path", "nothing says what is limited")
			return
		}
	}

	if v.Key("rules").Faulty() || c.reading.besideAny(c.Rules.Patterns) {
		return
	}
	set, warnings, err := c.Rules.Load(c.reading.folder)
	c.reading.warnings = append(c.reading.warnings, warnings...)
	if err != nil {
		c.reading.add(err)
		return
	}

	if c.Mode == Shadow {
		set = set.Shadowed()
	}
	c.RuleSet = set
}

// warnOfShortRetention says which rule looks back further than hits are kept: what is counted by it cannot be counted
// again when the store is lost.
func (c *Config) warnOfShortRetention() {
	if c.RuleSet == nil {
		return
	}
	for _, r := range c.RuleSet.Rules {
		for _, limit := range r.Limits {
			if limit.Per > time.Duration(c.Kafka.Hits.Retention) {
				c.reading.warnings = append(c.reading.warnings, yamlfile.Fault{File: c.File,
					What:   fmt.Sprintf("hits are kept for %s, and rule %s has the limit %s: a store that is lost could not be counted again", c.Kafka.Hits.Retention, r.Name, limit.Text),
					Remedy: "make kafka.hits.retention longer than the longest limit"})
			}
		}
	}
}

// warnOfUnknownUsers says which rules checks cannot refuse anybody by, though they are in force: nothing tells them who the user is.
func (c *Config) warnOfUnknownUsers() {
	if c.RuleSet == nil || c.Enforcer.Fields["user"] != "" {
		return
	}
	for _, r := range c.RuleSet.Rules {
		if r.Mode == rule.Enforce && slices.Contains(r.Key.Words(), "user") {
			c.reading.warnings = append(c.reading.warnings, yamlfile.Fault{File: c.File,
				What:   fmt.Sprintf("rule %s counts by user, and checks do not know who the user is: they refuse nobody by it", r.Name),
				Remedy: "name the header that edges set, as enforcer: {fields: {user: X-User}}"})
		}
	}
}

// A Mode says whether blocks are put in force.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow" // decided and shown, nothing refused
)

// FromYAML reads a mode.
func (m *Mode) FromYAML(v yamlfile.Value) { *m = Mode(oneOf(v, string(Enforce), string(Shadow))) }

// Time says which times of requests are believed.
type Time struct {
	// Late is how late a request may be read and still count: older than its key's newest by no more than this.
	// Default: 10m.
	Late yamlfile.Duration `yaml:"late"`
	// Ahead is how far a request's time may be ahead of the collector's clock; what is beyond is refused and
	// counted. Default: 10s.
	Ahead yamlfile.Duration `yaml:"ahead"`
}

// Log says what the parts log of themselves.
type Log struct {
	// Level is debug, info, warn or error: what is below is left out. Default: info.
	Level Level `yaml:"level"`
	// Format is text, json, or auto: text on a terminal and in journald, JSON lines elsewhere. Default: auto.
	Format LogFormat `yaml:"format"`
}

// A Level is the least grave that is logged.
type Level string

// FromYAML reads a level.
func (l *Level) FromYAML(v yamlfile.Value) { *l = Level(oneOf(v, "debug", "info", "warn", "error")) }

// A LogFormat is how the log is written.
type LogFormat string

// FromYAML reads a log format.
func (f *LogFormat) FromYAML(v yamlfile.Value) { *f = LogFormat(oneOf(v, "auto", "text", "json")) }

// oneOf reads one of a few words. Another one is a fault.
func oneOf(v yamlfile.Value, words ...string) string {
	text := v.Text()
	for _, word := range words {
		if text == word {
			return word
		}
	}
	if text != "" {
		v.Faultf(yamlfile.Suggest(text, words, "write one of "), "%q is not known here", text)
	}
	return ""
}

// nth is an element of a list, or the list where it has none such.
func nth(v yamlfile.Value, i int) yamlfile.Value {
	if elements, ok := v.List(); ok && i < len(elements) {
		return elements[i]
	}
	return v
}

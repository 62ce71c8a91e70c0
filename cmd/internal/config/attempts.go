package config

import (
	"slices"

	"weir/internal/yamlfile"
)

// attemptsTopic is the name of the topic of attempts at inline rules, after the prefix.
const attemptsTopic = "attempts"

// KeepsAttempts reports whether enforcers write attempts at inline rules to their topic: if there is a history, or a rule
// blocks after refused attempts.
func (c *Config) KeepsAttempts() bool { return c.Inline.History != 0 || c.countsRefusals() }

func (c *Config) countsRefusals() bool { return c.RuleSet != nil && c.RuleSet.CountsRefusals() }

// RefusalsSource returns the source by which collectors count refused attempts; nil where no rule needs them.
func (c *Config) RefusalsSource() *Source {
	if !c.countsRefusals() {
		return nil
	}
	name := "refusals"
	for slices.ContainsFunc(c.Collector.Sources, func(s Source) bool { return s.Name == name }) {
		name += "-of-rules"
	}
	return &Source{Name: name, Kafka: Texts{c.Kafka.Prefix + attemptsTopic}, Envelope: "none", Format: "attempts", Commit: commitGroup, Start: Start{Earliest: true}}
}

// readsAttempts reports whether a source reads the topic of attempts, and nothing else.
func (c *Config) readsAttempts(s *Source) bool {
	return len(s.Brokers) == 0 && len(s.Kafka) == 1 && s.Kafka[0] == c.Kafka.Prefix+attemptsTopic
}

// checkAttempts finds what a source of attempts cannot have.
func (c *Config) checkAttempts(v yamlfile.Value) {
	for i := range c.Collector.Sources {
		s, place := &c.Collector.Sources[i], nth(v, i)
		if !c.readsAttempts(s) {
			continue
		}
		if !c.KeepsAttempts() {
			place.Key("kafka").Warnf("write inline: {history: 24h}", "%s has the attempts at inline rules, and no history of them is kept", s.Kafka[0])
		}
		if s.Local() && len(c.Kafka.Brokers) == 0 {
			place.Key("commit").Faultf("leave it out", "the topics of this process keep how far a source has read")
		}
	}
}

// checkTry finds rules that try algorithms on attempts that nothing keeps.
func (c *Config) checkTry() {
	if c.RuleSet == nil || c.KeepsAttempts() {
		return
	}
	for _, r := range c.RuleSet.Rules {
		if len(r.Try) > 0 {
			fault := r.TryPlace()
			fault.What = "the rule " + r.Name + " tries algorithms on its attempts, and no history of these is kept"
			fault.Remedy = "write inline: {history: 24h} in the configuration, or leave try out"
			c.loader.faults = append(c.loader.faults, fault)
		}
	}
}

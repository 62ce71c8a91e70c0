package config

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"weir/internal/duration"
	"weir/internal/nearest"
	"weir/internal/yamlfile"
	"weir/pkg/blocklist"
	"weir/pkg/notify"
)

// A Receiver gets messages about events of the list. It has exactly one of webhook, slack, mattermost, pagerduty,
// alertmanager and mail.
type Receiver struct {
	// Name is the receiver's name in metrics and in its consumer group: letters, digits, dots, dashes and underscores.
	Name string `yaml:"name"`

	Webhook      *Webhook      `yaml:"webhook"`
	Slack        *Chat         `yaml:"slack"`
	Mattermost   *Chat         `yaml:"mattermost"`
	PagerDuty    *PagerDuty    `yaml:"pagerduty"`
	Alertmanager *Alertmanager `yaml:"alertmanager"`
	Mail         *Mail         `yaml:"mail"`

	// Rules are the names of rules, with * for any characters. Default: all.
	Rules Texts `yaml:"rules"`
	// Events are blocked, extended, corrected, ended, lifted and ordered. Default: by the kind, see eventsOf.
	Events Texts `yaml:"events"`
	// Modes are enforce and shadow. Default: enforce.
	Modes Texts `yaml:"modes"`
	// Orders are the kinds of manual entries: block, allow, pardon, pause and confirm. Default: all.
	Orders Texts `yaml:"orders"`
	// Severity is info, warning, error or critical. Default: warning.
	Severity Severity `yaml:"severity"`
	// Group is how long the first event waits for others, to be in one message with them. Default: 30s.
	Group duration.Duration `yaml:"group"`
	// PerMinute is how many messages are sent in a minute; the last one sums up the others. Default: 20.
	PerMinute int `yaml:"per_minute"`
	// Stale is the age of an event from which on it is only summed up. Default: 15m.
	Stale duration.Duration `yaml:"stale"`
	// GiveUp is how long a message that fails is repeated. Default: 6h.
	GiveUp duration.Duration `yaml:"give_up"`
	// Timeout is how long one attempt may take. Default: 10s, and 1m for mail.
	Timeout duration.Duration `yaml:"timeout"`
}

// Severity is info, warning, error or critical.
type Severity string

// FromYAML reads one of the words.
func (s *Severity) FromYAML(v yamlfile.Value) { *s = Severity(oneOf(v, notify.Severities...)) }

var (
	modes  = map[string]blocklist.Mode{"enforce": blocklist.Enforce, "shadow": blocklist.Shadow}
	orders = map[string]blocklist.Kind{"block": blocklist.OrderBlock, "allow": blocklist.OrderAllow, "pardon": blocklist.OrderPardon, "pause": blocklist.OrderPause,
		"confirm": blocklist.OrderConfirm}
)

// FromYAML sets the defaults of a receiver and reads its keys.
func (r *Receiver) FromYAML(v yamlfile.Value) {
	*r = Receiver{Modes: Texts{"enforce"}, Orders: Texts{"block", "allow", "pardon", "pause", "confirm"}, Severity: "warning", Group: duration.Duration(30 * time.Second),
		PerMinute: 20, Stale: minutes(15), GiveUp: hours(6), Timeout: duration.Duration(10 * time.Second)}
	type plain Receiver
	v.Decode((*plain)(r))
	if kinds := r.kinds(); len(kinds) != 1 {
		v.Faultf("write one of webhook, slack, mattermost, pagerduty, alertmanager and mail", "a receiver has one way to get messages, and this one has %d", len(kinds))
	} else if !v.Has("events") {
		r.Events = eventsOf(kinds[0])
	}
	if r.Mail != nil && !v.Has("timeout") {
		r.Timeout = minutes(1) // a server that looks for spam and viruses is slow, and delivers a mail that was given up all the same
	}

	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if place := v.Key("name"); !place.Faulty() && (r.Name == "" || len(r.Name) > 60 || strings.Trim(r.Name, letters) != "") {
		place.Faultf("use 1 to 60 letters, digits, dots, dashes and underscores", "%q cannot be the name of a receiver", r.Name)
	}
	for i, pattern := range r.Rules {
		if _, err := path.Match(pattern, ""); err != nil {
			nth(v.Key("rules"), i).Faultf("write a rule's name, with * for any characters", "%q is not a pattern", pattern)
		}
	}
	known(v.Key("events"), r.Events, notify.Events)
	known(v.Key("modes"), r.Modes, keysOf(modes))
	known(v.Key("orders"), r.Orders, keysOf(orders))
	if place := v.Key("per_minute"); !place.Faulty() && (r.PerMinute < 1 || r.PerMinute > 1000) {
		place.Faultf("write 1 to 1000", "%d messages a minute are not possible", r.PerMinute)
	}
	between(v.Key("group"), r.Group, 0, hours(1))
	between(v.Key("stale"), r.Stale, minutes(1), hours(7*24))
	between(v.Key("give_up"), r.GiveUp, duration.Duration(time.Second), hours(7*24))
	between(v.Key("timeout"), r.Timeout, duration.Duration(100*time.Millisecond), minutes(5))
}

// kinds returns the ways by which the receiver gets messages.
func (r *Receiver) kinds() (kinds []string) {
	for kind, given := range map[string]bool{"webhook": r.Webhook != nil, "slack": r.Slack != nil, "mattermost": r.Mattermost != nil,
		"pagerduty": r.PagerDuty != nil, "alertmanager": r.Alertmanager != nil, "mail": r.Mail != nil} {
		if given {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// eventsOf returns the events that receivers of a kind get by default: programs all, people those that they can act on,
// and those who keep the state of a block all that changes it.
func eventsOf(kind string) Texts {
	switch kind {
	case "webhook":
		return slices.Clone(notify.Events)
	case "pagerduty", "alertmanager":
		return Texts{blocklist.EventBlocked, blocklist.EventExtended, blocklist.EventCorrected, blocklist.EventEnded, blocklist.EventLifted}
	}
	return Texts{blocklist.EventBlocked, blocklist.EventEnded, blocklist.EventLifted, blocklist.EventOrdered}
}

func known(v yamlfile.Value, texts Texts, words []string) {
	for i, text := range texts {
		if !slices.Contains(words, text) {
			nth(v, i).Faultf(nearest.Suggest(text, words, "write some of "), "%q is not known here", text)
		}
	}
}

func keysOf[V any](m map[string]V) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func between(v yamlfile.Value, d, least, most duration.Duration) {
	if !v.Faulty() && (d < least || d > most) {
		v.Faultf(fmt.Sprintf("write %s to %s", cmp.Or(least.String(), "0"), most), "%s is not possible", d)
	}
}

// checkNotify finds receivers of one name, and rules that there are not.
func (c *Config) checkNotify(v yamlfile.Value) {
	seen := map[string]bool{}
	for i := range c.Notify {
		r, place := &c.Notify[i], nth(v, i)
		if seen[r.Name] {
			place.Key("name").Fault(errors.New("two receivers have the name " + r.Name + "; give each its own"))
		}
		seen[r.Name] = true
		for j, pattern := range r.Rules {
			if c.RuleSet != nil && !c.hasRule(pattern) {
				nth(place.Key("rules"), j).Warnf("write the name of a rule", "no rule has the name %s", pattern)
			}
		}
		if c.Mode == Shadow && !slices.Contains(r.Modes, "shadow") {
			place.Warnf("write modes: [enforce, shadow]", "all rules are in shadow mode, and receiver %s gets only blocks that are enforced", r.Name)
		}
	}
}

func (c *Config) hasRule(pattern string) bool {
	for _, r := range c.RuleSet.Rules {
		if match, _ := path.Match(pattern, r.Name); match {
			return true
		}
	}
	return false
}

// NotifyGroup returns the beginning of the names of the receivers' consumer groups.
func (c *Config) NotifyGroup() string { return c.Kafka.Prefix + "notify" }

// ModesOf and OrdersOf return what the words stand for.
func (r *Receiver) ModesOf() (all []blocklist.Mode) {
	for _, word := range r.Modes {
		all = append(all, modes[word])
	}
	return all
}

// OrdersOf returns the kinds of manual entries.
func (r *Receiver) OrdersOf() (all []blocklist.Kind) {
	for _, word := range r.Orders {
		all = append(all, orders[word])
	}
	return all
}

// paths returns the paths to resolve, by their keys.
func (r *Receiver) paths() map[string]*string {
	switch {
	case r.Webhook != nil:
		return map[string]*string{"webhook.url_file": &r.Webhook.URLFile, "webhook.authorization_file": &r.Webhook.AuthorizationFile, "webhook.ca": &r.Webhook.CA}
	case r.Slack != nil:
		return map[string]*string{"slack.url_file": &r.Slack.URLFile, "slack.ca": &r.Slack.CA}
	case r.Mattermost != nil:
		return map[string]*string{"mattermost.url_file": &r.Mattermost.URLFile, "mattermost.ca": &r.Mattermost.CA}
	case r.PagerDuty != nil:
		return map[string]*string{"pagerduty.routing_key_file": &r.PagerDuty.RoutingKeyFile, "pagerduty.ca": &r.PagerDuty.CA}
	case r.Alertmanager != nil:
		return map[string]*string{"alertmanager.authorization_file": &r.Alertmanager.AuthorizationFile, "alertmanager.ca": &r.Alertmanager.CA}
	case r.Mail != nil:
		return map[string]*string{"mail.password_file": &r.Mail.PasswordFile, "mail.ca": &r.Mail.CA}
	}
	return nil
}

package config

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/yamlfile"
	"weir/pkg/rule"
)

// everyRequestHas are the words of keys that checks know without a header of their own, or never.
var everyRequestHas = []string{"ip", "user", "method", "host", "path", "raw_path", "query", "agent", "referrer", "status", "bytes"}

// warnOfClaimedFields reports the rules by which a client may choose its own key at checks: a field of the key is taken from the
// header of its name, and nothing says that edges set that header. http_x_tenant is by its name what the client sent.
func (c *Config) warnOfClaimedFields() {
	if c.RuleSet == nil {
		return
	}
	for _, r := range c.RuleSet.Rules {
		for _, word := range r.Key.Words() {
			field, _, _ := strings.Cut(word, "/")
			if r.Mode != rule.Enforce || c.Enforcer.Fields[field] != "" || slices.Contains(everyRequestHas, field) ||
				strings.HasPrefix(field, "http_") || strings.ContainsAny(field, ".@$ ") {
				continue
			}
			header := strings.ReplaceAll(field, "_", "-")
			c.reading.warnings = append(c.reading.warnings, yamlfile.Fault{File: c.File,
				What:   fmt.Sprintf("rule %s counts by %s, which checks take from the header %s: a client that sends it chooses its own key", r.Name, field, header),
				Remedy: fmt.Sprintf("have the edge set or clear that header, and name it, as enforcer: {fields: {%s: %s}}", field, header)})
		}
	}
}

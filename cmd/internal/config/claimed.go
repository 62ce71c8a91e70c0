package config

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/yamlfile"
	"weir/pkg/geoip"
	"weir/pkg/rule"
)

// everyRequestHas are the fields that checks have without a header of the same name, or never have.
var everyRequestHas = []string{"ip", "user", "method", "host", "path", "raw_path", "query", "agent", "referrer", "status", "bytes"}

// warnOfClaimedFields warns of rules for which a client can choose its own key at checks: a field of the key comes from the
// header of the same name, and the configuration does not state that edges set that header. Fields such as http_x_tenant
// are no reason for a warning: by their names they are headers of the client. Nor are those that a database of addresses
// has: checks take them from there.
func (c *Config) warnOfClaimedFields() {
	if c.RuleSet == nil {
		return
	}

	for _, r := range c.RuleSet.Rules {
		for _, word := range r.Key.Words() {
			field, _, _ := strings.Cut(word, "/")
			if r.Mode != rule.Enforce || c.Enforcer.Fields[field] != "" || slices.Contains(everyRequestHas, field) ||
				c.isByAddress(field) || strings.HasPrefix(field, "http_") || strings.ContainsAny(field, ".@$ ") {
				continue
			}

			header := strings.ReplaceAll(field, "_", "-")
			c.loader.warnings = append(c.loader.warnings, yamlfile.Fault{File: c.File,
				What:   fmt.Sprintf("rule %s counts by %s, which checks take from the header %s: a client that sends it chooses its own key", r.Name, field, header),
				Remedy: fmt.Sprintf("have the edge set or clear that header, and name it, as enforcer: {fields: {%s: %s}}", field, header)})
		}
	}
}

// isByAddress reports whether checks find a field in the databases.
func (c *Config) isByAddress(field string) bool {
	f, ok := geoip.FieldOf(field)
	return ok && c.RuleSet.Databases().Has(f)
}

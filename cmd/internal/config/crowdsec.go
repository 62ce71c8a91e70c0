package config

import (
	"strings"

	"weir/internal/yamlfile"
)

// Crowdsec configures the answers to CrowdSec's bouncers.
type Crowdsec struct {
	// Addresses are the names of the API keys whose bouncers ignore prefix lengths, as the firewall bouncer does with
	// nftables: these bouncers get only single addresses. Default: none.
	Addresses []string `yaml:"addresses"`
}

// Validate checks the names.
func (c *Crowdsec) Validate(v yamlfile.Value) {
	for i, name := range c.Addresses {
		if strings.TrimSpace(name) == "" {
			nth(v.Key("addresses"), i).Faultf("write the name of an API key", "the name is empty")
		}
	}
}

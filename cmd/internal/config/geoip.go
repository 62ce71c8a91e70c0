package config

import (
	"weir/internal/yamlfile"
	"weir/pkg/geoip"
)

// GeoIP names databases with the networks and the countries of addresses.
type GeoIP struct {
	// Databases are files of MaxMind's format (.mmdb). Of a field that several of them have, the first one answers. They
	// are read again when they change. Default: none.
	Databases Texts `yaml:"databases"`
}

// mostDatabases is more than there are fields.
const mostDatabases = 8

// Validate bounds the number of databases.
func (g *GeoIP) Validate(v yamlfile.Value) {
	if len(g.Databases) > mostDatabases {
		v.Key("databases").Faultf("name those that have fields that rules use", "%d databases are too many: there may be %d", len(g.Databases), mostDatabases)
	}
}

// openDatabases reads the databases for the rules. Programs that are no part make no keys, and do not read them.
func (c *Config) openDatabases(v yamlfile.Value) {
	if c.loader.toAsk && len(c.GeoIP.Databases) > 0 {
		c.Rules.GeoIPUnread = true
		return
	}
	all, errs := c.loader.opened.Open(c.GeoIP.Databases)
	for i, err := range errs {
		if err != nil {
			nth(v, i).Faultf("correct the path, or put a complete file there", "%v", err)
		}
	}
	c.Rules.GeoIP = geoip.Join(all...)
}

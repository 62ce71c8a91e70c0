package offline

import (
	"errors"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/pkg/geoip"
)

// A geoipFlag names the databases that rules ask about addresses.
type geoipFlag struct{ paths []string }

func (g *geoipFlag) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&g.paths, "geoip", nil, "find asn, as_name, country and city of addresses in the database `FILE` (.mmdb); may be repeated")
}

// open opens the databases of the flag, or else those of the configuration, if there is one.
func (g *geoipFlag) open(settings *config.Config) (*geoip.Databases, error) {
	paths := g.paths
	if len(paths) == 0 && settings != nil {
		paths = settings.GeoIP.Databases
	}
	var opened geoip.Opened
	all, errs := opened.Open(paths)
	if err := errors.Join(errs...); err != nil {
		return nil, exit.Wrong(err)
	}
	return geoip.Join(all...), nil
}

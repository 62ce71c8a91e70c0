package main

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/internal/yamlfile"
	"weir/pkg/request"
)

// A readFlags is how lines are read: what backtest and parse are both told.
type readFlags struct {
	envelope, format, zone, header string
	fields, proxies                []string
}

func (f *readFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.format, "format", "auto", "a preset's name, a log_format or LogFormat string, json, or auto")
	flags.StringVar(&f.envelope, "envelope", "auto", "what stands around each line: none, docker, cri, filebeat, … or auto")
	flags.StringVar(&f.zone, "zone", "UTC", "time zone of times that are written without one: Europe/Berlin")
	flags.StringArrayVar(&f.fields, "field", nil, "name a field of the log, ours first: user=http_x_user, in JSON user=jwt.sub")
	flags.StringVar(&f.header, "header", "X-Forwarded-For", "the header, as logged, that names the client behind a proxy")
	flags.StringSliceVar(&f.proxies, "trusted-proxy", nil, "address or prefix of an own proxy, whose header is believed")
	complete(c, "format", append([]string{"auto", "json"}, request.Presets()...))
}

func (f *readFlags) options() (request.Options, error) {
	zone, err := config.LoadZone(f.zone)
	if err != nil {
		return request.Options{}, wrongf("--zone: %w", err)
	}
	o := request.Options{Zone: zone, Header: f.header, Fields: map[string]string{}}
	if zone == time.UTC {
		o.Zone = nil
	}
	for _, field := range f.fields {
		ours, theirs, ok := strings.Cut(field, "=")
		if !ok || ours == "" || theirs == "" {
			return o, wrongf("--field %s: there is no name on one side; write it as user=http_x_user", field)
		}
		o.Fields[ours] = theirs
	}
	return o, nil
}

func (f *readFlags) client() (*request.Client, error) {
	var trusted []netip.Prefix
	for _, text := range f.proxies {
		prefix, err := yamlfile.ParsePrefix(text)
		if err != nil {
			return nil, wrongf("--trusted-proxy: %w", err)
		}
		trusted = append(trusted, prefix)
	}
	return request.NewClient(trusted), nil
}

// complete lets shells complete a flag's value from a few words.
func complete(c *cobra.Command, flag string, words []string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(fmt.Sprintf("weir: completion of --%s: %v", flag, err))
	}
}

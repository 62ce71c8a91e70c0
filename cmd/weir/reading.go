package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/internal/nearest"
	"weir/internal/network"
	"weir/pkg/request"
)

// A readFlags contains the flags that select how lines are read; several commands have them.
type readFlags struct {
	envelope, format, zone, header string
	fields, proxies                []string
}

func (f *readFlags) add(c *cobra.Command) {
	f.addFormat(c)
	flags := c.Flags()
	flags.StringVar(&f.header, "header", "X-Forwarded-For", "find the client behind a proxy in the logged `HEADER`")
	flags.StringSliceVar(&f.proxies, "trusted-proxy", nil, "trust the header of proxies in `PREFIX`; may be repeated")
}

// addFormat adds the flags for the format of lines, without those that find the client.
func (f *readFlags) addFormat(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.format, "format", "auto", "read lines as `FORMAT`: a preset, a log_format or LogFormat string, or auto")
	flags.StringVar(&f.envelope, "envelope", "auto", "take each line out of `ENVELOPE`: none, docker, cri, filebeat, ..., or auto")
	flags.StringVar(&f.zone, "zone", "UTC", "read times without a zone in `ZONE`: Europe/Berlin")
	flags.StringArrayVar(&f.fields, "field", nil, "name fields by `OURS=THEIRS`: user=http_x_user, in JSON user=jwt.sub; may be repeated")
	complete(c, "format", append([]string{"auto"}, request.Presets()...))
	complete(c, "envelope", append([]string{"auto"}, request.Envelopes()...))
}

func (f *readFlags) options() (request.Options, error) {
	var problems []error
	zone, err := config.LoadZone(f.zone)
	if err != nil {
		problems = append(problems, exit.Wrongf("--zone: %w", err))
	}

	o := request.Options{Zone: zone, Header: f.header, Fields: map[string]string{}}
	for _, field := range f.fields {
		ours, theirs, _ := strings.Cut(field, "=")
		if ours == "" || theirs == "" {
			problems = append(problems, exit.Wrongf("--field %s: a name is missing; write it as user=http_x_user", field))
		}
		o.Fields[ours] = theirs
	}

	if f.format != "auto" {
		if _, err := request.NewParser(f.format, o); err != nil {
			problems = append(problems, exit.Wrongf("--format: %w", err))
		}
	}

	if known := append(request.Envelopes(), "auto"); !slices.Contains(known, f.envelope) {
		problems = append(problems, exit.Wrongf("--envelope: %q is not known; %s", f.envelope, nearest.Suggest(f.envelope, known, "write one of ")))
	}
	return o, errors.Join(problems...)
}

func (f *readFlags) client() (*request.Client, error) {
	var trusted []netip.Prefix
	for _, text := range f.proxies {
		prefix, err := network.Parse(text)
		if err != nil {
			return nil, exit.Wrongf("--trusted-proxy: %w", err)
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

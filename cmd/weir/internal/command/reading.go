package command

import (
	"errors"
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

// A Reading contains the flags that select how lines are read. Envelope and Format are names, or auto.
type Reading struct {
	Envelope, Format, zone, header, line string
	fields, proxies                      []string
}

// Add adds all flags to a command.
func (f *Reading) Add(c *cobra.Command) {
	f.AddFormat(c)
	flags := c.Flags()
	flags.StringVar(&f.header, "header", "X-Forwarded-For", "find the client behind a proxy in the logged `HEADER`")
	flags.StringSliceVar(&f.proxies, "trusted-proxy", nil, "trust the header of proxies in `PREFIX`; may be repeated")
}

// AddFormat adds the flags for the format of lines, without those that find the client.
func (f *Reading) AddFormat(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.Format, "format", "auto", "read lines as `FORMAT`: a preset, a log_format or LogFormat string, or auto")
	flags.StringVar(&f.Envelope, "envelope", "auto", "unwrap each line from a log shipper's `ENVELOPE`: none, docker, cri, filebeat, ..., or auto")
	flags.StringVar(&f.line, "line", "", "find the line at `KEY` in records of JSON: payload.text")
	flags.StringVar(&f.zone, "zone", "UTC", "read times without a zone in `ZONE`: Europe/Berlin")
	flags.StringArrayVar(&f.fields, "field", nil, "read a field from the log's, `OURS=THEIRS`: user=http_x_user, in JSON user=jwt.sub; may be repeated")
	Complete(c, "format", append([]string{"auto"}, request.Presets()...))
	Complete(c, "envelope", append([]string{"auto"}, request.Envelopes()...))
}

// Options returns how lines are parsed, or all errors of the flags.
func (f *Reading) Options() (request.Options, error) {
	var problems []error
	zone, err := config.LoadZone(f.zone)
	if err != nil {
		problems = append(problems, exit.Wrongf("--zone: %w", err))
	}

	o := request.Options{Zone: zone, Header: f.header, Line: f.line, Fields: map[string]string{}}
	for _, field := range f.fields {
		ours, theirs, _ := strings.Cut(field, "=")
		if ours == "" || theirs == "" {
			problems = append(problems, exit.Wrongf("--field %s: a name is missing; write it as user=http_x_user", field))
		}
		o.Fields[ours] = theirs
	}

	if f.Format != "auto" {
		if _, err := request.NewParser(f.Format, o); err != nil {
			problems = append(problems, exit.Wrongf("--format: %w", err))
		}
	}

	if known := append(request.Envelopes(), "auto"); !slices.Contains(known, f.Envelope) {
		problems = append(problems, exit.Wrongf("--envelope: %q is not known; %s", f.Envelope, nearest.Suggest(f.Envelope, known, "write one of ")))
	}
	if err := request.CheckLine(f.line, f.Envelope); err != nil {
		problems = append(problems, exit.Wrongf("--line: %w; write it as payload.text", err))
	}
	return o, errors.Join(problems...)
}

// Client returns the client behind the trusted proxies.
func (f *Reading) Client() (*request.Client, error) {
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

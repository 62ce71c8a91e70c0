package offline

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/output"
	"weir/internal/yamlfile"
	"weir/pkg/rule"
)

// A checked is the result for one file, as `weir check --json` writes it.
type checked struct {
	File        string  `json:"file"`
	Kind        string  `json:"kind"` // rules, configuration or ConfigMap
	Mode        string  `json:"mode,omitempty"`
	Rules       int     `json:"rules"`
	Allows      int     `json:"allows"`
	Crawlers    int     `json:"crawlers,omitempty"`
	Fingerprint string  `json:"fingerprint,omitempty"`
	Guards      []guard `json:"guards,omitempty"`
	Faults      []place `json:"faults"`
	Warnings    []place `json:"warnings"`
	Live        []asked `json:"live,omitempty"`

	faults yamlfile.Faults
}

// A guard is that of a rule. In a configuration each partition has its share.
type guard struct {
	Rule       string  `json:"rule"`
	MostNew    int64   `json:"most_new"`
	MostShare  float64 `json:"most_share,omitempty"` // percent
	Partitions int     `json:"partitions,omitempty"`
	Share      int64   `json:"share,omitempty"` // of MostNew

	group bool // MostShare is of requests
}

// A place is a fault or a warning with its place in the file.
type place struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"`
}

// newChecked returns the result for a file without any findings yet.
func newChecked(file string) *checked {
	return &checked{File: file, Faults: []place{}, Warnings: []place{}}
}

func (r *checked) rules(set *rule.Set) {
	if set != nil {
		r.Rules, r.Allows, r.Fingerprint = len(set.Rules), len(set.Allows), set.Fingerprint()
		r.Crawlers = len(set.Crawlers)
		r.guards(set, 0)
	}
}

// guards shows the guards of rules, which are counted in so many partitions; 0 is not known.
func (r *checked) guards(set *rule.Set, partitions int) {
	r.Guards = nil
	if set == nil {
		return
	}
	for _, one := range set.Rules {
		if one.Guard.Off() {
			continue
		}
		g := guard{Rule: one.Name, MostNew: one.Guard.MostNew, MostShare: one.Guard.MostShare, group: one.CountsBlocks()}
		if partitions > 0 {
			g.Partitions, g.Share = partitions, one.Guard.Share(partitions)
		}
		r.Guards = append(r.Guards, g)
	}
}

func (g guard) String() string {
	var bounds []string
	if g.MostNew > 0 {
		text := fmt.Sprintf("%d new blocks a minute", g.MostNew)
		if g.Partitions > 1 {
			text += fmt.Sprintf(", %d in each of %d partitions", g.Share, g.Partitions)
		}
		bounds = append(bounds, text)
	}
	switch share := (rule.Guard{MostShare: g.MostShare}).ShareText(); {
	case g.group && g.MostShare > 0:
		bounds = append(bounds, fmt.Sprintf("networks with up to %s of the requests of an hour, if these are %d at least", share, rule.LeastTraffic))
	case g.MostShare > 0:
		bounds = append(bounds, fmt.Sprintf("%s of the keys of a minute, but %d keys at least", share, rule.LeastShared))
	}
	return "guard of " + g.Rule + ": " + strings.Join(bounds, "; ")
}

func (r *checked) add(warnings []yamlfile.Fault, err error) {
	for _, w := range warnings {
		r.Warnings = append(r.Warnings, place(w))
	}
	var faults yamlfile.Faults
	if err != nil && !errors.As(err, &faults) {
		faults = yamlfile.Faults{{File: r.File, What: err.Error()}}
	}

	for _, fault := range faults {
		fault.File = cmp.Or(fault.File, r.File)
		r.faults = append(r.faults, fault)
		r.Faults = append(r.Faults, place(fault))
	}
}

// write shows the result. It returns the faults, except in JSON, which contains them already.
func (r *checked) write(c *cobra.Command, form string) error {
	if form == "json" {
		if err := output.JSON(c.OutOrStdout()).Encode(r); err != nil || len(r.faults) == 0 {
			return errors.Join(err, r.unmet())
		}
		return exit.Wrongf("%s: %s", r.File, output.Counted(len(r.faults), "mistake"))
	}

	for _, w := range r.Warnings {
		fmt.Fprintln(c.ErrOrStderr(), "warning:", yamlfile.Fault(w))
	}
	if len(r.faults) > 0 {
		return r.faults
	}

	fmt.Fprintln(c.OutOrStdout(), r)
	return errors.Join(writeAsked(c.OutOrStdout(), r.Live), r.unmet())
}

// unmet returns an error when something asked of the live system does not hold.
func (r *checked) unmet() error {
	failed := 0
	for _, one := range r.Live {
		if !one.Holds {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	return exit.Unmetf("%s: %d of %s of the live system failed", r.File, failed, output.Counted(len(r.Live), "check"))
}

// String sums up a file without faults.
func (r *checked) String() string {
	text := r.File + ": " + r.Kind
	if r.Mode != "" {
		text += ", mode " + r.Mode
	}
	text += ", " + output.Counted(r.Rules, "rule")
	if r.Allows > 0 {
		text += ", " + output.Counted(r.Allows, "allow")
	}
	if r.Crawlers > 0 {
		text += ", " + output.Counted(r.Crawlers, "crawler")
	}
	if r.Fingerprint != "" {
		text += ", fingerprint " + r.Fingerprint
	}
	for _, g := range r.Guards {
		text += "\n  " + g.String()
	}
	return text
}

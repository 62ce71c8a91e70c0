package inspect

import (
	"fmt"
	"io"
	"strings"
	"time"

	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
)

// writeText writes the status for people: a summary first, then groups, then parts.
func (s *status) writeText(to io.Writer) error {
	var b strings.Builder
	s.times = shown.NewTimes(to, time.Now())
	b.WriteString(s.headline())
	if s.idle != "" {
		fmt.Fprintf(&b, "No process runs on %s: this is its last state.\n", s.idle)
	}
	if s.reached() == 0 {
		fmt.Fprintf(&b, "No part was reached at the addresses of this configuration: %s.\n", startThem)
	}
	if s.unasked != "" {
		b.WriteString(s.unasked + ".\n")
	}
	if s.RulesDiffer {
		fmt.Fprintf(&b, "Rules differ: %s.\n", s.rulesText())
	}

	if len(s.Groups) > 0 {
		b.WriteByte('\n')
		output.Table(&b, s.groupRows())
	}

	if len(s.Parts) > 0 {
		b.WriteByte('\n')
		output.Table(&b, s.partRows())
	}

	return output.WriteText(to, b.String())
}

const startThem = "start the parts (weir run, or collector, aggregator and enforcer), or name their configuration with --config"

// reached returns how many parts have answered.
func (s *status) reached() (parts int) {
	for _, p := range s.Parts {
		if p.Reached {
			parts++
		}
	}
	return parts
}

// waits describes why not all have caught up.
func (s *status) waits() string {
	var texts []string
	for _, group := range s.Groups {
		if group.Lag > 0 {
			texts = append(texts, fmt.Sprintf("%s %s for %s", output.Counted(int(group.Lag), "record"), map[bool]string{true: "waits", false: "wait"}[group.Lag == 1], group.Group))
		}
	}

	for _, part := range s.Parts {
		switch {
		case part.CaughtUp == nil || *part.CaughtUp:
		case part.Error != "":
			texts = append(texts, "the "+part.Part+" starts, and does not report its state yet")
		default:
			texts = append(texts, "the "+part.Part+" has not read or sent everything")
		}
	}

	if len(s.Faults) > 0 {
		texts = append(texts, "the topics could not be asked: "+strings.Join(s.Faults, "; "))
	}

	if len(texts) == 0 && s.starting {
		for _, part := range s.Parts {
			if !part.Reached {
				texts = append(texts, "the "+part.Part+" does not answer yet")
			}
		}
	}
	return strings.Join(texts, "; ")
}

func (s *status) groupRows() []string {
	rows := []string{"GROUP\tMEMBERS\tPARTITIONS\tLAG\tWAITS"}
	for _, g := range s.Groups {
		members := fmt.Sprint(g.Members)
		if g.Members < 0 {
			members = "?"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%d\t%s\t%s", g.Group, members, len(g.Partitions), output.Counted(int(g.Lag), "record"), waited(g.LagSeconds)))
		for _, p := range g.Partitions {
			if p.Lag > 0 {
				rows = append(rows, fmt.Sprintf("  %s/%d\t\t%s\t%s\t%s", p.Topic, p.Partition, p.reached(), output.Counted(int(p.Lag), "record"), waited(p.LagSeconds)))
			}
		}
	}

	return rows
}

// reached describes how far the group has read.
func (p *partitionStatus) reached() string {
	if p.Committed < 0 {
		return fmt.Sprintf("none of %d", p.End)
	}
	return fmt.Sprintf("%d of %d", p.Committed, p.End)
}

func waited(seconds *float64) string {
	switch {
	case seconds == nil:
		return "?"
	case *seconds == 0:
		return "-"
	case *seconds < 10:
		return time.Duration(*seconds * float64(time.Second)).Round(100 * time.Millisecond).String()
	}
	return time.Duration(*seconds * float64(time.Second)).Round(time.Second).String()
}

func (s *status) partRows() []string {
	rows := []string{"PART\tADDRESS\tRULES\tSTATE"}
	for _, p := range s.Parts {
		p.times = s.times
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s", p.Part, p.Address, s.rulesOf(&p), p.state()))
		rows = append(rows, p.ownRows()...)
	}
	if s.times.Local() && !s.RulesDiffer {
		return narrow(rows)
	}
	return rows
}

// narrow leaves out the rules of each part, which are the same, and the version of the list. Without long paths the table
// then fits 80 columns.
func narrow(rows []string) []string {
	for i, row := range rows {
		cells := strings.SplitN(row, "\t", 4)
		if len(cells) < 4 {
			continue
		}
		if cells[0] == listRow {
			cells[1] = ""
		}
		rows[i] = cells[0] + "\t" + cells[1] + "\t" + cells[3]
	}
	return rows
}

// rulesText lists the rules of each part.
func (s *status) rulesText() string {
	var texts []string
	for _, p := range s.Parts {
		if p.Rules != "" {
			texts = append(texts, p.Part+" "+p.Rules)
		}
	}
	if s.Rules != "" {
		texts = append(texts, "the configuration here "+s.Rules)
	}
	return strings.Join(texts, ", ")
}

// rulesOf returns the hash of a part's rules, with that of the configuration here when it differs.
func (s *status) rulesOf(p *partStatus) string {
	if p.Rules != "" && s.Rules != "" && p.Rules != s.Rules {
		return p.Rules + " (here " + s.Rules + ")"
	}
	if p.Rules == "" {
		return "-"
	}
	return p.Rules
}

func (p *partStatus) state() string {
	switch {
	case !p.Reached:
		return "not reached: " + p.Error
	case p.Error != "":
		return p.Error
	case p.CaughtUp != nil && *p.CaughtUp:
		return "caught up"
	case p.CaughtUp != nil:
		return "behind"
	}
	return "runs"
}

package inspect

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/pkg/blocklist"
)

const (
	foldFreely = 20   // changes in a second that have a line of their own
	foldLines  = 10   // lines for all others
	foldGroups = 4096 // pairs of rule and network that are counted separately
)

// A watchFold shows changes at a rate that people can read. In each second the first changes have a line of their own. The
// others are counted by rule and network, and at the end of the second the largest counts are shown.
type watchFold struct {
	out    io.Writer
	screen output.Screen
	free   int
	groups map[foldGroup]int
	others int // changes in no group, because there are too many groups
}

// A foldGroup identifies the changes that are counted in one line.
type foldGroup struct{ what, rule, network string }

func newWatchFold(out io.Writer) *watchFold {
	return &watchFold{out: out, screen: output.ScreenOf(out), free: foldFreely, groups: map[foldGroup]int{}}
}

func (f *watchFold) add(now time.Time, changes []watchChange) error {
	var b strings.Builder
	for i := range changes {
		if changes[i].known {
			continue
		}
		if f.free > 0 {
			f.free--
			b.WriteString(f.screen.Line(changes[i].text(now, shown.NewTimes(f.out, now)), changes[i].color()) + "\n")
			continue
		}

		c := &changes[i]
		group := foldGroup{c.word(), c.Rule, networkOf(c.Fields["ip"])}
		if _, known := f.groups[group]; !known && len(f.groups) == foldGroups {
			f.others++
			continue
		}
		f.groups[group]++
	}

	_, err := io.WriteString(f.out, b.String())
	return err
}

// networkOf returns the /24 or the /48 of an address; empty when the text is not an address.
func networkOf(ip string) string {
	prefix := shown.Prefix(ip)
	if !prefix.IsValid() {
		return ""
	}
	bits := 24
	if prefix.Addr().Is6() {
		bits = 48
	}
	return netip.PrefixFrom(prefix.Addr(), min(bits, prefix.Bits())).Masked().String()
}

// flush ends a second.
func (f *watchFold) flush(now time.Time) error {
	f.free = foldFreely
	if len(f.groups) == 0 {
		return nil
	}

	// The largest first; the rest of the order only makes it stable.
	groups := slices.SortedFunc(maps.Keys(f.groups), func(a, b foldGroup) int {
		return cmp.Or(f.groups[b]-f.groups[a], strings.Compare(a.rule, b.rule), strings.Compare(a.network, b.network), strings.Compare(a.what, b.what))
	})
	var b strings.Builder
	for i, group := range groups {
		if i < foldLines {
			fmt.Fprintf(&b, "%s  %-8s  %s %s\n", clock(now), group.what, output.Counted(f.groups[group], "more key"), group.words())
			continue
		}
		f.others += f.groups[group]
	}

	if f.others > 0 {
		fmt.Fprintf(&b, "%s  and %s elsewhere\n", clock(now), output.Counted(f.others, "more change"))
	}
	clear(f.groups)
	f.others = 0
	_, err := io.WriteString(f.out, b.String())
	return err
}

func (g foldGroup) words() string {
	if g.network == "" {
		return "by " + g.rule
	}
	return "by " + g.rule + " in " + g.network
}

// clock returns the local time of day.
func clock(t time.Time) string { return t.Local().Format("15:04:05") }

// text returns the change as a line.
func (c *watchChange) text(now time.Time, t shown.Times) string {
	line := fmt.Sprintf("%s  %-8s  %s  %s", clock(now), c.word(), c.Target(), c.RuleName())
	if c.what != blocklist.EventLifted {
		line += "  " + c.lasts(t)
	}
	return line + "  " + c.WhyIn(t)
}

// color returns the colour of the line.
func (c *watchChange) color() output.Color {
	switch {
	case c.refuses():
		return output.Red
	case c.Mode == blocklist.Shadow:
		return output.Yellow
	case c.what == blocklist.EventLifted || c.Order == blocklist.OrderAllow:
		return output.Green
	}
	return output.Plain
}

// refuses reports whether the change begins a block that is enforced, by a verdict or by a person.
func (c *watchChange) refuses() bool {
	return (c.what == blocklist.EventBlocked || c.what == blocklist.EventOrdered) && c.Mode == blocklist.Enforce && c.Blocks()
}

// lasts describes the end and the length of the block.
func (c *watchChange) lasts(t shown.Times) string {
	if c.Until == blocklist.Never {
		return "until someone ends it"
	}
	long := time.Duration(c.Until-c.From) * time.Millisecond
	return fmt.Sprintf("until %s (%s)", t.At(c.Until), long.Round(time.Second))
}

// word names what happened; for a manual entry it is the kind of the entry.
func (c *watchChange) word() string { return shown.Event(c.what, c.Order) }

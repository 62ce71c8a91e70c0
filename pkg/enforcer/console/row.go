package console

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"weir/internal/address"
	"weir/internal/keytext"
	"weir/pkg/blocklist"
)

// A row is an entry as the list shows it: in the page, and as JSON for its script. All texts are printable.
type row struct {
	Place string `json:"place"` // names the entry's record; the same for a block and its extensions
	Key   string `json:"key"`   // as people type it
	Link  string `json:"link"`
	Rule  string `json:"rule"`
	Why   string `json:"why"`
	State string `json:"state"` // Blocked, Would block, …
	Class string `json:"class"` // of the state: bad, shadow, good
	Since string `json:"since"` // RFC 3339
	Until string `json:"until"` // RFC 3339; empty without an end
	Left  string `json:"left"`
	Note  string `json:"note"` // why the entry refuses no one now
	ID    string `json:"id"`

	Refused string `json:"refused"` // requests; empty where that is not known
}

// row makes the row of an entry in the list.
func (c *Console) row(e *blocklist.Entry, now time.Time, lets *letIn) *row {
	r := rowOf(e, now, lets)
	if c.config.Refused != nil {
		r.Refused = grouped(int(c.config.Refused(e.ID)))
	}
	return r
}

// placeOf names the record of an entry. Clients choose keys, and must not find two with one name: the page would show one
// of them only.
func placeOf(rule, key string) string {
	sum := sha256.Sum256([]byte(rule + "\x00" + key))
	return hex.EncodeToString(sum[:16])
}

func keyLink(key string) string { return root + "key?key=" + url.QueryEscape(key) }

// rowOf makes the row of an entry.
func rowOf(e *blocklist.Entry, now time.Time, lets *letIn) *row {
	target := e.Target()
	r := &row{Place: placeOf(e.Rule, e.Key), Key: keytext.Shown(target), Link: keyLink(target), Rule: keytext.Shown(e.Rule), Why: whyOf(e), ID: keytext.Shown(e.ID),
		Since: instant(e.From), Left: leftOf(e.Until, now)}
	if e.Until != blocklist.Never {
		r.Until = instant(e.Until)
	}
	r.State, r.Class = stateOf(e)
	if lets != nil {
		r.Note = lets.note(e)
	}
	return r
}

func stateOf(e *blocklist.Entry) (state, class string) {
	switch {
	case e.Source == blocklist.Manual && e.Order == blocklist.OrderAllow:
		return "Let in", "good"
	case e.Source == blocklist.Manual && e.Order == blocklist.OrderPause:
		return "Paused", "good"
	case e.Source == blocklist.Manual && e.Order == blocklist.OrderConfirm:
		return "Guard confirmed", "bad"
	case e.Source == blocklist.Manual && e.Order == blocklist.OrderPardon:
		return "Unblocked", "good"
	case e.Source == blocklist.Manual:
		return "Blocked by hand", "bad"
	case e.Mode == blocklist.Shadow && e.Guarded:
		return "Guarded", "shadow"
	case e.Mode == blocklist.Shadow:
		return "Would block", "shadow"
	}
	return "Blocked", "bad"
}

// whyOf is the reason of an entry in a few words.
func whyOf(e *blocklist.Entry) string {
	text := ""
	switch {
	case e.Source == blocklist.Manual:
		text = fmt.Sprintf("%s: %s", keytext.Shown(e.By), reasonOf(e))
	case e.Limit != "":
		text = blocklist.Broke(e.Count, "hits", keytext.Shown(e.Limit))
		if e.Why != "" { // of a group: its addresses
			text += "; " + keytext.Shown(e.Why)
		}
	}
	if e.Level > 1 {
		text += fmt.Sprintf(", offence %d", e.Level)
	}
	if e.Guarded {
		text += ", beyond " + blocklist.GuardedBy(e.ByShare)
	}
	return text
}

// reasonOf is the reason that a person gave. Without one it ends in the person's name, which stands next to it.
func reasonOf(e *blocklist.Entry) string {
	return keytext.Shown(strings.TrimSuffix(e.Why, " by "+e.By))
}

func instant(milli int64) string { return time.UnixMilli(milli).UTC().Format(time.RFC3339) }

// leftOf returns how long something lasts from now.
func leftOf(until int64, now time.Time) string {
	if until == blocklist.Never {
		return "until ended"
	}
	return span(time.UnixMilli(until).Sub(now))
}

// span writes a duration by its two largest units. Scripts write the same form.
func span(d time.Duration) string {
	s := int64(max(0, d) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm %02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh %02dm", s/3600, s%3600/60)
	}
	return fmt.Sprintf("%dd %02dh", s/86400, s%86400/3600)
}

// A letIn is who is let in at present: by allows, and by pauses of rules.
type letIn struct {
	prefixes []allowedPrefix
	values   map[string]string // scope:value → who allowed it
	paused   map[string]string // rule, * for all → who paused it
}

type allowedPrefix struct {
	netip.Prefix
	by string
}

// maxLetIn is how many allows are looked at.
const maxLetIn = 10_000

func newLetIn() *letIn { return &letIn{values: map[string]string{}, paused: map[string]string{}} }

// add adds an order.
func (l *letIn) add(o *blocklist.Order) {
	switch {
	case len(l.prefixes)+len(l.values) >= maxLetIn:
	case o.Kind == blocklist.OrderPause:
		l.paused[o.Rule] = o.By
	case o.Kind != blocklist.OrderAllow:
	case o.Prefix().IsValid():
		l.prefixes = append(l.prefixes, allowedPrefix{o.Prefix(), o.By})
	default:
		l.values[o.Scope+":"+o.Value] = o.By
	}
}

// note returns why an entry refuses no one; empty when it refuses.
func (l *letIn) note(e *blocklist.Entry) string {
	if e.Source == blocklist.Manual && e.Order != blocklist.OrderBlock {
		return ""
	}
	if by, ok := l.paused[blocklist.EveryRule]; ok {
		return "paused: everything, by " + keytext.Shown(by)
	}
	if by, ok := l.paused[e.Rule]; ok {
		return "paused by " + keytext.Shown(by)
	}
	for name, value := range e.Fields {
		if by, ok := l.values[name+":"+value]; ok {
			return "let in by " + keytext.Shown(by)
		}
		if name != "ip" || len(l.prefixes) == 0 {
			continue
		}
		own, err := address.Parse(value)
		for _, one := range l.prefixes {
			if err == nil && one.Bits() <= own.Bits() && one.Contains(own.Addr()) {
				return "let in by " + keytext.Shown(one.by)
			}
		}
	}
	return ""
}

// plural writes a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	switch {
	case noun == "entry":
		return grouped(n) + " entries"
	case strings.HasSuffix(noun, "s"):
		return grouped(n) + " " + noun + "es"
	}
	return grouped(n) + " " + noun + "s"
}

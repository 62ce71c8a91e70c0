package console

import (
	"fmt"

	"weir/internal/keytext"
)

// A guardsView is the rules whose guard holds blocks back, and those that are confirmed.
type guardsView struct {
	Rules []*guardView
	Token string // empty for visitors who may only read
	Back  string
}

// A guardView is one of them.
type guardView struct {
	Name, Plain string // to show, and as it is
	Entries     int
	Beyond      string // which bounds of the guard
	Confirmed   bool
	Left        string // of the confirmation
}

// guards returns what the guards hold back, nil when that is nothing and no rule is confirmed.
func (c *Console) guards(v *visitor, back string) *guardsView {
	now := c.config.Now()
	shown := &guardsView{Back: back}
	if v.writes {
		shown.Token = v.Token()
	}
	for _, g := range c.config.Set.Guarded(now.UnixMilli()) {
		one := &guardView{Name: keytext.Shown(g.Rule), Plain: g.Rule, Entries: g.Entries, Beyond: g.Beyond(), Confirmed: g.ConfirmedUntil > 0}
		if one.Confirmed {
			one.Left = leftOf(g.ConfirmedUntil, now)
		}
		shown.Rules = append(shown.Rules, one)
	}
	if len(shown.Rules) == 0 {
		return nil
	}
	return shown
}

// confirming describes what a confirmation refuses.
func (c *Console) confirming(a *action) string {
	for _, g := range c.config.Set.Guarded(c.config.Now().UnixMilli()) {
		if g.Rule == a.Rule {
			return fmt.Sprintf("%s that its guard holds back, and those that come, are refused %s.", plural(g.Entries, "key"), a.lasting())
		}
	}
	return fmt.Sprintf("Keys that its guard would hold back are refused %s.", a.lasting())
}

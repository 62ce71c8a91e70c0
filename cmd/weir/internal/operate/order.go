package operate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/internal/duration"
	"weir/pkg/blocklist"
)

// An orderCommand contains the flags of a command that changes the list by hand.
type orderCommand struct {
	enforcer ask.Flags
	why      string
	lasts    string
	until    string
	output   command.Output
	yes      bool
}

// add adds the flags of a manual entry.
func (o *orderCommand) add(c *cobra.Command) {
	o.addBrief(c)
	c.Flags().StringVar(&o.lasts, "for", "", "how long: `TIME` such as 4h, 7d or forever")
	c.Flags().StringVar(&o.until, "until", "", "until when: `TIME` such as 2026-03-03T08:00:00Z")
}

// addBrief adds the flags of a command that ends a manual entry.
func (o *orderCommand) addBrief(c *cobra.Command) {
	o.enforcer.Add(c)
	c.Flags().StringVar(&o.why, "why", "", "record the reason `TEXT`, for people who read it later")
	o.output.Add(c, "text", "json")
}

// addYes adds the flag that confirms a command with a wide or dangerous effect.
func (o *orderCommand) addYes(c *cobra.Command) {
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask for a confirmation of a wide or dangerous change; for scripts")
}

// A newOrder is the body of a request to make a manual entry.
type newOrder struct {
	Target string `json:"target,omitempty"`
	Rule   string `json:"rule,omitempty"`
	For    string `json:"for,omitempty"`
	Until  string `json:"until,omitempty"`
	Why    string `json:"why"`

	Confirm bool `json:"confirm,omitempty"`
}

// order makes the request's body from the flags.
func (o *orderCommand) order(c *cobra.Command, now time.Time) (n newOrder, err error) {
	n.Why = strings.TrimSpace(o.why)
	switch {
	case n.Why == "":
		return n, exit.Wrongf("give the reason with --why, for people who find it later; for example: %s --why 'ask alice'", command.Line(c))
	case o.lasts != "" && o.until != "":
		return n, exit.Wrongf("--for and --until are both given; leave one out")
	case o.lasts != "":
		n.For = o.lasts
		if lasts, err := duration.Parse(o.lasts); err != nil || lasts == 0 {
			return n, exit.Wrongf("--for %s is not a time; write it as 4h, 7d or forever", o.lasts)
		}
	case o.until != "":
		until, err := time.Parse(time.RFC3339, o.until)
		if err != nil {
			return n, exit.Wrongf("--until %s is not a time; write it as %s", o.until, shown.Instant(now.Add(4*time.Hour)))
		}
		if !until.After(now) {
			return n, exit.Wrongf("--until %s is in the past; it is %s now", o.until, shown.Instant(now))
		}
		n.Until = o.until
	}

	return n, nil
}

// reason returns --why, or without it the given text with the user's name.
func (o *orderCommand) reason(otherwise string) string {
	if why := strings.TrimSpace(o.why); why != "" {
		return why
	}
	if person, err := user.Current(); err == nil && person.Username != "" {
		return otherwise + " by " + person.Username
	}
	return otherwise
}

// oneTarget requires one address, prefix or field.
func oneTarget(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return exit.Wrongf("%s needs one address, prefix or field; for example: %s", c.Name(), command.Example(c))
	}
	if _, _, err := blocklist.ParseTarget(args[0]); err != nil {
		return exit.Wrong(err)
	}
	return nil
}

// An orderAnswer is an enforcer's answer to a change by hand. Fields that do not apply to it are empty.
type orderAnswer struct {
	Order   *shown.Entry  `json:"order"`
	Key     string        `json:"key"`
	Lifted  []shown.Entry `json:"lifted"`
	Allowed *shown.Entry  `json:"allowed"`
	InForce struct {
		Here      bool `json:"here"`
		Kafka     bool `json:"kafka"`
		Followers int  `json:"followers"`
	} `json:"in_force"`
	Sending *shown.Sending `json:"sending"`
	Affects []string       `json:"affects"` // the effects of a wide or dangerous change
	Passes  string         `json:"passes"`  // why checks let a blocked client through
	Note    string         `json:"note"`

	times shown.Times
}

// change sends a change to the enforcer and shows the answer: unchanged to programs, described by text to people.
func (o *orderCommand) change(c *cobra.Command, method, path string, query url.Values, body *newOrder, text func(*orderAnswer) string) error {
	enforcer, err := o.enforcer.Connect()
	if err != nil {
		return err
	}
	defer enforcer.Close()
	var answer orderAnswer
	raw, err := orderAt(c.Context(), enforcer, method, path, query, body, &answer)
	// The enforcer refuses a wide or dangerous change with its effects; once confirmed it is sent again.
	if no := (*ask.RefusedError)(nil); errors.As(err, &no) && len(no.Affects) > 0 {
		if err := o.confirm(c, no.Affects); err != nil {
			return err
		}
		if body != nil {
			body.Confirm = true
		} else {
			query.Set("confirm", "true")
		}
		raw, err = orderAt(c.Context(), enforcer, method, path, query, body, &answer)
	}

	if err != nil {
		return err
	}
	if o.output.Form == "json" {
		return output.JSON(c.OutOrStdout()).Encode(raw)
	}
	if body != nil && answer.Order == nil {
		return fmt.Errorf("the answer of %s has no manual entry: it is not an enforcer, or another version", enforcer.At())
	}

	answer.times = shown.NewTimes(c.OutOrStdout(), time.Now())
	_, err = io.WriteString(c.OutOrStdout(), text(&answer)+answer.where(enforcer.At()))
	return err
}

// orderAt sends a change by hand. Without a body the query contains all of it.
func orderAt(ctx context.Context, enforcer *ask.Enforcer, method, path string, query url.Values, body *newOrder, answer *orderAnswer) (json.RawMessage, error) {
	var given any // stays nil: a nil *newOrder in it would be sent as a body
	if body != nil {
		given = body
	}
	return enforcer.Ask(ctx, method, path, query, given, answer)
}

// confirm asks the person at the terminal whether they want these effects.
func (o *orderCommand) confirm(c *cobra.Command, affected []string) error {
	if o.yes {
		return nil
	}
	if !output.IsTerminal(c.InOrStdin()) {
		return exit.Wrongf("this affects %s: add --yes to do it anyway", output.Printable(strings.Join(affected, "; ")))
	}

	text := "This affects:\n"
	for _, one := range affected {
		text += "  - " + output.Printable(one) + "\n"
	}

	fmt.Fprint(c.ErrOrStderr(), text+"Do it anyway? [y/N] ")
	line, err := bufio.NewReader(io.LimitReader(c.InOrStdin(), maxReply)).ReadString('\n')
	if err != nil && err != io.EOF {
		return fmt.Errorf("reading the reply: %w", err)
	}
	if reply := strings.ToLower(strings.TrimSpace(line)); reply != "y" && reply != "yes" {
		return errors.New("nothing was changed")
	}

	return nil
}

// maxReply is how many bytes of a reply are read.
const maxReply = 1000

// where describes which enforcers have applied the change already, and adds the enforcer's remarks.
func (a *orderAnswer) where(at string) string {
	text := "Applied by the enforcer at " + at
	if a.InForce.Followers > 0 {
		text += " and its " + output.Counted(a.InForce.Followers, "follower")
	}

	if a.InForce.Kafka {
		text += ". The topics have it, so all other enforcers apply it too.\n"
	} else {
		text += ". The topics do not have it yet; other enforcers apply it when the topics have it.\n"
	}

	if len(a.Affects) > 0 {
		text += "It affects " + output.Printable(strings.Join(a.Affects, "; ")) + ".\n"
	}
	if a.Note != "" {
		text += "Note: " + output.Printable(a.Note) + ".\n"
	}

	return text
}

const (
	blocksPath = "/v1/blocks"
	allowsPath = "/v1/allows"
	pausePath  = "/v1/pause"
)

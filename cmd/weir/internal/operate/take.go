package operate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
)

// A takeCommand contains the flags of `weir take`.
type takeCommand struct {
	enforcer ask.Flags
	cost     int64
	output   command.Output
}

func newTake() *cobra.Command {
	t := &takeCommand{}
	c := &cobra.Command{
		Use:   "take [flags] RULE FIELD=VALUE…",
		Short: "Make an attempt at the limits of an inline rule",
		Long: `Take asks an enforcer whether a rule with inline: true admits one more request of these fields, and counts it if so. Give
the fields of the rule's key. With --cost 0 nothing is counted: the answer is how many remain.

The exit code is 0 when the attempt is admitted, and 3 when it is one too many.`,
		Example: `  weir take quota user=alice
  weir take sign-in ip=203.0.113.7 path=/login --json
  weir take tokens user=alice --cost 800 && ./ask-the-model`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Wrongf("%s needs the name of a rule; for example: %s", c.Name(), command.Example(c))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return t.run(c, args[0], args[1:]) },
	}
	t.enforcer.Add(c)
	c.Flags().Int64Var(&t.cost, "cost", 0, "the attempt costs `N`; without it, what the rule says")
	t.output.Add(c, "text", "json")
	return c
}

// A takeBody is the body of a request.
type takeBody struct {
	Rule   string            `json:"rule"`
	Fields map[string]string `json:"fields"`
	Cost   *int64            `json:"cost,omitempty"`
}

// A takeAnswer is the enforcer's answer.
type takeAnswer struct {
	Admitted  bool       `json:"admitted"`
	Attempt   string     `json:"attempt"`
	Limit     string     `json:"limit"`
	Remaining int64      `json:"remaining"`
	Again     *time.Time `json:"again"`
	Shadow    bool       `json:"shadow"`
	Allowed   bool       `json:"allowed"`
	Store     string     `json:"store"` // ok, or the answer of the rule where it did not answer
}

func (t *takeCommand) run(c *cobra.Command, rule string, fields []string) error {
	body := takeBody{Rule: rule, Fields: map[string]string{}}
	for _, field := range fields {
		name, value, ok := strings.Cut(field, "=")
		if _, twice := body.Fields[name]; !ok || name == "" || twice {
			return exit.Wrongf("%q is no field with its value, or is given twice; write each as user=alice", field)
		}
		body.Fields[name] = value
	}
	if c.Flags().Changed("cost") {
		body.Cost = &t.cost
	}

	enforcer, err := t.enforcer.Connect()
	if err != nil {
		return err
	}
	defer enforcer.Close()
	var answer takeAnswer
	raw, err := enforcer.Ask(c.Context(), http.MethodPost, "/v1/take", nil, &body, &answer)
	if no := (*ask.RefusedError)(nil); errors.As(err, &no) && no.Attempt != nil {
		raw, err = no.Attempt, json.Unmarshal(no.Attempt, &answer)
	}
	if err != nil {
		return err
	}

	if t.output.Form == "json" {
		err = output.JSON(c.OutOrStdout()).Encode(raw)
	} else if answer.Admitted {
		_, err = io.WriteString(c.OutOrStdout(), answer.text(rule))
	}
	if err != nil || answer.Admitted {
		return err
	}
	return exit.Unmetf("%s", answer.refusal(rule, time.Now(), shown.NewTimes(c.ErrOrStderr(), time.Now())))
}

// text describes an attempt that is admitted.
func (a *takeAnswer) text(rule string) string {
	switch {
	case a.Limit == "" && a.Store == "allow":
		return fmt.Sprintf("Admitted: the store of inline rules did not answer, and %s allows then. Nothing was counted.\n", rule)
	case a.Limit == "":
		return fmt.Sprintf("Admitted: %s leaves it alone.\n", rule)
	case a.Shadow:
		return fmt.Sprintf("Admitted: %s is in shadow mode or paused; %s would refuse it.\n", rule, output.Printable(a.Limit))
	}
	text := fmt.Sprintf("Admitted: %d of %s remain.\n", a.Remaining, output.Printable(a.Limit))
	if a.Attempt != "" {
		text += "Attempt " + output.Printable(a.Attempt) + "\n"
	}
	return text
}

// refusal describes an attempt that is one too many.
func (a *takeAnswer) refusal(rule string, now time.Time, times shown.Times) string {
	text := fmt.Sprintf("one too many: %d of %s remain for %s", a.Remaining, output.Printable(a.Limit), rule)
	if a.Again == nil && strings.HasSuffix(a.Limit, " queued") {
		return text + ", and it is not known when the queue has room"
	}
	if a.Again == nil {
		return text + ", and the attempt costs more than the limit ever allows"
	}
	return text + fmt.Sprintf("; it is admitted at %s, in %s", times.Zone(times.At(a.Again.Truncate(time.Second).UnixMilli())), max(0, a.Again.Sub(now)).Round(time.Second))
}

package backtest

import (
	"strings"
	"testing"
)

func TestConditions(t *testing.T) {
	report := &Report{ReadReport: ReadReport{Requests: 1000, Unread: map[string]int64{"time": 3, "format": 7}}, Refused: 12, Rules: []RuleReport{
		{Mode: modeEnforce, Keys: 50, Blocked: make([]Blocked, 2)},
		{Mode: modeEnforce, Keys: 30, Blocked: make([]Blocked, 1)},
		{Mode: "shadow", Keys: 900, Blocked: make([]Blocked, 90)},
	}}
	for text, holds := range map[string]bool{
		"refused > 1%":                           true,
		"refused>1.2%":                           false,
		"refused >= 1.2 %":                       true,
		"refused == 12":                          true,
		"refused != 12":                          false,
		"refused < 12.5":                         true,
		"blocked > 2":                            true,
		"blocked > 3":                            false,
		"blocked <= 3.75%":                       true, // of 80 keys
		"blocked < 3.75%":                        false,
		"requests < 1000":                        false,
		"keys == 80":                             true,
		"unread >= 10":                           true,
		"unread > 0.99%":                         true, // of 1,010 lines
		"unread >= 1%":                           false,
		"blocked > 99 or unread > 1":             true,
		"blocked > 99 and unread > 1":            false,
		"blocked > 99 and unread > 1 or keys>79": true,
		"keys > 79||blocked > 99&&unread > 99":   true,
	} {
		c, err := ParseCondition(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := c.judge(report); got.Holds != holds || got.Condition != text {
			t.Errorf("%s: %+v, want %v", text, got, holds)
		}
	}
	c, _ := ParseCondition("refused > 1% or unread > 20 or refused > 10 or keys > 99")
	if got := c.judge(report).Found; got != "refused is 12 of 1,000 requests (1.2%), unread is 10 of 1,010 lines (0.99%), keys is 80" {
		t.Error(got)
	}
	if (Condition{}).judge(report) != nil {
		t.Error("the zero condition is judged")
	}
}

func TestConditionErrorsNameTheExpectedWords(t *testing.T) {
	for text, wanted := range map[string]string{
		"":                           `"" found where a figure is expected`,
		"refusd > 1":                 `"refusd" found where a figure`,
		"refused":                    `"" found where an operator`,
		"refused 1":                  `"1" found where an operator`,
		"refused => 1":               `"=>" found where an operator`,
		"refused > many":             `"many" found where a number`,
		"refused > -1":               `"-1" found where a number`,
		"refused > 1e9":              `"1e9" found where a number`,
		"refused > %":                `"%" found where a number`,
		"refused > 1/3":              `"1/3" found where a number`,
		"keys > 1%":                  "keys cannot be compared with a percentage",
		"refused > 1 unread > 1":     `"unread" found where and, or or the end`,
		"refused > 1 and":            `"" found where a figure`,
		"refused > 1 and or":         `"or" found where a figure`,
		"refused > 1 or unread > 1x": `"1x" found where a number`,
	} {
		if _, err := ParseCondition(text); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%q: %v, want %s", text, err, wanted)
		}
	}
}

package notify

import (
	"context"
	"strings"
)

// A Chat posts messages to an incoming webhook of Slack or Mattermost.
type Chat struct {
	Server
	Mattermost bool
}

// Kind implements Target.
func (c *Chat) Kind() string {
	if c.Mattermost {
		return "mattermost"
	}
	return "slack"
}

// chatEvents is how many events a message of a chat lists.
const chatEvents = 20

func (*Chat) shape() shape { return shape{events: chatEvents} }

// Send implements Target.
func (c *Chat) Send(ctx context.Context, m *Message) (string, error) {
	body := encode(struct {
		Text string `json:"text"`
	}{c.text(m)})
	return c.post(ctx, "", "application/json", m.ID, body)
}

// text returns a message in the markup of the chat.
func (c *Chat) text(m *Message) string {
	bold := "*"
	if c.Mattermost {
		bold = "**"
	}
	var b strings.Builder
	b.WriteString(bold + "Weir, " + m.Severity + ":" + bold + " " + code(m.Title()))
	for _, line := range m.lines(chatEvents, code) {
		b.WriteString("\n• " + line)
	}
	return b.String()
}

// escapes are those that Slack requires. Mattermost reads <!channel> as Slack does, and may show an escape as it is.
var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "`", "'")

// code returns a text as code, in which neither chat finds links, names of people or markup.
func code(text string) string { return "`" + escapes.Replace(text) + "`" }

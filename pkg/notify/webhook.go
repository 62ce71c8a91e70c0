package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"time"

	"weir/pkg/blocklist"
)

// A Webhook posts messages as JSON, or as a template makes them.
type Webhook struct {
	Server
	Template    *Template // nil is the documented JSON
	ContentType string    // of the template's result
}

// Kind implements Target.
func (*Webhook) Kind() string { return "webhook" }

func (*Webhook) shape() shape { return shape{events: 100, split: true} }

// Send implements Target.
func (w *Webhook) Send(ctx context.Context, m *Message) (string, error) {
	if w.Template == nil {
		return w.post(ctx, "", "application/json", m.ID, webhookBody(m))
	}
	body, err := w.Template.execute(m, w.ContentType)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errRefused, err)
	}
	return w.post(ctx, "", w.ContentType, m.ID, body)
}

// webhookVersion is the version of the webhook's form. It grows when a member changes its meaning.
const webhookVersion = 1

// webhookBody returns a message as JSON.
func webhookBody(m *Message) []byte {
	type counted struct {
		Rule    string `json:"rule"`
		Event   string `json:"event"`
		Guarded bool   `json:"guarded,omitempty"`
		By      string `json:"guarded_by,omitempty"`
		Shadow  bool   `json:"shadow,omitempty"`
		Count   int    `json:"count"`
	}
	body := struct {
		Version  int               `json:"v"`
		ID       string            `json:"id"`
		Receiver string            `json:"receiver"`
		Severity string            `json:"severity"`
		Time     time.Time         `json:"time"`
		Title    string            `json:"title"`
		Test     bool              `json:"test,omitempty"`
		Reason   string            `json:"reason,omitempty"`
		Counts   []counted         `json:"counts"`
		Events   []json.RawMessage `json:"events"`
	}{webhookVersion, m.ID, m.Receiver, m.Severity, m.Time.UTC(), m.Title(), m.Test, m.Reason, []counted{}, []json.RawMessage{}}
	for of, n := range m.Counts {
		one := counted{Rule: of.Rule, Event: of.Event, Guarded: of.Guarded, Shadow: of.Shadow, Count: n}
		if of.Guarded {
			one.By = blocklist.GuardedBy(of.ByShare)
		}
		body.Counts = append(body.Counts, one)
	}
	for _, e := range m.Events {
		body.Events = append(body.Events, fmt.Appendf(nil, `{"event_id":"%s",%s`, e.EventID, bytes.TrimSpace(e.Raw)[1:]))
	}
	return encode(body)
}

// encode writes JSON. All that is given to it can be encoded: the events were parsed before.
func encode(body any) []byte {
	text, err := json.Marshal(body)
	if err != nil {
		return []byte("{}")
	}
	return text
}

// A Template makes the body of a webhook.
type Template struct{ parsed *template.Template }

// The bounds of a template's text and of its result.
const (
	maxTemplate = 64 << 10
	maxBody     = 1 << 20
)

// ParseTemplate reads a template and tries it on a message.
func ParseTemplate(text, contentType string) (*Template, error) {
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("the template has %d bytes, at most %d are allowed", len(text), maxTemplate)
	}
	parsed, err := template.New("template").Option("missingkey=error").Funcs(template.FuncMap{"json": toJSON}).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the template cannot be read: %w", err)
	}
	t := &Template{parsed}
	for _, m := range samples() {
		if _, err := t.execute(m, contentType); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// samples are messages of each sort: a template has to make a body of all.
func samples() []*Message {
	e := &Event{Event: blocklist.EventBlocked, At: time.UnixMilli(0), EventID: "00", Entry: blocklist.Entry{ID: "0", Rule: "per-ip",
		Key: "key \"'<&>\\ {", Fields: map[string]string{"ip": "203.0.113.7"}, Until: 1, Limit: "10/min", Count: 11, Level: 1, By: "weir"}}
	r := &Receiver{Name: "sample", Severity: "warning"}
	one := r.message("per-ip", []*Event{e, e}, &round{})
	return []*Message{one, TestMessage(r, time.UnixMilli(0)), r.sum(&round{}, one.Counts, reasonMany)}
}

// text is a text in a template: printed, it has the escapes of a JSON string, so that no key can leave its quotes.
type text string

func (t text) String() string {
	quoted := string(encode(string(t)))
	return quoted[1 : len(quoted)-1]
}

// MarshalJSON is for the function json, which quotes by itself.
func (t text) MarshalJSON() ([]byte, error) { return json.Marshal(string(t)) }

func toJSON(value any) (string, error) {
	b, err := json.Marshal(value)
	return string(b), err
}

// A shownMessage and a shownEvent are what templates see.
type shownMessage struct {
	ID, Receiver, Severity, Title, Reason, Rule text
	Test                                        bool
	Time                                        time.Time
	Count, More                                 int
	Events                                      []shownEvent
	Lines                                       []text
}

type shownEvent struct {
	EventID, Event, ID, Rule, Key, Limit, Mode, Source, Order, By, Why, Line text
	Fields                                                                   map[string]text
	At, From, Until                                                          time.Time
	Count                                                                    int64
	Level                                                                    int
}

func unquoted(s string) string { return s }

func show(m *Message) *shownMessage {
	s := &shownMessage{ID: text(m.ID), Receiver: text(m.Receiver), Severity: text(m.Severity), Title: text(m.Title()), Reason: text(m.Reason), Rule: text(m.Rule),
		Test: m.Test, Time: m.Time.UTC(), Count: m.Counts.Sum(), More: m.More()}
	for _, line := range m.lines(len(m.Events), unquoted) {
		s.Lines = append(s.Lines, text(line))
	}
	for _, e := range m.Events {
		order := ""
		if e.Source == blocklist.Manual {
			order = e.Order.String()
		}
		fields := map[string]text{}
		for name, value := range e.Fields {
			fields[name] = text(value)
		}
		s.Events = append(s.Events, shownEvent{EventID: text(e.EventID), Event: text(e.Event), ID: text(e.ID), Rule: text(e.Rule), Key: text(e.Key), Limit: text(e.Limit),
			Mode: text(e.Mode.String()), Source: text(e.Source.String()), Order: text(order), By: text(e.By), Why: text(e.Why), Line: text(e.line(unquoted)), Fields: fields,
			At: e.At.UTC(), From: time.UnixMilli(e.From).UTC(), Until: time.UnixMilli(e.Until).UTC(), Count: e.Count, Level: e.Level})
	}
	return s
}

var errBody = fmt.Errorf("the template's result has more than %d bytes", maxBody)

// bounded is a buffer that ends a template that writes too much.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxBody {
		return 0, errBody
	}
	return b.Buffer.Write(p)
}

func (t *Template) execute(m *Message, contentType string) ([]byte, error) {
	var body bounded
	if err := t.parsed.Execute(&body, show(m)); err != nil {
		return nil, fmt.Errorf("the template fails: %w", err)
	}
	if strings.HasPrefix(contentType, "application/json") && !json.Valid(body.Bytes()) {
		return nil, errors.New("the template's result is not JSON")
	}
	return body.Bytes(), nil
}

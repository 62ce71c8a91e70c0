package notify

import (
	"context"
	"time"

	"weir/pkg/blocklist"
)

// PagerDuty triggers and resolves incidents by PagerDuty's Events API v2.
type PagerDuty struct {
	Server
	RoutingKeyFile string
}

// PagerDutyURL is where PagerDuty takes events.
const PagerDutyURL = "https://events.pagerduty.com/v2/enqueue"

// Kind implements Target.
func (*PagerDuty) Kind() string { return "pagerduty" }

func (*PagerDuty) shape() shape { return shape{perEvent: true, events: 1} }

type pagerEvent struct {
	RoutingKey string        `json:"routing_key"`
	Action     string        `json:"event_action"`
	DedupKey   string        `json:"dedup_key"`
	Client     string        `json:"client,omitempty"`
	Payload    *pagerPayload `json:"payload,omitempty"`
}

type pagerPayload struct {
	Summary   string    `json:"summary"`
	Source    string    `json:"source"`
	Severity  string    `json:"severity"`
	Timestamp time.Time `json:"timestamp"`
	Component string    `json:"component,omitempty"`
	Class     string    `json:"class,omitempty"`
	Details   any       `json:"custom_details,omitempty"`
}

// Send implements Target.
func (p *PagerDuty) Send(ctx context.Context, m *Message) (string, error) {
	key, err := secret(p.RoutingKeyFile)
	if err != nil {
		return "", err
	}
	return p.post(ctx, "", "application/json", m.ID, encode(pagerDuty(m, key)), key)
}

// longestSummary is in bytes. PagerDuty allows 1,024 characters.
const longestSummary = 1000

func pagerDuty(m *Message, routingKey string) *pagerEvent {
	body := &pagerEvent{RoutingKey: routingKey, Action: "trigger", DedupKey: m.ID, Client: "Weir"}
	summary, details := m.Title(), any(nil)
	if len(m.Events) > 0 {
		e := m.Events[0]
		body.DedupKey, summary = e.ID, e.Rule+": "+e.line(unquoted)
		details = jsonText(e.Raw)
	} else if m.Reason != "" {
		details = map[string]any{"reason": m.Reason, "counts": m.Counts.lines(maxCounts, unquoted)}
	}
	if m.resolve {
		body.Action = "resolve"
		return body
	}

	body.Payload = &pagerPayload{Summary: cut(summary, longestSummary), Source: "weir", Severity: m.Severity, Timestamp: m.Time.UTC(), Component: m.Rule, Details: details}
	if len(m.Events) > 0 {
		body.Payload.Timestamp, body.Payload.Class = m.Events[0].At.UTC(), m.Events[0].Event
	}
	return body
}

// cut shortens a text to so many bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xC0 == 0x80 {
		most--
	}
	return text[:most] + "…"
}

// An Alertmanager gets alerts by its API v2. An entry is an alert that ends with it.
type Alertmanager struct{ Server }

// Kind implements Target.
func (*Alertmanager) Kind() string { return "alertmanager" }

func (*Alertmanager) shape() shape { return shape{state: true, events: maxKept, split: true} }

type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

// Send implements Target.
func (a *Alertmanager) Send(ctx context.Context, m *Message) (string, error) {
	return a.post(ctx, "api/v2/alerts", "application/json", m.ID, encode(alerts(m)))
}

// testLasts is how long the alert of a test lasts.
const testLasts = time.Minute

func alerts(m *Message) []alert {
	if m.Test {
		return []alert{{Labels: map[string]string{"alertname": "WeirTest", "severity": m.Severity}, Annotations: map[string]string{"summary": m.Title()},
			StartsAt: m.Time.UTC(), EndsAt: m.Time.Add(testLasts).UTC()}}
	}

	var all []alert
	for _, e := range m.Events {
		a := alert{StartsAt: time.UnixMilli(e.From).UTC(), EndsAt: time.UnixMilli(min(e.Until, farFuture)).UTC()}
		if e.over() {
			a.EndsAt = e.At.UTC()
		}
		if e.Ended != 0 {
			a.EndsAt = time.UnixMilli(e.Ended).UTC()
		}
		if a.EndsAt.Before(a.StartsAt) {
			a.StartsAt = a.EndsAt // Alertmanager refuses an alert that ends before it starts
		}

		a.Labels = map[string]string{"alertname": "WeirBlocked", "rule": e.Rule, "key": e.Key, "mode": e.Mode.String(), "severity": m.Severity}
		if e.Source == blocklist.Manual {
			a.Labels["alertname"], a.Labels["order"] = "WeirOrdered", e.Order.String()
		}
		a.Annotations = map[string]string{"summary": e.line(unquoted), "id": e.ID, "limit": e.Limit, "by": e.By, "why": plain(e.Why)}
		all = append(all, a)
	}
	return all
}

// farFuture is the last second of the year 9999, which RFC 3339 can still write.
const farFuture = 253402300799_000

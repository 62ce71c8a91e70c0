package enforcer

import (
	"strings"

	"weir/pkg/inline"
	"weir/pkg/request"
	"weir/pkg/rule"
)

const (
	mostQueueFields   = 32
	longestQueueField = 1024 // bytes
)

// isKnown reports whether it is known when an attempt is admitted.
func isKnown(again int64) bool { return again < inline.NotKnown }

// note notes what an attempt was about: for the history, and for the queues of its rules.
func (a *asking) note() {
	q, t := a.judge.Masked(&a.request), &a.attempt
	if q != &a.request {
		q.User, q.Path, q.Query, q.Agent = strings.Clone(q.User), strings.Clone(q.Path), strings.Clone(q.Query), strings.Clone(q.Agent)
	}
	t.about.add(q)
	for j := range t.wants {
		if w := &t.wants[j]; w.Rule.Queue != nil && w.Fields == nil {
			w.Fields = queueFields(q, a.ruling.Rules)
		}
	}
}

// queueFields are the fields of a request for an entry of a queue, without its query.
func queueFields(q *request.Request, rules *rule.Set) (all []string) {
	add := func(name, value string) {
		if value != "" && len(all) < 2*mostQueueFields && len(name)+len(value) <= longestQueueField {
			all = append(all, "field."+name, value)
		}
	}
	if q.IP.IsValid() {
		add("ip", q.IP.String())
	}
	add("user", q.User)
	add("method", q.Method)
	add("host", q.Host)
	add("path", q.Path)
	for i := range q.Fields {
		add(q.Fields[i].Name, rules.HiddenValue(q.Fields[i].Name, q.Fields[i].Value))
	}
	return all
}

package enforcer

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// LimitHeaders selects the fields besides Retry-After with which a refused client learns the limit that it broke.
type LimitHeaders uint8

// The fields: those of the IETF's draft, the older X-RateLimit-*, both, or none.
const (
	BothLimitHeaders LimitHeaders = iota
	DraftLimitHeaders
	LegacyLimitHeaders
	NoLimitHeaders
)

const (
	// markField is the field of an answer with its result for logs, where it is called weir. For a refused request it
	// begins with the word refused: collectors detect by it requests that were not served.
	markField = "X-Weir"

	markRefused     = "refused "
	markShadow      = "shadow "
	markPaused      = "paused"
	markAllowed     = "allowed"
	markWithoutList = "without list"
)

// longest is the longest Retry-After: a year.
const longest = 365 * 24 * time.Hour

// A policy is a limit of a rule in the draft's form: the rule and the limit are its name.
type policy struct {
	limit string // 10/min
	name  string // per-ip 10/min
	field string // "per-ip 10/min";q=10;w=60
	short string // "per-ip 10/min"
	quota []string
}

func newPolicy(ruleName string, l rule.Limit) policy {
	p := policy{limit: l.Text, name: ruleName + " " + l.Text, quota: []string{strconv.FormatInt(l.Hits, 10)}}
	p.short = quoted(p.name)
	p.field = p.short + ";q=" + p.quota[0]
	switch seconds := int64(l.Per / time.Second); {
	case l.AtOnce:
		p.field += `;qu="concurrent-requests"`
	case l.Per%time.Second == 0 && seconds > 0:
		p.field += ";w=" + strconv.FormatInt(seconds, 10)
	}
	return p
}

// quoted returns a text as a string of a structured field, without characters that are not allowed there.
func quoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c > '~':
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			fallthrough
		default:
			b.WriteByte(c)
		}
	}

	b.WriteByte('"')
	return b.String()
}

// fieldOf is the value of RateLimit-Policy.
func fieldOf(all []policy) []string {
	fields := make([]string, len(all))
	for i := range all {
		fields[i] = all[i].field
	}
	return []string{strings.Join(fields, ", ")}
}

// policies returns those of a rule's limits, and the broken one.
func policies(r *rule.Rule, e *blocklist.Entry) (all []policy, broken *policy) {
	if r != nil {
		for _, l := range r.Limits {
			all = append(all, newPolicy(r.Name, l))
		}
	}

	for i := range all {
		if all[i].name == e.Rule+" "+e.Limit {
			return all, &all[i]
		}
	}

	// The rule has changed since the block, or is not here: the entry's own limit is all that is known.
	l, err := rule.ParseLimit(e.Limit) // it was valid when it was broken
	if err != nil {
		return nil, nil
	}

	all = []policy{newPolicy(e.Rule, l)}
	return all, &all[0]
}

// A refusalBody explains a refusal to a client, in the draft's problem type.
type refusalBody struct {
	problem
	Violated []string `json:"violated-policies,omitempty"`
}

const abnormalUsage = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"

// refuse answers that a request is refused because of an entry.
func (e *Enforcer) refuse(w http.ResponseWriter, status int, entry *blocklist.Entry, r *rule.Rule, now int64) {
	seconds := strconv.FormatInt(secondsUntil(entry.Until, now), 10)
	header := w.Header()
	header.Set("Retry-After", seconds)
	body := refusalBody{problem: problem{Type: abnormalUsage, Title: "Abnormal Usage Detected", Status: status, Detail: "Requests are refused for the next " + seconds + " seconds."}}
	if all, broken := policies(r, entry); broken != nil {
		body.Violated = []string{broken.name}
		e.limitHeaders(header, fieldOf(all), broken, 0, seconds)
	}
	writeAs(w, status, "application/problem+json", body)
}

// limitHeaders sets the fields that describe a rule's limits, which all are, and what remains of one; seconds is when there
// is more, empty where enough remains. Answers share the fields that stay the same.
func (e *Enforcer) limitHeaders(header http.Header, all []string, of *policy, remaining int64, seconds string) {
	line := make([]byte, 0, 128)
	line = append(append(line, of.short...), ";r="...)
	start := len(line)
	line = strconv.AppendInt(line, remaining, 10)
	end := len(line)
	if seconds != "" {
		line = append(append(line, ";t="...), seconds...)
	}
	text := string(line)
	values := &[...]string{text, text[start:end], seconds}

	if which := e.config.LimitHeaders; which == BothLimitHeaders || which == DraftLimitHeaders {
		header["RateLimit-Policy"] = all
		header["RateLimit"] = values[:1:1]
	}
	if which := e.config.LimitHeaders; which == BothLimitHeaders || which == LegacyLimitHeaders {
		header["X-RateLimit-Limit"] = of.quota
		header["X-RateLimit-Remaining"] = values[1:2:2]
		if seconds != "" {
			header["X-RateLimit-Reset"] = values[2:]
		}
	}
}

// secondsUntil returns how many seconds there are until an instant, at least one.
func secondsUntil(until, now int64) int64 {
	if until-now > longest.Milliseconds() {
		return int64(longest / time.Second)
	}
	return max(1, (until-now+999)/1000)
}

// Package attempts has the records of attempts at inline rules: one line of JSON for each attempt, with all its rules, and
// one for each settlement. docs/attempts.md documents their members.
//
// Append writes a record and Parse reads it. A line begins with {"weir":"attempt", or {"weir":"settlement", which no log
// of a server does. Nothing here does I/O, reads a clock or keeps state, except Repeats.
package attempts

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The kinds of records.
const (
	Attempt    = "attempt"
	Settlement = "settlement"
)

// The verdicts of a rule on an attempt.
const (
	Admitted = "admitted" // and counted, unless its cost is 0
	Refused  = "refused"
	Shadow   = "shadow" // the rule would have refused it if it enforced
	Paused   = "paused" // the rule would have refused it if it were not paused
	Other    = "other"  // the rule would have admitted it, but another rule refused it: it did not count
	Known    = "known"  // it has counted before: an edge asked twice about one request
	Failed   = "failed" // the shared store failed, and the rule's on_error decided: nothing was counted
)

// A Record is an attempt, or the settlement of one.
type Record struct {
	Kind     string  `json:"weir"`
	Time     Instant `json:"time"`              // by the clock that decided
	Attempt  string  `json:"attempt,omitempty"` // the id to settle it by; empty where nothing was counted
	Admitted bool    `json:"admitted,omitempty"`
	Takes    []Take  `json:"rules,omitempty"`
	Store    string  `json:"store,omitempty"` // allow, refuse or local, where the shared store failed; else empty

	// The request, as far as it is known.
	IP     string `json:"ip,omitempty"`
	User   string `json:"user,omitempty"`
	Method string `json:"method,omitempty"`
	Host   string `json:"host,omitempty"`
	Path   string `json:"path,omitempty"` // with its query, without the query's values
	Agent  string `json:"agent,omitempty"`

	// Of a settlement: the rule, or all without one, and what the attempt has cost there.
	Rule string `json:"rule,omitempty"`
	Cost int64  `json:"cost,omitempty"`
	// Ended is of a settlement without a cost: the attempt keeps its own.
	Ended bool `json:"ended,omitempty"`

	// From names the counts that decided, those of one enforcer from its start on. Order is the place of the decision among
	// theirs. Sequence grows from record to record of a partition: a record that is written twice has the same.
	From     string `json:"from"`
	Order    uint64 `json:"order"`
	Sequence uint64 `json:"sequence"`
}

// A Take is what one rule has decided.
type Take struct {
	Rule      string  `json:"rule"`
	Key       string  `json:"key"`
	Cost      int64   `json:"cost"`
	Verdict   string  `json:"verdict"`
	Limit     string  `json:"limit"`
	Remaining int64   `json:"remaining"`
	Again     Instant `json:"again,omitempty"` // when another of this cost is admitted; 0 is never
}

// An Instant is a time in Unix milliseconds, in JSON with three digits behind the seconds.
type Instant int64

const layout = "2006-01-02T15:04:05.000Z07:00"

// AppendText appends the instant.
func (i Instant) AppendText(b []byte) ([]byte, error) {
	return time.UnixMilli(int64(i)).UTC().AppendFormat(b, layout), nil
}

// MarshalText is AppendText to nothing.
func (i Instant) MarshalText() ([]byte, error) { return i.AppendText(nil) }

// UnmarshalText reads what AppendText writes.
func (i *Instant) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.RFC3339, string(text))
	*i = Instant(at.UnixMilli())
	return err
}

// Append appends the record as JSON, without a line break and without its sequence and the brace behind it:
// AppendSequence ends it.
func (r *Record) Append(b []byte) []byte {
	b = append(append(append(b, `{"weir":"`...), r.Kind...), `","time":`...)
	b = appendInstant(b, r.Time)
	b = appendText(b, "attempt", r.Attempt)
	if r.Kind == Settlement {
		b = appendText(b, "rule", r.Rule)
		if r.Ended {
			b = append(b, `,"ended":true`...)
		} else {
			b = strconv.AppendInt(append(b, `,"cost":`...), r.Cost, 10)
		}
	} else {
		b = strconv.AppendBool(append(b, `,"admitted":`...), r.Admitted)
		b = append(b, `,"rules":[`...)
		for i := range r.Takes {
			if i > 0 {
				b = append(b, ',')
			}
			b = r.Takes[i].append(b)
		}
		b = appendText(append(b, ']'), "store", r.Store)
	}

	for _, field := range [...]struct{ name, text string }{{"ip", r.IP}, {"user", r.User}, {"method", r.Method}, {"host", r.Host}, {"path", r.Path}, {"agent", r.Agent}} {
		b = appendText(b, field.name, field.text)
	}
	b = appendText(b, "from", r.From)
	return strconv.AppendUint(append(b, `,"order":`...), r.Order, 10)
}

// AppendSequence ends a record that Append began.
func AppendSequence(b []byte, sequence uint64) []byte {
	return append(strconv.AppendUint(append(b, `,"sequence":`...), sequence, 10), '}')
}

func (t *Take) append(b []byte) []byte {
	b = appendQuoted(append(b, `{"rule":`...), t.Rule)
	b = appendQuoted(append(b, `,"key":`...), t.Key)
	b = strconv.AppendInt(append(b, `,"cost":`...), t.Cost, 10)
	b = appendQuoted(append(b, `,"verdict":`...), t.Verdict)
	b = appendQuoted(append(b, `,"limit":`...), t.Limit)
	b = strconv.AppendInt(append(b, `,"remaining":`...), t.Remaining, 10)
	if t.Again != 0 {
		b = appendInstant(append(b, `,"again":`...), t.Again)
	}
	return append(b, '}')
}

func appendInstant(b []byte, at Instant) []byte {
	b, _ = at.AppendText(append(b, '"'))
	return append(b, '"')
}

// appendText appends a member that is not empty.
func appendText(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	return appendQuoted(b, text)
}

const hex = "0123456789abcdef"

// appendQuoted appends a text as JSON. Bytes that are no UTF-8 become the replacement character.
func appendQuoted(b []byte, text string) []byte {
	b = append(b, '"')
	for _, char := range text {
		switch {
		case char == '"' || char == '\\':
			b = append(b, '\\', byte(char))
		case char < ' ' || char == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[char>>4], hex[char&0xf])
		default:
			b = utf8.AppendRune(b, char)
		}
	}
	return append(b, '"')
}

// Is reports whether a line is a record, by how it begins.
func Is(line string) bool {
	rest, ours := strings.CutPrefix(line, `{"weir":"`)
	return ours && (strings.HasPrefix(rest, Attempt+`","time":"`) || strings.HasPrefix(rest, Settlement+`","time":"`))
}

var errForeign = errors.New("it is no record of an attempt")

// Parse reads a record.
func Parse(line []byte, r *Record) error {
	*r = Record{Takes: r.Takes[:0]}
	if !Is(string(line[:min(len(line), 64)])) {
		return errForeign
	}
	if err := json.Unmarshal(line, r); err != nil {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	ours := r.Kind == Attempt && len(r.Takes) > 0 || r.Kind == Settlement && r.Attempt != ""
	if !ours || r.Time <= 0 {
		return errForeign
	}
	return nil
}

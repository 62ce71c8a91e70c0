package enforcer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"weir/internal/duration"
	"weir/internal/nearest"
	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// maxBody bounds the bodies of requests.
const maxBody = 64 << 10

// An orderRequest is a person's request, in a body or in a query.
type orderRequest struct {
	Target string `json:"target"`
	Rule   string `json:"rule"`
	For    string `json:"for"`
	Until  string `json:"until"`
	Why    string `json:"why"`
	// Confirm confirms an order that affects more than narrow ones do.
	Confirm bool `json:"confirm"`

	// Targets is a list in place of one target. End ends their manual entries, and Preview only answers what would happen.
	Targets []string `json:"targets"`
	End     bool     `json:"end"`
	Preview bool     `json:"preview"`

	key, allow string // only in a query
}

// readJSON reads a body of one object. It refuses unknown members, so that a slip does not become another request, and
// members that are given twice: a program that puts its JSON together from texts may have the second one from a client.
func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := readJSONUpTo(maxBody, w, r, into)
	if err != nil {
		return err
	}
	name, err := givenTwice(json.NewDecoder(bytes.NewReader(body)))
	if name != "" {
		err = fmt.Errorf("%s is there twice", name)
	}
	return err
}

// givenTwice returns the name of a member that the next value or an object in it has twice, in any case of letters.
func givenTwice(d *json.Decoder) (name string, err error) {
	begin, err := d.Token()
	if err != nil || begin != json.Delim('{') && begin != json.Delim('[') {
		return "", err
	}

	names := map[string]bool{}
	for d.More() {
		if begin == json.Delim('{') {
			token, err := d.Token()
			if err != nil {
				return "", err
			}
			name, _ := token.(string)
			folded := strings.ToLower(strings.ToUpper(name)) // the sign for kelvin is a k for Go's decoder, too
			if names[folded] {
				return name, nil
			}
			names[folded] = true
		}
		if name, err := givenTwice(d); name != "" || err != nil {
			return name, err
		}
	}
	_, err = d.Token() // the end of the object or the list
	return "", err
}

func readJSONUpTo(most int64, w http.ResponseWriter, r *http.Request, into any) (body []byte, err error) {
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		return nil, err
	}

	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err = d.Decode(into)
	// A second object would be ignored, though it may be the one that the caller means.
	if _, end := d.Token(); err == nil && end != io.EOF {
		err = errors.New("there is more than one object")
	}
	return body, err
}

// bodyStatus returns the status for an error of readJSON.
func bodyStatus(err error) int {
	if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}

// readBody reads the body of an order.
func readBody(w http.ResponseWriter, r *http.Request, most int64) (*orderRequest, error) {
	q := &orderRequest{}
	body, err := readJSONUpTo(most, w, r, q)
	if err == nil && q.Targets == nil && len(body) > maxBody {
		err = &http.MaxBytesError{Limit: maxBody}
	}
	if err == nil {
		err = q.slips(body)
	}
	if err != nil {
		return nil, problemf(bodyStatus(err), `the body is not an order: %s; write {"target": "203.0.113.7", "for": "1h", "why": "…"}`, err)
	}
	return q, nil
}

// slips refuses the results of mistakes in scripts. An empty variable must not become an order for ever or for all
// rules, and a name that is not text must not become another name.
func (q *orderRequest) slips(body []byte) error {
	members, err := membersOf(body)
	if err != nil {
		return err
	}

	for i, one := range members {
		// null and "" are what a script sends for a variable that is not set.
		if isEmptyValue(one.value) {
			return fmt.Errorf("%s is empty: give a value, or leave it out", one.name)
		}

		// Go's decoder takes the last one, in any case of letters; another program that looked at the body may have
		// taken the first.
		if slices.ContainsFunc(members[:i], func(before member) bool { return strings.EqualFold(before.name, one.name) }) {
			return fmt.Errorf("%s is given twice: it is unclear which one is meant", one.name)
		}
	}

	if strings.ContainsRune(q.Target, utf8.RuneError) {
		return errors.New("the target is not UTF-8 text")
	}
	return nil
}

// isEmptyValue reports whether a value is neither a text nor a boolean, nor a list of texts.
func isEmptyValue(value any) bool {
	switch value := value.(type) {
	case bool:
		return false
	case string:
		return value == ""
	case []any:
		return len(value) == 0 || slices.ContainsFunc(value, func(one any) bool {
			text, _ := one.(string)
			return text == "" || strings.ContainsRune(text, utf8.RuneError)
		})
	}
	return true
}

// A member is a member of a JSON object.
type member struct {
	name  string
	value any
}

// membersOf returns the members of an object of plain values, in their order, including repeated ones. The body is
// known to be such an object.
func membersOf(body []byte) (all []member, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil { // the brace
		return nil, err
	}

	// Token by token, because a struct or a map hides members that are given twice.
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		text, _ := name.(string)
		one := member{name: text}
		if err := d.Decode(&one.value); err != nil {
			return nil, err
		}
		all = append(all, one)
	}

	return all, nil
}

// readQuery reads a query with the known parameters, each at most once.
func readQuery(r *http.Request, known ...string) (*orderRequest, error) {
	values, err := parameters(r, known)
	if err != nil {
		return nil, err
	}

	for name := range values {
		if values.Get(name) == "" {
			return nil, problemf(http.StatusBadRequest, "%s is empty: give a value, or leave it out", name)
		}
	}

	q := &orderRequest{Target: values.Get("target"), Rule: values.Get("rule"), Why: values.Get("why"), key: values.Get("key"), allow: values.Get("allow")}
	if values.Has("confirm") {
		if q.Confirm, err = strconv.ParseBool(values.Get("confirm")); err != nil {
			return nil, problemf(http.StatusBadRequest, "confirm is %q; write true, or leave it out", values.Get("confirm"))
		}
	}

	return q, nil
}

// parameters returns those of a query, each at most once. It refuses unknown ones: without its restriction a command
// would apply to everything.
func parameters(r *http.Request, known []string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, problemf(http.StatusBadRequest, "the query cannot be read: %s", err)
	}

	for name, all := range values {
		if !slices.Contains(known, name) {
			return nil, problemf(http.StatusBadRequest, "the parameter %q is not known; known here: %s", name, strings.Join(known, ", "))
		}
		if len(all) > 1 {
			return nil, problemf(http.StatusBadRequest, "the parameter %s is given twice", name)
		}
	}

	return values, nil
}

// reason returns why, which is always required.
func (q *orderRequest) reason() (string, error) {
	why := strings.TrimSpace(q.Why)
	switch {
	case why == "":
		return "", problemf(http.StatusBadRequest, "why is missing: give the reason, for the next person who looks at the list")
	case len(why) > maxWhy:
		return "", problemf(http.StatusBadRequest, "why has %d bytes; at most %d are kept", len(why), maxWhy)
	}
	return why, nil
}

// maxWhy is the room for it in the records of orders.
const maxWhy = 1024

// end returns when an order ends: without for and until it is never.
func (q *orderRequest) end(now int64) (int64, error) {
	switch {
	case q.For != "" && q.Until != "":
		return 0, problemf(http.StatusBadRequest, "give for or until, not both")
	case q.For != "":
		// People write 10m, 4h or forever.
		long, err := duration.Parse(q.For)
		if err != nil {
			return 0, problemf(http.StatusBadRequest, "%s", err)
		}
		if long < time.Millisecond {
			return 0, problemf(http.StatusBadRequest, "%q is not a duration for an order; write 1h, or forever", q.For)
		}
		if end := now + long.Milliseconds(); long < duration.Forever && end < lastEnd {
			return end, nil
		}
		return blocklist.Never, nil
	case q.Until == "":
		return blocklist.Never, nil
	}

	at, err := time.Parse(time.RFC3339, q.Until)
	if err != nil || at.UnixMilli() <= now || at.UnixMilli() >= lastEnd {
		return 0, problemf(http.StatusBadRequest, "%q is not a time in the future; write it as 2026-11-21T15:00:00Z", q.Until)
	}
	return at.UnixMilli(), nil
}

// lastEnd is the first end that does not fit into records: in the year 2109.
const lastEnd = 1 << 42

// target returns the target of an order, with the hash of a secret.
func (q *orderRequest) target(rules *rule.Set) (scope, value string, err error) {
	if q.Target == "" {
		return "", "", problemf(http.StatusBadRequest, "the target is missing: give one such as 203.0.113.7, 10.0.0.0/8 or user:alice")
	}
	scope, value, err = blocklist.ParseTarget(q.Target)
	if err != nil {
		return "", "", problemf(http.StatusBadRequest, "%s", err)
	}
	if host := rule.PlainHost(value); scope == "host" && host != value {
		return "", "", problemf(http.StatusBadRequest, "hosts are known without port and brackets: write host:%s", host)
	}
	if method := rule.PlainMethod(value); scope == "method" && method != value {
		return "", "", problemf(http.StatusBadRequest, "methods are known in upper case: write method:%s", method)
	}

	return scope, rules.HiddenValue(scope, value), nil
}

// order begins an order of a kind; the caller adds the target.
func (q *orderRequest) order(kind blocklist.Kind, by string, now int64) (*blocklist.Order, error) {
	why, err := q.reason()
	if err != nil {
		return nil, err
	}
	until, err := q.end(now)
	if err != nil {
		return nil, err
	}
	return &blocklist.Order{ID: newID(), Kind: kind, From: now, Until: until, By: by, Why: why}, nil
}

// lifted returns the order that ends another one. It has its own id, so that it is not confused with the order itself.
func lifted(o *blocklist.Order, by, why string, now int64) *blocklist.Order {
	end := *o
	end.ID = newID()
	end.Ended = max(now, o.From)
	end.By = by
	end.Why = why
	return &end
}

// ofOne returns an order for one target.
func (q *orderRequest) ofOne(kind blocklist.Kind, rules *rule.Set, by string, now int64) (*blocklist.Order, error) {
	o, err := q.order(kind, by, now)
	if err != nil {
		return nil, err
	}
	if o.Scope, o.Value, err = q.target(rules); err != nil {
		return nil, err
	}
	return o, checkOrder(o)
}

// checkOrder returns an error for an order that does not fit into its record.
func checkOrder(o *blocklist.Order) error {
	if _, err := o.Append(nil); err != nil {
		return problemf(http.StatusBadRequest, "%s", err)
	}
	return nil
}

// ofRule returns the rule of a pause.
func (e *Enforcer) ofRule(name string) (string, error) {
	if name == "" || name == blocklist.EveryRule {
		return blocklist.EveryRule, nil
	}
	rules := e.ruling.Load().Rules
	if known, _ := rules.Rule(name); known != nil {
		return name, nil
	}

	var names []string
	for _, r := range rules.Rules {
		names = append(names, r.Name)
	}

	if len(names) == 0 {
		return "", problemf(http.StatusBadRequest, "there is no rule %q here, and no other rule", name)
	}
	return "", problemf(http.StatusBadRequest, "there is no rule %q here; %s", name, nearest.Suggest(name, names, "the rules are "))
}

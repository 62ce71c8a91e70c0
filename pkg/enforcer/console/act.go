package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"weir/internal/address"
	"weir/internal/keytext"
	"weir/pkg/blocklist"
)

// An action is an order, as a form has it.
type action struct {
	Name    string // block, unblock, allow, disallow, pause, resume, confirm, endconfirm
	Target  string // a target, or of unblock a key
	Rule    string
	For     string
	Why     string
	Allow   string // of unblock: for how long the key is allowed as well
	Confirm bool   // the caller has seen what the API warns of
	Back    string // the page that it comes from
}

// verbs are the actions, and what the page of their preview is called.
var verbs = map[string]string{"block": "Block", "unblock": "Let in now", "allow": "Allow", "disallow": "End the allow of", "pause": "Pause", "resume": "Resume",
	"confirm": "Confirm the guard of", "endconfirm": "End the confirmation of"}

// An actView is the preview of an action.
type actView struct {
	action
	Token   string
	Title   string
	Subject string
	Button  string // the title, where no subject follows
	Effects []string
	Affects []string // what the API wants confirmed
	Entries []*row   // on the list, that it is about
	More    int
}

// act is a form of an action: first its preview, then the action itself.
func (c *Console) act(w http.ResponseWriter, r *http.Request) {
	v, err := c.mayAct(w, r)
	if err != nil {
		c.fail(w, r, v, err)
		return
	}
	a := &action{Target: r.PostForm.Get("target"), Confirm: r.PostForm.Get("confirm") == "yes", Back: nextOf(r.PostForm.Get("back"))}
	for name, to := range map[string]*string{"action": &a.Name, "rule": &a.Rule, "for": &a.For, "why": &a.Why, "allow": &a.Allow} {
		*to = strings.TrimSpace(r.PostForm.Get(name))
	}
	if _, known := verbs[a.Name]; !known {
		c.fail(w, r, v, problem{http.StatusBadRequest, "There is no such action."})
		return
	}
	if a.Why == "" {
		c.fail(w, r, v, problem{http.StatusBadRequest, "Give a reason, for the next person who looks at the list."})
		return
	}
	if r.PostForm.Get("step") != "do" {
		c.preview(w, r, v, a, nil)
		return
	}
	c.carryOut(w, r, v, a)
}

// carryOut sends the order to the API.
func (c *Console) carryOut(w http.ResponseWriter, r *http.Request, v *visitor, a *action) {
	method, path, query, body := a.request()
	answer := c.ask(r, v, method, path, query, body)
	switch {
	case answer.status == http.StatusPreconditionRequired:
		var warned struct{ Affects []string }
		_ = json.Unmarshal(answer.body.Bytes(), &warned)
		c.preview(w, r, v, a, append(warned.Affects, answer.detail())[:max(1, len(warned.Affects))])
		return
	case answer.status >= http.StatusMultipleChoices:
		c.fail(w, r, v, problem{answer.status, sentence(answer.detail())})
		return
	}

	var said struct {
		Note, Passes string
		Lifted       []json.RawMessage
		InForce      struct{ Kafka bool } `json:"in_force"`
	}
	_ = json.Unmarshal(answer.body.Bytes(), &said)
	text := a.done(len(said.Lifted))
	for _, more := range []string{said.Passes, said.Note} {
		if more != "" {
			text += " " + sentence(keytext.Shown(more))
		}
	}
	c.totals.forget()
	v.session.notify(text)
	http.Redirect(w, r, a.Back, http.StatusSeeOther)
}

// request is the API's form of an action.
func (a *action) request() (method, path string, query url.Values, body map[string]any) {
	switch a.Name {
	case "block", "allow":
		body = given("target", a.Target, "for", a.For, "why", a.Why)
		if a.Confirm {
			body["confirm"] = true
		}
		return http.MethodPost, "/v1/" + a.Name + "s", nil, body
	case "pause", "confirm":
		path = map[string]string{"pause": "/v1/pause", "confirm": "/v1/guard"}[a.Name]
		return http.MethodPost, path, nil, given("rule", a.Rule, "for", a.For, "why", a.Why)
	}

	query = url.Values{}
	path = "/v1/pause"
	pairs := given("rule", a.Rule, "why", a.Why)
	switch a.Name {
	case "unblock":
		path = "/v1/blocks"
		pairs = given("key", a.Target, "rule", a.Rule, "why", a.Why, "allow", a.Allow)
		if a.Confirm {
			pairs["confirm"] = "true"
		}
	case "endconfirm":
		path = "/v1/guard"
	case "disallow":
		path = "/v1/allows"
		pairs = given("target", a.Target, "why", a.Why)
	}
	for name, value := range pairs {
		query.Set(name, value.(string))
	}
	return http.MethodDelete, path, query, nil
}

// given are the pairs of names and values that are not empty.
func given(pairs ...string) map[string]any {
	all := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			all[pairs[i]] = pairs[i+1]
		}
	}
	return all
}

// subject is what an action is about, in words.
func (a *action) subject() string {
	switch {
	case !slices.Contains([]string{"pause", "resume", "confirm", "endconfirm"}, a.Name):
		return keytext.Shown(a.Target)
	case a.Rule == "" || a.Rule == blocklist.EveryRule:
		return "everything"
	}
	return "the rule " + keytext.Shown(a.Rule)
}

// lasting is how long an action lasts, in words.
func (a *action) lasting() string {
	if a.For == "" || a.For == "forever" {
		return "until somebody ends it"
	}
	return "for " + keytext.Shown(a.For)
}

// done is what an action has done, in a sentence.
func (a *action) done(lifted int) string {
	switch a.Name {
	case "block":
		return fmt.Sprintf("%s is blocked %s.", a.subject(), a.lasting())
	case "allow":
		return fmt.Sprintf("%s is let in %s.", a.subject(), a.lasting())
	case "unblock":
		text := fmt.Sprintf("%s is let in: %s ended.", a.subject(), plural(lifted, "entry"))
		if a.Allow != "" {
			text += fmt.Sprintf(" It is allowed for %s.", keytext.Shown(a.Allow))
		}
		return text
	case "disallow":
		return fmt.Sprintf("The allow of %s has ended.", a.subject())
	case "pause":
		return fmt.Sprintf("A pause of %s began, %s.", a.subject(), a.lasting())
	case "confirm":
		return fmt.Sprintf("%s is confirmed %s: what its guard held back is refused.", capital(a.subject()), a.lasting())
	case "endconfirm":
		return fmt.Sprintf("The confirmation of %s has ended.", a.subject())
	}
	return fmt.Sprintf("The pause of %s has ended.", a.subject())
}

// preview shows what an action affects. It looks, and changes nothing.
func (c *Console) preview(w http.ResponseWriter, r *http.Request, v *visitor, a *action, affects []string) {
	shown := &actView{action: *a, Token: v.Token(), Title: verbs[a.Name], Subject: a.subject(), Button: strings.TrimSuffix(verbs[a.Name], " of")}
	for _, one := range affects {
		shown.Affects = append(shown.Affects, sentence(keytext.Shown(one)))
	}
	switch a.Name {
	case "pause":
		shown.Effects = append(shown.Effects, c.pausing(a))
	case "confirm":
		shown.Effects = append(shown.Effects, c.confirming(a))
	case "endconfirm":
		shown.Effects = append(shown.Effects, "What the guard of "+a.subject()+" holds back passes again.")
	case "resume":
		shown.Effects = append(shown.Effects, sentence("What "+a.subject()+" blocks is refused again"))
	default:
		if err := c.previewKeys(r, v, shown); err != nil {
			c.fail(w, r, v, err)
			return
		}
	}
	c.render(w, r, http.StatusOK, "act", &view{Title: shown.Title + " " + shown.Subject, Visitor: v, Body: shown})
}

// pausing describes what a pause lets in.
func (c *Console) pausing(a *action) string {
	blocked := 0
	for _, one := range c.config.Set.Counts() {
		if one.Mode == blocklist.Enforce && (a.Rule == "" || a.Rule == blocklist.EveryRule || a.Rule == one.Rule) && !strings.HasPrefix(one.Rule, blocklist.ManualRule+"/") {
			blocked += one.Entries
		}
	}
	return fmt.Sprintf("%s that it blocks now pass %s.", plural(blocked, "key"), a.lasting())
}

// previewKeys adds the entries that an action is about.
func (c *Console) previewKeys(r *http.Request, v *visitor, shown *actView) error {
	answer := c.ask(r, v, http.MethodGet, "/v1/find", url.Values{"key": {shown.Target}, "limit": {"1001"}}, nil)
	if answer.status != http.StatusOK {
		return problem{answer.status, sentence(answer.detail())}
	}
	var found struct{ Entries []*blocklist.Entry }
	if err := json.Unmarshal(answer.body.Bytes(), &found); err != nil {
		return err
	}
	if shown.Rule != "" {
		found.Entries = slices.DeleteFunc(found.Entries, func(e *blocklist.Entry) bool { return e.Rule != shown.Rule })
	}

	now, counted := c.config.Now(), int64(0)
	for i, e := range found.Entries {
		counted += e.Count
		if i < maxShownEntries {
			shown.Entries = append(shown.Entries, rowOf(e, now, nil))
		}
	}
	shown.More = max(0, len(found.Entries)-maxShownEntries)
	if prefix, err := address.Parse(shown.Target); err == nil && !prefix.IsSingleIP() {
		network := address.Text(prefix)
		if strings.TrimPrefix(shown.Target, "ip:") != network {
			shown.Effects = append(shown.Effects, fmt.Sprintf("%s is taken as all of %s.", keytext.Shown(shown.Target), network))
		}
		shown.Effects = append(shown.Effects, fmt.Sprintf("%s has %s.", network, addressesIn(prefix.Addr().BitLen()-prefix.Bits())))
	}
	if shown.Name == "block" || shown.Name == "allow" {
		shown.Effects = append(shown.Effects, c.sends(r, v, shown.Target, found.Entries)...)
	}
	entries := plural(len(found.Entries), "entry")
	if len(found.Entries) > 1000 {
		entries = "More than 1,000 entries"
	}
	switch shown.Name {
	case "block":
		shown.Effects = append(shown.Effects, fmt.Sprintf("Its requests are refused %s. Already on the list: %s.", shown.lasting(), entries))
	case "unblock":
		ends := "end at once, and their counts begin"
		if len(found.Entries) == 1 {
			ends = "ends at once, and its count begins"
		}
		shown.Effects = append(shown.Effects, fmt.Sprintf("%s %s at zero. %s had counted.", entries, ends, plural(int(counted), "request")))
	case "allow":
		shown.Effects = append(shown.Effects, fmt.Sprintf("Its requests pass %s, whatever rules block. On the list now: %s.", shown.lasting(), entries))
	case "disallow":
		shown.Effects = append(shown.Effects, fmt.Sprintf("Rules apply to it again. On the list now: %s.", entries))
	}
	return nil
}

// sends says how many requests of a key count now: by the rule that counts most of them, so about how many an action
// affects. It says nothing where no rule counts any.
func (c *Console) sends(r *http.Request, v *visitor, key string, entries []*blocklist.Entry) []string {
	counts, _ := c.counts(r, v, key, entries)
	var most limitView
	var of string
	for _, one := range counts {
		for _, limit := range one.Limits {
			if limit.Count > most.Count && !blocklist.IsDifferent(limit.Limit) && !blocklist.IsShare(limit.Limit) {
				most, of = limit, one.Rule
			}
		}
	}
	if most.Count == 0 {
		return nil
	}
	return []string{fmt.Sprintf("It sends: %s count now towards %s of the rule %s.", plural(int(most.Count), "request"), keytext.Shown(most.Limit), of)}
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func addressesIn(bits int) string {
	if bits < 40 {
		return plural(1<<bits, "address")
	}
	return fmt.Sprintf("2^%d addresses", bits)
}

// notify keeps a message for the session's next page.
func (s *session) notify(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.message, s.messageAt = text, time.Now()
}

// noticeLasts is how long a message waits for a page.
const noticeLasts = time.Minute

// notice returns the message for this page, once.
func (v *visitor) notice() string {
	if v.session == nil {
		return ""
	}
	s := v.session
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.message
	if s.message = ""; time.Since(s.messageAt) > noticeLasts {
		return ""
	}
	return text
}

// forget makes the next reader count again.
func (t *totals) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = nil
}

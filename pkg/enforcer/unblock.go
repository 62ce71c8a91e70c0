package enforcer

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/hit"
)

// An unblocked is the answer to DELETE /v1/blocks.
type unblocked struct {
	Key     string             `json:"key"`
	Lifted  []*blocklist.Entry `json:"lifted"`
	Allowed *blocklist.Entry   `json:"allowed,omitempty"`
	InForce inForce            `json:"in_force"`
	Sending *sending           `json:"sending,omitempty"`
	Note    string             `json:"note,omitempty"`
}

// A sending states when this enforcer last refused a request because of an entry.
type sending struct {
	Last time.Time `json:"last"`
	Age  string    `json:"age"`
}

// maxLifted is how many entries one order lifts at most.
const maxLifted = 1000

// recently is the age of the last refusal up to which a client counts as still sending.
const recently = time.Minute

// unblock is DELETE /v1/blocks: it lifts everything that contains a key. Verdicts are pardoned, and the aggregators
// forget their keys; manual blocks are lifted.
func (e *Enforcer) unblock(w http.ResponseWriter, r *http.Request) error {
	o, err := e.begin(r)
	if err != nil {
		return err
	}

	q, err := readQuery(r, "key", "rule", "why", "allow", "confirm")
	if err != nil {
		return err
	}

	why, err := q.reason()
	if err != nil {
		return err
	}
	if q.key == "" {
		return problemf(http.StatusBadRequest, "the key is missing: give one such as 203.0.113.7 or alice")
	}

	answer := unblocked{Key: q.key}
	var ids []string
	answer.Lifted, ids = e.liftAll(o, q, why)
	// Before anything is applied: half of an unblock would be hard to understand.
	if len(answer.Lifted) > maxLifted {
		return problemf(http.StatusBadRequest, "more than %d entries lie in %s, and no more are lifted at once: allow it instead, name a rule, or a narrower prefix", maxLifted, q.key)
	}
	if err := e.allowInstead(r, o, q, &answer); err != nil {
		return err
	}

	// An allow alone is enough: it is also given for a key without entries.
	if len(o.orders) == 0 {
		return problemf(http.StatusNotFound, "nothing on the list holds %s%s", q.key, e.refusedByPlace(q.key, o.now))
	}

	answer.Sending = e.sending(ids, o.now)
	var waits string
	if answer.InForce, waits, err = e.put(r, o); err != nil {
		return err
	}

	answer.Note = joinNotes(answer.Note, answer.againNote(o.now), waits)
	writeJSON(w, http.StatusOK, answer)
	return nil
}

// refusedByPlace names an entry that refuses an address because of its network or country. An unblock of the address does
// not end it, for it refuses many others.
func (e *Enforcer) refusedByPlace(key string, now int64) string {
	q := &findRequest{key: key}
	q.locate(e.ruling.Load().Rules)
	if !q.client.IsValid() {
		return ""
	}
	for one := range e.config.Set.Find(key, now, q.hidden...) {
		if one.Entry == nil || one.Entry.Mode != blocklist.Enforce || !q.wants(one) {
			continue
		}
		for name, value := range one.Entry.Fields {
			if len(one.Entry.Fields) == 1 {
				return fmt.Sprintf(". It is refused because of %s:%s, by %s: unblock that, or allow the address for a while", name, value, one.Entry.Rule)
			}
		}
	}
	return ""
}

func joinNotes(notes ...string) (all string) {
	for _, note := range notes {
		if all != "" && note != "" {
			all += ". "
		}
		all += note
	}
	return all
}

// againNote warns of clients that will be blocked again.
func (u *unblocked) againNote(now int64) string {
	if u.Sending == nil || u.Allowed != nil || now-u.Sending.Last.UnixMilli() > recently.Milliseconds() {
		return ""
	}
	return fmt.Sprintf("it sent requests %s ago: if it goes on like that it will be blocked again, unless it is allowed for a while", u.Sending.Age)
}

// liftAll orders the end of everything that contains a key, and returns the ended entries, and the ids that they had.
func (e *Enforcer) liftAll(o *ordering, q *orderRequest, why string) (shown []*blocklist.Entry, ids []string) {
	shown = []*blocklist.Entry{}
	var verdicts []*blocklist.Entry
	for found := range e.config.Set.Find(q.key, o.now, e.ruling.Load().Rules.HiddenKeys(q.key)...) {
		if len(shown) > maxLifted {
			break // the caller refuses it
		}
		switch {
		case found.Order != nil && found.Order.Kind == blocklist.OrderBlock && (q.Rule == "" || q.Rule == blocklist.ManualRule):
			end := lifted(found.Order, o.by, why, o.now)
			o.add(blocklist.EventLifted, end)
			shown, ids = append(shown, end.Entry()), append(ids, found.Order.ID)
		case found.Entry != nil && (q.Rule == "" || q.Rule == found.Entry.Rule):
			verdicts = append(verdicts, found.Entry)
			o.add(blocklist.EventOrdered, pardon(found.Entry, o, why))

			// The answer shows it as it will be when the aggregators have ended it.
			ended := *found.Entry
			ended.Ended = o.now
			shown, ids = append(shown, &ended), append(ids, ended.ID)
		}
	}

	o.hits = e.commands.batches(verdicts, o.now, e.ruling.Load().Rules.Fingerprint())
	return shown, ids
}

// pardonedFor is how long a pardon outlasts the entry, which may be extended until then.
const pardonedFor = 24 * time.Hour

func pardon(of *blocklist.Entry, o *ordering, why string) *blocklist.Order {
	until := int64(blocklist.Never)
	if of.Until != blocklist.Never {
		until = max(of.Until, o.now) + pardonedFor.Milliseconds()
	}
	return &blocklist.Order{ID: newID(), Kind: blocklist.OrderPardon, Rule: of.Rule, Key: of.Key, Pardons: of.ID,
		From: o.now, Until: until, By: o.by, Why: why}
}

// allowInstead orders an allow of the key for a while, if the request has one.
func (e *Enforcer) allowInstead(r *http.Request, o *ordering, q *orderRequest, answer *unblocked) error {
	if q.allow == "" {
		return nil
	}

	// The query of an unblock has no target and no duration of its own.
	instead := *q
	instead.Target, instead.For = targetOf(q.key, answer.Lifted, e.ruling.Load().Rules.HiddenKeys(q.key)), q.allow
	order, err := instead.ofOne(blocklist.OrderAllow, e.ruling.Load().Rules, o.by, o.now)
	if err == nil {
		err = instead.confirmed(order, e.affects(r, order))
	}
	if err != nil {
		return err
	}

	o.add(blocklist.EventOrdered, order)
	answer.Allowed, answer.Note = order.Entry(), e.unasked(order)
	return nil
}

// targetOf returns the target for a key: a user, for example, when the entries that contain it are of one field.
// A secret may look like a target, so its hashes come first.
func targetOf(key string, holding []*blocklist.Entry, hidden []string) string {
	_, _, err := blocklist.ParseTarget(key)
	for _, entry := range holding {
		if err == nil && !slices.Contains(hidden, entry.Key) {
			continue
		}
		for name, value := range entry.Fields {
			if len(entry.Fields) == 1 {
				return name + ":" + value
			}
		}
	}
	return key
}

// sending returns when one of the entries with these ids last refused a request here; nil when that is unknown.
func (e *Enforcer) sending(ids []string, now int64) *sending {
	newest := int64(0)
	for _, id := range ids {
		newest = max(newest, e.tally.Of([]byte(id), now).Last)
	}
	if newest == 0 {
		return nil
	}
	age := time.Duration(max(0, now-newest)) * time.Millisecond
	return &sending{time.UnixMilli(newest).UTC(), age.Truncate(time.Second).String()}
}

// commands makes batches of hits that contain only commands to forget keys. Each start of the process has another
// source, and positions count the orders.
type commands struct {
	source     string
	partitions int

	mu       sync.Mutex
	position int64
	writer   *hit.Writer
}

func newCommands(partitions int) *commands {
	return &commands{source: "enforcer/" + newID(), partitions: partitions, writer: hit.NewWriter()}
}

// batches returns one batch per partition that makes the owners of the entries' keys forget them. Keys that do not fit
// into one batch, which are more than one unblock ever has, are left out: their entries are pardoned all the same.
func (c *commands) batches(entries []*blocklist.Entry, now int64, fingerprint string) []message {
	c.mu.Lock()
	defer c.mu.Unlock()

	// Each partition is another log, so the batches of one unblock share a position.
	of := map[int][]*blocklist.Entry{}
	for _, entry := range entries {
		p := hit.Partition(entry.Rule, []byte(entry.Key), c.partitions)
		of[p] = append(of[p], entry)
	}

	var all []message
	head := hit.Header{Source: c.source, From: c.position, To: c.position + 1, Clock: now, Fingerprint: fingerprint}
	for partition, those := range of {
		rules := rulesOf(those)
		c.writer.Reset(rules)
		for _, entry := range those {
			c.writer.Unblock(slices.Index(rules, entry.Rule), []byte(entry.Key), now, entry.ID)
		}
		if batch, err := c.writer.Append(nil, head); err == nil {
			all = append(all, message{Partition: partition, Value: batch})
		}
	}

	if len(all) > 0 {
		c.position++
	}
	return all
}

// rulesOf returns the rules of the entries, each once.
func rulesOf(entries []*blocklist.Entry) (rules []string) {
	for _, entry := range entries {
		if !slices.Contains(rules, entry.Rule) {
			rules = append(rules, entry.Rule)
		}
	}
	return rules
}

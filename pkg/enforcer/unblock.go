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

// A sending says when a request that an entry refused was last seen here.
type sending struct {
	Last time.Time `json:"last"`
	Age  string    `json:"age"`
}

// maxLifted is how many entries one order lifts at most.
const maxLifted = 1000

// recently is how long ago someone may have sent who is still sending.
const recently = time.Minute

// unblock is DELETE /v1/blocks: everything that holds a key is taken out of force. Verdicts are pardoned, and whoever
// counts their keys is told to begin anew; what people blocked is lifted.
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
		return problemf(http.StatusBadRequest, "say whom: a key such as 203.0.113.7 or alice")
	}

	answer := unblocked{Key: q.key, Lifted: e.liftAll(o, q, why)}
	if len(answer.Lifted) > maxLifted {
		return problemf(http.StatusBadRequest, "more than %d entries lie in %s, and no more are lifted at once: allow it instead, name a rule, or a narrower prefix", maxLifted, q.key)
	}
	if err := e.allowInstead(r, o, q, &answer); err != nil {
		return err
	}
	if len(o.orders) == 0 {
		return problemf(http.StatusNotFound, "nothing on the list holds %s", q.key)
	}

	answer.Sending = e.sending(answer.Lifted, o.now)
	var waits string
	if answer.InForce, waits, err = e.put(r, o); err != nil {
		return err
	}

	answer.Note = joinNotes(answer.Note, answer.againNote(), waits)
	writeJSON(w, http.StatusOK, answer)
	return nil
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

// againNote warns of who will be blocked again.
func (u *unblocked) againNote() string {
	if u.Sending == nil || u.Allowed != nil || time.Since(u.Sending.Last) > recently {
		return ""
	}
	return fmt.Sprintf("it sent requests %s ago: when it goes on like that it will be blocked again, unless it is allowed for a while", u.Sending.Age)
}

// liftAll orders the end of everything that holds a key, and shows it ended.
func (e *Enforcer) liftAll(o *ordering, q *orderRequest, why string) []*blocklist.Entry {
	shown := []*blocklist.Entry{}
	var verdicts []*blocklist.Entry
	for found := range e.config.Set.Find(q.key, o.now) {
		if len(shown) > maxLifted {
			break // which is refused
		}
		switch {
		case found.Order != nil && found.Order.Kind == blocklist.OrderBlock && (q.Rule == "" || q.Rule == manualRule):
			end := lifted(found.Order, o.by, why, o.now)
			o.add(blocklist.EventLifted, end)
			shown = append(shown, end.Entry())
		case found.Entry != nil && (q.Rule == "" || q.Rule == found.Entry.Rule):
			verdicts = append(verdicts, found.Entry)
			o.add(blocklist.EventOrdered, pardon(found.Entry, o, why))
			ended := *found.Entry
			ended.Ended = o.now
			shown = append(shown, &ended)
		}
	}

	o.hits = e.commands.batches(verdicts, o.now, e.ruling.Load().Rules.Fingerprint())
	return shown
}

// manualRule is the rule that what people order is shown with.
const manualRule = "manual"

// pardonedFor is how long a pardon outlasts the entry: it may have been extended by then.
const pardonedFor = 24 * time.Hour

func pardon(of *blocklist.Entry, o *ordering, why string) *blocklist.Order {
	until := int64(blocklist.Never)
	if of.Until != blocklist.Never {
		until = max(of.Until, o.now) + pardonedFor.Milliseconds()
	}
	return &blocklist.Order{ID: newID(), Kind: blocklist.OrderPardon, Rule: of.Rule, Key: of.Key, Pardons: of.ID,
		From: o.now, Until: until, By: o.by, Why: why}
}

// allowInstead orders that the key is let through for a while, where that was asked for.
func (e *Enforcer) allowInstead(r *http.Request, o *ordering, q *orderRequest, answer *unblocked) error {
	if q.allow == "" {
		return nil
	}
	instead := *q
	instead.Target, instead.For = targetOf(q.key, answer.Lifted), q.allow
	order, err := instead.ofOne(blocklist.OrderAllow, o.by, o.now)
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

// targetOf is whom a key is of: a user, say, where the entries that hold it are of one field.
func targetOf(key string, holding []*blocklist.Entry) string {
	if _, _, err := blocklist.ParseTarget(key); err == nil {
		return key
	}
	for _, entry := range holding {
		for name, value := range entry.Fields {
			if len(entry.Fields) == 1 {
				return name + ":" + value
			}
		}
	}
	return key
}

// sending is when one of the entries last refused a request here; nil when that is not known.
func (e *Enforcer) sending(entries []*blocklist.Entry, now int64) *sending {
	newest := int64(0)
	for _, entry := range entries {
		newest = max(newest, e.seen.last(entry.Rule, entry.Key))
	}
	if newest == 0 {
		return nil
	}
	age := time.Duration(max(0, now-newest)) * time.Millisecond
	return &sending{time.UnixMilli(newest).UTC(), age.Truncate(time.Second).String()}
}

// commands makes batches of hits that hold nothing but commands to forget keys. Its source is another whenever the
// process starts, and its positions count the orders.
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

// batches are those that tell the owners of the entries' keys to forget them, one a partition. What does not fit into
// one batch, which is more than anyone unblocks at once, is left out: its entry is pardoned all the same.
func (c *commands) batches(entries []*blocklist.Entry, now int64, fingerprint string) []message {
	c.mu.Lock()
	defer c.mu.Unlock()
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

// rulesOf are the rules of the entries, each once.
func rulesOf(entries []*blocklist.Entry) (rules []string) {
	for _, entry := range entries {
		if !slices.Contains(rules, entry.Rule) {
			rules = append(rules, entry.Rule)
		}
	}
	return rules
}

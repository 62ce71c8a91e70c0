package inline

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/pkg/window"
)

// A Config bounds a Memory.
type Config struct {
	Keys     int           // 1,000,000 unless given
	Attempts int           // that can be settled; 200,000 unless given
	Settle   time.Duration // how long an attempt can be settled; 10 minutes unless given
	Now      func() time.Time
}

// found is the place of a Want.
type found struct {
	name  []byte // part of Verdict.names, or of one that was too short
	shard uint8
	entry *entry
}

const shards = 256

// keysOfShard is what a shard has room for at least, if there are several.
const keysOfShard = 1000

// A Memory decides in this process.
type Memory struct {
	config   Config
	seed     maphash.Seed
	secret   [32]byte
	shards   [shards]shard
	mask     uint8 // of the shards that are used
	order    atomic.Uint64
	attempts attempts
}

// A shard has the keys whose hash ends alike.
type shard struct {
	mu        sync.Mutex
	keys      map[string]*entry // by the rule's name and the key
	most      int
	forgotten int64
	_         [64]byte // shards are used by different processors
}

// An entry is the window of one key. Its shard's lock guards it.
type entry struct {
	name   string
	state  window.State
	policy *window.Policy // that the state was counted by
	used   int64          // when it was asked for last
}

func (e *entry) isOf(rule string, key []byte) bool {
	n := len(rule)
	return len(e.name) == n+1+len(key) && e.name[:n] == rule && e.name[n+1:] == string(key)
}

// New makes an empty Memory.
func New(c Config) *Memory {
	c.Keys, c.Attempts = cmp.Or(c.Keys, 1_000_000), cmp.Or(c.Attempts, 200_000)
	c.Settle = cmp.Or(c.Settle, 10*time.Minute)
	if c.Now == nil {
		c.Now = time.Now
	}

	m := &Memory{config: c, seed: maphash.MakeSeed()}
	_, _ = rand.Read(m.secret[:]) // never fails
	// Keys are not spread evenly. In large shards that hardly matters: none is full long before Keys are reached.
	used := 1
	for used < shards && c.Keys/(2*used) >= keysOfShard {
		used *= 2
	}
	m.mask = uint8(used - 1)
	for i := range m.shards[:used] {
		m.shards[i].keys = map[string]*entry{}
		m.shards[i].most = max(1, c.Keys/used)
	}
	m.attempts.open(c.Attempts, c.Settle)
	return m
}

var _ Store = (*Memory)(nil)

// Take decides an attempt, and writes the answer to v.
func (m *Memory) Take(_ context.Context, v *Verdict, wants []Want) error {
	now := m.config.Now().UnixMilli()
	if m.takeAll(v, wants, now) {
		v.id.makeNew(now) // only now: random bytes cost a quarter of a refusal
		v.Attempt = v.id
		l := m.attempts.log(v.Attempt)
		l.mu.Lock()
		defer l.mu.Unlock()
		m.attempts.add(l, v, wants, now, false)
	}
	return nil
}

// TakeOnce is Take for a request that may be asked for again: see Store.
func (m *Memory) TakeOnce(_ context.Context, v *Verdict, request string, wants []Want) error {
	now, id := m.config.Now().UnixMilli(), m.IDOf(request)
	l := m.attempts.log(id) // locked meanwhile, so that the same request, asked for at the same time, waits
	l.mu.Lock()
	defer l.mu.Unlock()
	known := m.attempts.markKnown(l, id, wants, now)
	counted := m.takeAll(v, wants, now)
	if known || counted {
		v.Attempt = id
	}
	if counted {
		m.attempts.add(l, v, wants, now, known)
	}
	return nil
}

// takeAll decides an attempt, and reports whether it has counted anything.
func (m *Memory) takeAll(v *Verdict, wants []Want, now int64) (counted bool) {
	v.Begin(wants)
	v.found = slices.Grow(v.found[:0], len(wants))[:len(wants)]
	m.lock(v, wants)
	defer m.unlock(v)
	v.Moment = Moment{now, m.order.Add(1)}
	for i := range wants {
		m.take(v, i, &wants[i], now)
	}
	v.Decide(wants)
	return v.settleRefused(wants)
}

// lock locks the shards of all Wants, always in the same order.
func (m *Memory) lock(v *Verdict, wants []Want) {
	v.names, v.locks = v.names[:0], v.locks[:0]
	for i := range wants {
		start := len(v.names)
		v.names = append(append(append(v.names, wants[i].Rule.Name...), 0), wants[i].Key...)
		name := v.names[start:]
		v.found[i] = found{name: name, shard: m.shardOf(name)}
		v.locks = append(v.locks, v.found[i].shard)
	}

	if len(v.locks) > 1 {
		slices.Sort(v.locks)
		v.locks = slices.Compact(v.locks)
	}
	for _, i := range v.locks {
		m.shards[i].mu.Lock()
	}
}

func (m *Memory) shardOf(name []byte) uint8 { return uint8(maphash.Bytes(m.seed, name)) & m.mask }

func (m *Memory) unlock(v *Verdict) {
	for _, i := range v.locks {
		m.shards[i].mu.Unlock()
	}
}

func (m *Memory) take(v *Verdict, i int, w *Want, now int64) {
	f := &v.found[i]
	f.entry = m.shards[f.shard].entry(f.name, w.Rule.Policy, now)
	if w.Known {
		w.Cost = 0
	}
	v.Taken[i] = w.Rule.Policy.Take(&f.entry.state, now, w.Cost)
	// A limit refuses even nothing while an attempt is settled to more than it admits.
	v.Taken[i].Admitted = v.Taken[i].Admitted || w.Known
}

// entry finds the entry of a key, or makes it.
func (s *shard) entry(name []byte, policy *window.Policy, now int64) *entry {
	e := s.keys[string(name)]
	switch {
	case e == nil:
		e = &entry{name: string(name), policy: policy}
		s.add(e, now)
	case e.policy != policy:
		e.convert(policy)
	}
	e.used = now
	return e
}

func (s *shard) add(e *entry, now int64) {
	s.makeRoom(now)
	s.keys[e.name] = e
}

// convert has an entry go on under other limits.
func (e *entry) convert(to *window.Policy) {
	var state window.State
	if err := to.Read(e.policy.Append(nil, &e.state), &state); err != nil {
		state = window.State{} // these bytes were written a moment ago
	}
	e.state, e.policy = state, to
}

// sample is how many keys are looked at when a new one comes.
const sample = 8

// makeRoom removes keys of a sample that count nothing any more: more than one for each new key, while most are such
// keys. If there is no other room, the key of the sample goes that was not asked for longest.
func (s *shard) makeRoom(now int64) {
	var oldest string
	seen, used := 0, window.Never
	for key, e := range s.keys {
		if e.policy.Clear(&e.state) <= now {
			delete(s.keys, key)
		} else if e.used < used {
			oldest, used = key, e.used
		}
		if seen++; seen == sample {
			break
		}
	}
	if len(s.keys) >= s.most {
		delete(s.keys, oldest)
		s.forgotten++
	}
}

// settleRefused takes back what was counted of an attempt that is refused, and reports whether anything stays.
func (v *Verdict) settleRefused(wants []Want) (counted bool) {
	for i := range wants {
		t, cost := &v.Taken[i], wants[i].Cost
		switch {
		case !t.Admitted || cost < 1:
		case v.Admitted:
			counted = true
		default:
			e := v.found[i].entry
			e.policy.TakeBack(&e.state, t.At, t.At, cost)
			t.Remaining, t.Again = t.Remaining+cost, t.At
		}
	}
	return counted
}

// Settle sets what an attempt has cost, at all of its rules. It may be called again, also with another cost.
func (m *Memory) Settle(_ context.Context, id ID, cost int64) error {
	_, err := m.settle(id, "", cost)
	return err
}

// SettleAt is Settle at one rule: the attempt's cost at the others stays as it is.
func (m *Memory) SettleAt(_ context.Context, rule string, id ID, cost int64) error {
	_, err := m.settle(id, rule+"\x00", cost)
	return err
}

// SettleWhen is SettleAt, or Settle without a rule, and returns when the attempt was settled.
func (m *Memory) SettleWhen(rule string, id ID, cost int64) (Moment, error) {
	if rule == "" {
		return m.settle(id, "", cost)
	}
	return m.settle(id, rule+"\x00", cost)
}

func (m *Memory) settle(id ID, prefix string, cost int64) (Moment, error) {
	now, settled := m.config.Now().UnixMilli(), false
	when := Moment{At: now}
	err := m.attempts.settle(id, now, func(p *part) {
		if !strings.HasPrefix(p.entry.name, prefix) {
			return
		}
		settled = true
		s := &m.shards[p.shard]
		s.mu.Lock()
		defer s.mu.Unlock()
		if when.Order == 0 {
			when.Order = m.order.Add(1)
		}
		if !p.ended {
			p.entry.policy.End(&p.entry.state, now, p.at, p.cost)
			p.ended = true
		}
		if cost == Kept {
			return
		}
		// The key may have been removed since, and made again. Then the attempt's cost is gone with it, but not the
		// cost that is added now.
		if e := s.keys[p.entry.name]; e != p.entry && cost > p.cost {
			if e == nil {
				e = p.entry
				s.add(e, now)
			}
			p.entry = e
		}
		p.entry.policy.Settle(&p.entry.state, now, p.at, p.cost, cost)
		p.cost = cost
	})
	if err == nil && !settled {
		err = ErrNotCounted
	}
	return when, err
}

// Peek calls look with the window of a key and the time that it is of, unless the key is unknown.
func (m *Memory) Peek(_ context.Context, rule *Rule, key []byte, look func(s *window.State, at int64)) (known bool, err error) {
	name := append(append([]byte(rule.Name), 0), key...)
	s := &m.shards[m.shardOf(name)]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.keys[string(name)]
	if e == nil {
		return false, nil
	}
	if e.policy != rule.Policy {
		e.convert(rule.Policy)
	}
	look(&e.state, max(m.config.Now().UnixMilli(), e.state.Newest()))
	return true, nil
}

// All calls look with the windows of all keys of some rules, a shard at a time.
func (m *Memory) All(rules []*Rule, look func(rule *Rule, key string, s *window.State, at int64)) {
	for i := range m.shards {
		m.shards[i].all(rules, m.config.Now().UnixMilli(), look)
	}
}

func (s *shard) all(rules []*Rule, now int64, look func(rule *Rule, key string, s *window.State, at int64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, e := range s.keys {
		of, key, _ := strings.Cut(name, "\x00")
		for _, rule := range rules {
			if rule.Name == of && rule.Policy == e.policy { // a key of other limits is not asked for since they changed
				look(rule, key, &e.state, max(now, e.state.Newest()))
			}
		}
	}
}

// Settleable is how long an attempt can be settled.
func (m *Memory) Settleable() time.Duration { return m.config.Settle }

// Stats counts.
func (m *Memory) Stats() (s Stats) {
	for i := range m.shards {
		shard := &m.shards[i]
		shard.mu.Lock()
		s.Keys += len(shard.keys)
		s.Forgotten += shard.forgotten
		shard.mu.Unlock()
	}
	s.Attempts, s.Lost = m.attempts.stats()
	return s
}

// IDsOf is IDOf.
func (m *Memory) IDsOf(_ context.Context, request string) ([]ID, error) {
	return []ID{m.IDOf(request)}, nil
}

// IDOf makes an ID of a text that names a request. Clients may see that text, but cannot find the ID by it.
func (m *Memory) IDOf(text string) (id ID) {
	hash := hmac.New(sha256.New, m.secret[:])
	hash.Write([]byte(text))
	copy(id[:], hash.Sum(nil))
	return id
}

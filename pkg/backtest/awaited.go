package backtest

import (
	"container/heap"

	"weir/pkg/window"
)

// Awaited are the accounts with an offence that time decides, where group rules count what follows: their blocks have to be
// known before the requests of the networks that come later. The first is due next; one whose offence has changed is in it twice.
type awaited []awaitedAccount

type awaitedAccount struct {
	due    int64
	number int
}

func (q awaited) Len() int           { return len(q) }
func (q awaited) Less(i, j int) bool { return q[i].due < q[j].due }
func (q awaited) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *awaited) Push(x any)        { *q = append(*q, x.(awaitedAccount)) }

func (q *awaited) Pop() any {
	last := len(*q) - 1
	one := (*q)[last]
	*q = (*q)[:last]
	return one
}

// await notes when the offence of an account is decided, if it was not at the same time before.
func (v *variant) await(number int, a *account, before int64) {
	due := v.rules[a.rule].policy.Due(&a.state)
	if due != before && due != window.Never {
		heap.Push(&v.awaited, awaitedAccount{due, number})
	}
}

// judgeDue begins the blocks that the time decides before an instant.
func (v *variant) judgeDue(now int64) {
	for len(v.awaited) > 0 && v.awaited[0].due < now {
		number := heap.Pop(&v.awaited).(awaitedAccount).number
		v.judge(number, v.account(number), now)
	}
}

// judge begins the block of an account that the time decides before an instant.
func (v *variant) judge(number int, a *account, now int64) {
	t := &v.rules[a.rule]
	due := t.policy.Due(&a.state)
	o := t.policy.Judge(&a.state, now)
	if o.Event != window.Broke {
		if v.groups != nil { // an estimate may be none, and another one next
			v.await(number, a, due)
		}
		return
	}
	if a.offence == nil {
		a.offence = newOffence(t, o, nil)
	}
	a.offence.begin(o)
	if v.groups != nil {
		v.follow(number, a, o)
	}
}

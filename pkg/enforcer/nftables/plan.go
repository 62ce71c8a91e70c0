package nftables

import (
	"slices"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/enforcer/cidr"
)

// transactionElements is how many elements a transaction changes at most: as many as writeBufferBytes hold whatever they
// are. Larger ones are hardly faster.
const transactionElements = 1_500

// A plan is one transaction after another.
type plan struct {
	anew  bool // the table is made anew, with the first of them
	steps []step
}

// A step is a transaction: what is put in, then what is taken out, then what is put in.
type step struct{ before, out, in []element }

// An element is a prefix in a set.
type element struct {
	cidr.Block
	timeout time.Duration // 0 for ever
}

// planned leads from what the kernel has to what is wanted. What may have ended in the kernel by now is put in again before it
// is taken out: taking out what is not there fails. An element that stays with another end is taken out and put in, since kernels
// before 6.12 leave its timeout as it is.
func planned(have, want []cidr.Block, anew bool, now int64) plan {
	gone, come, changed := cidr.Diff(have, want)
	soon := now + endSlack.Milliseconds()
	p := plan{anew: anew}
	for part := range slices.Chunk(gone, transactionElements) {
		var s step
		for _, b := range part {
			if s.out = append(s.out, lasting(b, now)); b.Until < soon {
				s.before = append(s.before, lasting(b, now))
			}
		}
		p.steps = append(p.steps, s)
	}

	for part := range slices.Chunk(changed, transactionElements) {
		all := elements(part, now)
		p.steps = append(p.steps, step{before: all, out: all, in: all})
	}

	for part := range slices.Chunk(come, transactionElements) {
		p.steps = append(p.steps, step{in: elements(part, now)})
	}
	if len(gone)+len(come)+len(changed) <= transactionElements {
		p.steps = oneStep(p.steps)
	}

	return p
}

// oneStep makes few changes one transaction.
func oneStep(steps []step) []step {
	if len(steps) < 2 {
		return steps
	}
	var all step
	for _, s := range steps {
		all.before, all.out, all.in = append(all.before, s.before...), append(all.out, s.out...), append(all.in, s.in...)
	}
	return []step{all}
}

func elements(blocks []cidr.Block, now int64) []element {
	all := make([]element, len(blocks))
	for i, b := range blocks {
		all[i] = lasting(b, now)
	}
	return all
}

// lasting is an element that ends when the block does, or in a moment where that is over.
func lasting(b cidr.Block, now int64) element {
	if b.Until == blocklist.Never {
		return element{Block: b}
	}
	return element{b, time.Duration(min(max(b.Until-now, 1), longestMilli)) * time.Millisecond}
}

// longestMilli is the longest timeout that is asked of the kernel: ten years. What lasts longer is put right by then.
const longestMilli = 10 * 365 * 24 * 3600 * 1000

package nftables

import (
	"slices"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/enforcer/cidr"
)

// transactionElements is how many elements a transaction changes at most: as many as always fit into writeBufferBytes.
// Larger transactions are hardly faster.
const transactionElements = 1_500

// A plan is a sequence of transactions.
type plan struct {
	recreate bool // the first step creates the table again
	steps    []step
}

// A step is a transaction: additions, then removals, then further additions.
type step struct{ before, out, in []element }

// An element is a prefix in a set.
type element struct {
	cidr.Block
	timeout time.Duration // 0 for ever
}

// planned leads from the kernel's blocks to the wanted ones. A block that may have ended in the kernel by now is added
// again before it is removed, because removing a missing element fails. An element that stays with another end is
// removed and added, because kernels before 6.12 do not change its timeout.
func planned(have, want []cidr.Block, recreate bool, now int64) plan {
	gone, come, changed := cidr.Diff(have, want)
	soon := now + endSlack.Milliseconds()
	p := plan{recreate: recreate}
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
	// One transaction leaves no moment between removals and additions.
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

// lasting returns an element that ends with the block, or in a moment when the block is over.
func lasting(b cidr.Block, now int64) element {
	if b.Until == blocklist.Never {
		return element{Block: b}
	}
	return element{b, time.Duration(min(max(b.Until-now, 1), longestMilli)) * time.Millisecond}
}

// longestMilli is the longest timeout that is sent to the kernel: ten years. Longer blocks are corrected by then.
const longestMilli = 10 * 365 * 24 * 3600 * 1000

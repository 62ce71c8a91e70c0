package window

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

func (c *Config) validate() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}

	fault(c.Algorithm >= algorithms, "algorithm %d is unknown", c.Algorithm)
	fault(len(c.Limits) == 0, "no limit is given")
	for _, l := range c.Limits {
		// maxHits and maxPer together keep products of hits and milliseconds within what the algorithms compute with.
		fault(l.Hits < 1 || l.Hits > maxHits, "limit of %d hits: want 1 to %d", l.Hits, int64(maxHits))
		fault(l.Per < time.Millisecond || l.Per > maxPer, "limit per %v: want 1ms to %v", l.Per, maxPer)
		fault(l.Per%time.Millisecond != 0, "limit per %v: want whole milliseconds", l.Per)
	}

	for n, i := range c.AtOnce {
		if i < 0 || i >= len(c.Limits) || slices.Contains(c.AtOnce[:n], i) {
			fault(true, "limit %d at once: want the index of a limit, and each once", i)
			continue
		}
		fault(c.Limits[i].Hits > maxRemember, "%d hits at once: want at most %d", c.Limits[i].Hits, maxRemember)
	}
	fault(len(c.AtOnce) > 0 && c.Late > 0, "limits at once and late hits: want one of them")

	fault(c.Late < 0 || c.Late > maxPer, "late %v: want 0 to %v", c.Late, maxPer)
	fault(c.Remember < minRemember || c.Remember > maxRemember, "%d hits to remember: want %d to %d", c.Remember, minRemember, maxRemember)
	fault(c.Subwindows < 1 || c.Subwindows > 1000, "%d sub-windows: want 1 to 1000", c.Subwindows)
	fault(c.Burst < 0 || c.Burst > maxHits, "burst of %d: want 0 to %d", c.Burst, int64(maxHits))
	for _, d := range append([]time.Duration{c.Block.For}, c.Block.Then...) {
		fault(d < time.Millisecond || d%time.Millisecond != 0 && d != Forever, "block for %v: want whole milliseconds, or Forever", d)
	}

	if c.Distinct != 0 {
		most := int64(MostDistinct)
		if !c.Members {
			most = MostEstimated
		}
		for _, l := range c.Limits {
			fault(l.Hits > most, "limit of %d different values: want 1 to %d", l.Hits, most)
			fault(l.Hits > MostDistinct && len(c.Limits) > 1, "limit of %d different values: want no other limit, or at most %d", l.Hits, MostDistinct)
		}
		fault(c.Algorithm != Sliding || len(c.AtOnce) > 0, "different values: want the algorithm sliding, and no limit at once")
		fault(c.Block.Extend || c.Block.Clear, "different values: want a block that does not extend, and does not wait for the window")
	}
	if c.Share != nil {
		c.validateShare(fault)
	}
	fault(c.Block.Clear && (c.Algorithm != Sliding || c.Block.Extend), "a block until the window is clear: want the algorithm sliding, and no extend")
	fault(c.Block.Forget < 0, "forget after %v: want 0 or more", c.Block.Forget)
	return errors.Join(errs...)
}

func (c *Config) validateShare(fault func(bad bool, format string, args ...any)) {
	fault(c.Share.Of == 0 || c.Share.Over < 1 || c.Share.Over > MostOver, "a share over %d millionths of %d: want 1 to %d, of something", c.Share.Over, c.Share.Of, MostOver)
	fault(len(c.Limits) > 1, "%d limits of a share: want one", len(c.Limits))
	for _, l := range c.Limits {
		fault(l.Hits > MostInShare, "a share of %d hits: want 1 to %d", l.Hits, MostInShare)
	}
	fault(c.Algorithm != Sliding || len(c.AtOnce) > 0 || c.Distinct != 0, "a share: want the algorithm sliding, no limit at once, and no different values")
	fault(c.Block.Extend || c.Block.Clear, "a share: want a block that does not extend, and does not wait for the window")
}

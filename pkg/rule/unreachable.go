package rule

import (
	"fmt"

	"weir/pkg/window"
)

// unreachable describes why the i-th of a rule's limits has no effect, or is "":
//
// Limit j is broken before or with limit i when N of i is at least N of j times the number of j's windows that cover
// one of i's. Sliding windows may lie anywhere; aligned periods must fit into each other. For the other algorithms only
// a limit that is given twice is reported.
func unreachable(algorithm window.Algorithm, limits []Limit, i int) string {
	for j, other := range limits {
		// A request at once counts at other sliding limits for as long, so these can be stricter, and never the other way round.
		if i == j || other.AtOnce || limits[i].AtOnce && algorithm != window.Sliding {
			continue
		}
		if limits[i].Limit == other.Limit && !limits[i].AtOnce {
			// Of two equal limits only the second is reported.
			if j < i {
				return fmt.Sprintf("%s is the same limit as %s before it", limits[i], other)
			}
			continue
		}
		if stricter(algorithm, other.Limit, limits[i].Limit) {
			return fmt.Sprintf("%s has no effect, because %s is stricter", limits[i], other)
		}
	}

	return ""
}

// stricter reports whether a is always broken when b is.
func stricter(algorithm window.Algorithm, a, b window.Limit) bool {
	longer, shorter := max(a.Per, b.Per), min(a.Per, b.Per)
	switch algorithm {
	case window.Sliding:
	case window.Fixed:
		if longer%shorter != 0 {
			return false
		}
	default:
		return false
	}
	windows := int64((b.Per + a.Per - 1) / a.Per)
	return a.Hits <= b.Hits/windows
}

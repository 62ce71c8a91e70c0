// Package nearest finds the word that somebody most likely meant who wrote one that is not known.
package nearest

import (
	"fmt"
	"strings"
)

// Suggest returns the remedy for an unknown word: the known word that is most likely meant, or else otherwise followed
// by all known words.
func Suggest(word string, known []string, otherwise string) string {
	if near := Word(word, known); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return otherwise + strings.Join(known, ", ")
}

// Word returns the known word that word is most likely a slip of, or "". It counts letters left out, added, changed
// or swapped with their neighbour, and allows one of them for each three letters, or one in a word of two. Of two
// equally near words it prefers the one with only letters left out.
func Word(word string, known []string) string {
	if len(word) < 2 {
		return ""
	}
	best, bestRank := "", 2*max(1, len(word)/3)+1
	for _, candidate := range known {
		rank := 2 * slips(strings.ToLower(word), strings.ToLower(candidate))
		if leavesOut(word, candidate) {
			rank--
		}
		if rank < bestRank {
			best, bestRank = candidate, rank
		}
	}

	return best
}

// leavesOut reports that word is a complete word with some of its letters left out.
func leavesOut(word, complete string) bool {
	for i := range len(complete) {
		if word != "" && word[0] == complete[i] {
			word = word[1:]
		}
	}
	return word == ""
}

// slips is the Damerau-Levenshtein distance of neighbouring swaps (optimal string alignment).
func slips(a, b string) int {
	// Words come from files that others write; longer ones are no slips, and would cost their product.
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	var rows [3][66]int
	for j := range len(b) + 1 {
		rows[0][j] = j
	}

	for i := 1; i <= len(a); i++ {
		row, above, twoAbove := &rows[i%3], &rows[(i+2)%3], &rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], twoAbove[j-2]+1)
			}
		}
	}

	return rows[len(a)%3][len(b)]
}

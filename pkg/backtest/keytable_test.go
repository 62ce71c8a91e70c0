package backtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestKeyTableNumbersAsAMapDoes(t *testing.T) {
	type ruleKey struct {
		rule int
		key  string
	}
	random := rand.New(rand.NewPCG(1, 2))
	table, wanted := newKeyTable(), map[ruleKey]int{}
	for range 300_000 {
		rk := ruleKey{random.IntN(3), fmt.Sprint(random.IntN(60_000))}
		if random.IntN(100) == 0 {
			rk.key = strings.Repeat(rk.key, random.IntN(80)) // empty and long ones
		}
		before, known := wanted[rk]
		number, _, isNew := table.find(hashKey(rk.rule, []byte(rk.key)), rk.rule, []byte(rk.key), 1)
		if isNew == known || known && number != before || isNew && number != len(wanted) {
			t.Fatalf("%v: number %d, new %v; want %d, %v", rk, number, isNew, before, !known)
		}
		wanted[rk] = number
	}
	next := 0
	table.each(func(number, rule int, key []byte) {
		if number != next || wanted[ruleKey{rule, string(key)}] != number {
			t.Fatalf("record %d: number %d, rule %d, key %q", next, number, rule, key)
		}
		next++
	})
	if next != len(wanted) {
		t.Fatalf("%d records, want %d", next, len(wanted))
	}
}

func TestKeyTableSeparatesKeysOfOneHash(t *testing.T) {
	table := newKeyTable()
	for i := range 100 {
		if n, newest, isNew := table.find(7, 0, fmt.Append(nil, i), 100); n != i || newest != 100 || !isNew {
			t.Fatalf("key %d: number %d, new %v", i, n, isNew)
		}
	}
	for i := range 100 {
		if n, newest, isNew := table.find(7, 0, fmt.Append(nil, i), 90); n != i || newest != 100 || isNew {
			t.Fatalf("key %d again: number %d, new %v", i, n, isNew)
		}
	}
}

func TestKeyTableFindsWithoutAllocation(t *testing.T) {
	table, key := newKeyTable(), []byte("203.0.113.7")
	table.find(hashKey(0, key), 0, key, 1)
	if n := testing.AllocsPerRun(100, func() { table.find(hashKey(0, key), 0, key, 1) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

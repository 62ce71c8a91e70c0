package windows

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// A table against a map: what was added and not removed is found, and nothing else.
func TestATableFindsItsElements(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	rules := []*Rule{{Name: "a"}, {Name: "ab"}}
	table, twin := newTable(), map[string]*Window{}
	for n := range 60_000 {
		rule, key := rules[random.IntN(2)], fmt.Sprint(random.IntN(2000))
		name := rule.Name + "/" + key
		found := table.find(table.hash(table.ofRule(rule.Name), []byte(key)), rule.Name, []byte(key))
		if found != twin[name] {
			t.Fatalf("after %d: of %s is found %+v, want %+v", n, name, found, twin[name])
		}
		grows := n/10_000%2 == 0
		switch {
		case found == nil && (grows || random.IntN(4) == 0):
			twin[name] = &Window{Name: name, Rule: rule}
			table.add(twin[name])
		case found != nil && (!grows || random.IntN(4) == 0):
			table.remove(found)
			delete(twin, name)
		}
		if table.taken != len(twin) || 4*table.taken > 3*len(table.slots) {
			t.Fatalf("after %d: %d of %d slots are taken by %d windows", n, table.taken, len(table.slots), len(twin))
		}
	}
}

// Windows of one hash differ by their names.
func TestWindowsOfOneHash(t *testing.T) {
	table := newTable()
	rule := &Rule{Name: "ab"}
	for _, key := range []string{"c", "cd", "/d"} {
		table.put(slot{63, &Window{Name: "ab/" + key, Rule: rule}})
	}
	for _, test := range []struct{ rule, key, want string }{
		{"ab", "c", "ab/c"}, {"ab", "cd", "ab/cd"}, {"ab", "/d", "ab//d"}, {"a", "/c", ""}, {"ab", "d", ""}, {"abc", "d", ""}, {"ba", "c", ""},
	} {
		found := ""
		if w := table.find(63, test.rule, []byte(test.key)); w != nil {
			found = w.Name
		}
		if found != test.want {
			t.Errorf("%s/%s: %q is found, want %q", test.rule, test.key, found, test.want)
		}
	}
	if w := table.likely(63); w == nil || w.Name != "ab/c" {
		t.Errorf("likely is %+v", w)
	}
}

func TestAWindowHasAsManyBytesAsItSays(t *testing.T) {
	if size := unsafe.Sizeof(Window{}); size != 128 {
		t.Errorf("%d bytes", size)
	}
}

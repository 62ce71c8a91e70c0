// Package storetest holds what every store must do, as tests that each implementation runs.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"weir/internal/store"
)

// Run runs all tests. Each asks for a place where nothing has been stored, and opens it, sometimes again after
// it was closed.
func Run(t *testing.T, place func(t *testing.T) (open func() store.Store)) {
	for name, test := range map[string]func(t *testing.T, s store.Store){
		"a partition nobody has taken":             untaken,
		"values come back":                         valuesComeBack,
		"sizes":                                    sizes,
		"a value grows and shrinks":                growAndShrink,
		"spaces and partitions are apart":          apart,
		"the last change of a key counts":          lastChange,
		"a write counts the fence up":              countsUp,
		"only the fence last told can write":       onlyTheLastFence,
		"a former owner writes nothing":            formerOwner,
		"many owners, one at a time":               manyOwners,
		"a write is seen wholly or not at all":     whollyOrNot,
		"a scan sees everything once":              scanAll,
		"a scan while keys go and come":            scanWhileChanging,
		"a scan of nothing":                        scanNothing,
		"agreeing":                                 agree,
		"agreeing at once":                         agreeAtOnce,
		"bytes are the caller's":                   bytesAreTheCallers,
		"a context that has ended":                 endedContext,
		"a full call":                              fullCall,
		"any changes, against a map of the values": model,
	} {
		t.Run(name, func(t *testing.T) {
			s := place(t)()
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			test(t, s)
		})
	}
	t.Run("what was written is there when it is opened again", func(t *testing.T) { reopen(t, place(t)) })
}

var ctx = context.Background()

func take(t *testing.T, s store.Store, partition int) store.Fence {
	t.Helper()
	fence, err := s.Take(ctx, partition)
	if err != nil {
		t.Fatal(err)
	}
	return fence
}

func write(t *testing.T, s store.Store, partition int, fence store.Fence, changes ...store.Change) store.Fence {
	t.Helper()
	next, err := s.Write(ctx, partition, fence, changes)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func read(t *testing.T, s store.Store, partition int, space store.Space, keys ...string) ([][]byte, store.Fence) {
	t.Helper()
	var all [][]byte
	for _, key := range keys {
		all = append(all, []byte(key))
	}
	values, fence, err := s.Read(ctx, partition, space, all)
	if err != nil {
		t.Fatal(err)
	}
	if len(values) != len(keys) {
		t.Fatalf("%d values of %d keys", len(values), len(keys))
	}
	return values, fence
}

// expect compares one value; an empty text is an empty value, and nil none.
func expect(t *testing.T, s store.Store, partition int, space store.Space, key string, want []byte) {
	t.Helper()
	values, _ := read(t, s, partition, space, key)
	if !bytes.Equal(values[0], want) || (values[0] == nil) != (want == nil) {
		t.Errorf("%.40q is %.40q (nil: %v), want %.40q", key, values[0], values[0] == nil, want)
	}
}

func set(key, value string) store.Change {
	return store.Change{Space: store.Windows, Key: []byte(key), Value: []byte(value)}
}

func remove(key string) store.Change { return store.Change{Space: store.Windows, Key: []byte(key)} }

func refused(t *testing.T, s store.Store, partition int, named, found store.Fence) {
	t.Helper()
	now, err := s.Write(ctx, partition, named, []store.Change{set("refused", "x"), remove("kept")})
	if !errors.Is(err, store.ErrFenced) || now != found {
		t.Errorf("written as %v: found %v and %v, want %v", named, now, err, found)
	}
}

func untaken(t *testing.T, s store.Store) {
	values, fence := read(t, s, 7, store.Windows, "a", "b")
	if fence != (store.Fence{}) || values[0] != nil || values[1] != nil {
		t.Errorf("fence %v, values %q", fence, values)
	}
	refused(t, s, 7, store.Fence{}, store.Fence{})
	refused(t, s, 7, store.Fence{Epoch: 1, Owner: 2, N: 3}, store.Fence{})
	expect(t, s, 7, store.Windows, "refused", nil)
	first := take(t, s, 7)
	if first.Epoch != 1 || first.Owner == 0 || first.N != 0 {
		t.Errorf("the first fence is %v", first)
	}
	second := take(t, s, 7)
	if second.Epoch != 2 || second.Owner == first.Owner || second.N != 0 {
		t.Errorf("after %v the fence is %v", first, second)
	}
	if _, found := read(t, s, 7, store.Notes); found != second {
		t.Errorf("reading no key tells %v, want %v", found, second)
	}
}

func valuesComeBack(t *testing.T, s store.Store) {
	fence := take(t, s, 0)
	write(t, s, 0, fence, set("a", "1"), set("b", ""), set("\x00\xff\r\n", "\x00\xff\r\n"), set("c", "3"))
	values, _ := read(t, s, 0, store.Windows, "c", "none", "a", "c", "b", "\x00\xff\r\n")
	want := [][]byte{[]byte("3"), nil, []byte("1"), []byte("3"), {}, []byte("\x00\xff\r\n")}
	for n := range want {
		if !bytes.Equal(values[n], want[n]) || (values[n] == nil) != (want[n] == nil) {
			t.Errorf("value %d is %q (nil: %v), want %q", n, values[n], values[n] == nil, want[n])
		}
	}
}

func sizes(t *testing.T, s store.Store) {
	fence := take(t, s, 0)
	for _, n := range []int{1, 12, 63, 64, 65, 127, 128, 300, 4096, store.MaxKey} {
		fence = write(t, s, 0, fence, set(strings.Repeat("k", n), fmt.Sprint(n)))
		expect(t, s, 0, store.Windows, strings.Repeat("k", n), []byte(fmt.Sprint(n)))
	}
	for _, n := range []int{0, 1, 63, 64, 65, 127, 128, 300, 4096, 100_000, store.MaxValue} {
		value := bytes.Repeat([]byte("v"), n)
		fence = write(t, s, 0, fence, set("key", string(value)))
		expect(t, s, 0, store.Windows, "key", value)
	}
}

func growAndShrink(t *testing.T, s store.Store) {
	fence := take(t, s, 0)
	for _, n := range []int{10, 1000, 10, 64, 65, 64, -1, 65, -1, 10, -1, -1} {
		change, want := remove("key"), []byte(nil)
		if n >= 0 {
			want = bytes.Repeat([]byte("v"), n)
			change = set("key", string(want))
		}
		fence = write(t, s, 0, fence, change)
		expect(t, s, 0, store.Windows, "key", want)
		if pairs := scan(t, s, 0, store.Windows, 10); len(pairs) > 1 || len(pairs) == 1 != (want != nil) {
			t.Errorf("after a value of %d bytes the scan has %d pairs", n, len(pairs))
		}
	}
}

func apart(t *testing.T, s store.Store) {
	fences := map[int]store.Fence{}
	for _, partition := range []int{0, 1, 10, 100} {
		fences[partition] = take(t, s, partition)
		for _, space := range store.Spaces {
			value := fmt.Sprint(partition, space)
			fences[partition] = write(t, s, partition, fences[partition], store.Change{Space: space, Key: []byte("key"), Value: []byte(value)})
		}
	}
	for partition, fence := range fences {
		for _, space := range store.Spaces {
			expect(t, s, partition, space, "key", fmt.Append(nil, fmt.Sprint(partition, space)))
			if pairs := scan(t, s, partition, space, 10); len(pairs) != 1 {
				t.Errorf("%d keys in space %d of partition %d", len(pairs), space, partition)
			}
		}
		if _, found := read(t, s, partition, store.Windows); found != fence {
			t.Errorf("the fence of partition %d is %v, want %v", partition, found, fence)
		}
	}
}

func lastChange(t *testing.T, s store.Store) {
	fence := take(t, s, 0)
	fence = write(t, s, 0, fence, set("a", "1"), remove("a"), set("a", "3"), set("b", "1"), remove("b"))
	expect(t, s, 0, store.Windows, "a", []byte("3"))
	expect(t, s, 0, store.Windows, "b", nil)
	long := strings.Repeat("v", 500)
	write(t, s, 0, fence, set("a", long), set("a", "5"), set("b", "2"), set("b", long))
	expect(t, s, 0, store.Windows, "a", []byte("5"))
	expect(t, s, 0, store.Windows, "b", []byte(long))
}

func countsUp(t *testing.T, s store.Store) {
	taken := take(t, s, 0)
	fence := taken
	for n := range uint64(5) {
		next := write(t, s, 0, fence, make([]store.Change, 0)...)
		if want := (store.Fence{Epoch: taken.Epoch, Owner: taken.Owner, N: n + 1}); next != want {
			t.Errorf("after %v comes %v, want %v", fence, next, want)
		}
		if _, found := read(t, s, 0, store.Windows, "x"); found != next {
			t.Errorf("a read tells %v, want %v", found, next)
		}
		fence = next
	}
	page, err := s.Scan(ctx, 0, store.Windows, "", 10)
	if err != nil || page.Fence != fence {
		t.Errorf("a scan tells %v, %v, want %v", page.Fence, err, fence)
	}
}

func onlyTheLastFence(t *testing.T, s store.Store) {
	first := take(t, s, 0)
	second := write(t, s, 0, first, set("kept", "x"))
	other := second
	other.Owner++
	later := second.Next()
	epoch := second
	epoch.Epoch++
	for _, named := range []store.Fence{{}, first, other, later, epoch} {
		refused(t, s, 0, named, second)
	}
	expect(t, s, 0, store.Windows, "kept", []byte("x"))
	expect(t, s, 0, store.Windows, "refused", nil)
	write(t, s, 0, second, set("kept", "y"))
	expect(t, s, 0, store.Windows, "kept", []byte("y"))
}

func formerOwner(t *testing.T, s store.Store) {
	former := take(t, s, 3)
	former = write(t, s, 3, former, set("kept", "x"))
	owner := take(t, s, 3)
	refused(t, s, 3, former, owner)
	if _, found := read(t, s, 3, store.Windows, "kept"); found != owner || found == former {
		t.Errorf("the former owner reads the fence %v, want %v", found, owner)
	}
	owner = write(t, s, 3, owner, set("new", "x"))
	refused(t, s, 3, former, owner)
	expect(t, s, 3, store.Windows, "kept", []byte("x"))
	expect(t, s, 3, store.Windows, "refused", nil)
}

// Each owner reads a number, counts it up and writes it as long as it can. None is lost, none counted twice.
func manyOwners(t *testing.T, s store.Store) {
	const owners, each = 4, 25
	var owner sync.WaitGroup
	for range owners {
		owner.Go(func() {
			for done := 0; done < each; {
				done += countAsOwner(t, s, each-done)
			}
		})
	}
	owner.Wait()
	expect(t, s, 0, store.Windows, "count", fmt.Append(nil, owners*each))
}

// countAsOwner takes the partition and counts until another has taken it.
func countAsOwner(t *testing.T, s store.Store, most int) (done int) {
	fence, err := s.Take(ctx, 0)
	for ; err == nil && done < most; done++ {
		var values [][]byte
		var found store.Fence
		values, found, err = s.Read(ctx, 0, store.Windows, [][]byte{[]byte("count")})
		if err != nil || found != fence {
			break
		}
		count := 0
		fmt.Sscan(string(values[0]), &count)
		fence, err = s.Write(ctx, 0, fence, []store.Change{set("count", fmt.Sprint(count+1))})
		if err != nil {
			break
		}
	}
	if err != nil && !errors.Is(err, store.ErrFenced) {
		t.Error(err)
		return most
	}
	return done
}

// Whoever reads sees the values of one write, and the fence that it left.
func whollyOrNot(t *testing.T, s store.Store) {
	const writes = 60
	fence := take(t, s, 0)
	var keys [][]byte
	for n := range 50 {
		keys = append(keys, fmt.Appendf(nil, "key%d", n))
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := range writes {
			var changes []store.Change
			for _, key := range keys {
				changes = append(changes, store.Change{Space: store.Windows, Key: key, Value: bytes.Repeat([]byte{byte(n + 1)}, 1+n*3)})
			}
			var err error
			if fence, err = s.Write(ctx, 0, fence, changes); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for {
		values, found, err := s.Read(ctx, 0, store.Windows, keys)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range values {
			if found.N == 0 && value == nil {
				continue
			}
			if len(value) != 1+3*int(found.N-1) || value[0] != byte(found.N) {
				t.Fatalf("at %v a value has %d bytes", found, len(value))
			}
		}
		select {
		case <-ended:
			return
		default:
		}
	}
}

func scan(t *testing.T, s store.Store, partition int, space store.Space, most int) map[string]string {
	t.Helper()
	all := map[string]string{}
	from := store.Cursor("")
	for {
		page, err := s.Scan(ctx, partition, space, from, most)
		if err != nil {
			t.Fatal(err)
		}
		for _, pair := range page.Pairs {
			if _, twice := all[string(pair.Key)]; twice {
				t.Errorf("%q comes twice", pair.Key)
			}
			all[string(pair.Key)] = string(pair.Value)
		}
		if page.Next == "" {
			return all
		}
		from = page.Next
	}
}

func fill(t *testing.T, s store.Store, space store.Space, keys int) (want map[string]string, fence store.Fence) {
	t.Helper()
	fence = take(t, s, 0)
	want = map[string]string{}
	var changes []store.Change
	for n := range keys {
		key, value := fmt.Sprintf("key%d", n), strings.Repeat("v", n%150)
		want[key] = value
		changes = append(changes, store.Change{Space: space, Key: []byte(key), Value: []byte(value)})
	}
	return want, write(t, s, 0, fence, changes...)
}

func same(t *testing.T, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d keys, want %d", len(got), len(want))
	}
	for key, value := range want {
		if found, ok := got[key]; !ok || found != value {
			t.Fatalf("%q is %.40q (%v), want %.40q", key, found, ok, value)
		}
	}
}

func scanAll(t *testing.T, s store.Store) {
	for _, space := range store.Spaces {
		want, _ := fill(t, s, space, 1500)
		for _, most := range []int{1, 100, 100_000} {
			same(t, scan(t, s, 0, space, most), want)
		}
	}
}

// What was there from beginning to end comes once, whatever else goes and comes.
func scanWhileChanging(t *testing.T, s store.Store) {
	want, fence := fill(t, s, store.Windows, 1000)
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[string]bool{}
	from, gone := store.Cursor(""), map[string]bool{}
	for {
		page, err := s.Scan(ctx, 0, store.Windows, from, 50)
		if err != nil {
			t.Fatal(err)
		}
		for _, pair := range page.Pairs {
			if seen[string(pair.Key)] {
				t.Errorf("%q comes twice", pair.Key)
			}
			seen[string(pair.Key)] = true
		}
		if from = page.Next; from == "" {
			break
		}
		var changes []store.Change
		for range 20 {
			key := fmt.Sprintf("key%d", r.IntN(1500))
			if r.IntN(2) == 0 {
				gone[key] = true
				changes = append(changes, remove(key))
			} else if gone[key] || want[key] == "" {
				changes = append(changes, set(key, "new"))
			} else {
				changes = append(changes, set(key, strings.Repeat("w", r.IntN(150))))
			}
		}
		fence = write(t, s, 0, fence, changes...)
	}
	for key := range want {
		if !seen[key] && !gone[key] {
			t.Errorf("%q was there all the time and does not come", key)
		}
	}
}

func scanNothing(t *testing.T, s store.Store) {
	for _, space := range store.Spaces {
		if all := scan(t, s, 4, space, 10); len(all) > 0 {
			t.Errorf("%v", all)
		}
	}
}

func agree(t *testing.T, s store.Store) {
	for _, c := range []struct{ name, value, want string }{
		{"partitions", "16", "16"}, {"partitions", "32", "16"}, {"list", "abc", "abc"}, {"partitions", "", "16"}, {"empty", "", ""}, {"empty", "x", ""},
	} {
		found, err := s.Agree(ctx, c.name, []byte(c.value))
		if err != nil || string(found) != c.want {
			t.Errorf("%s is %q, %v, want %q", c.name, found, err, c.want)
		}
	}
}

func agreeAtOnce(t *testing.T, s store.Store) {
	found := make([]string, 8)
	var all sync.WaitGroup
	for n := range found {
		all.Go(func() {
			value, err := s.Agree(ctx, "list", fmt.Append(nil, n))
			if err != nil {
				t.Error(err)
			}
			found[n] = string(value)
		})
	}
	all.Wait()
	for _, value := range found {
		if value != found[0] || value == "" {
			t.Fatalf("not all agree: %q", found)
		}
	}
}

func bytesAreTheCallers(t *testing.T, s store.Store) {
	key, value := []byte("key"), []byte("value")
	fence := take(t, s, 0)
	fence = write(t, s, 0, fence, store.Change{Space: store.Windows, Key: key, Value: value})
	copy(key, "xxx")
	copy(value, "xxxxx")
	expect(t, s, 0, store.Windows, "key", []byte("value"))
	values, _ := read(t, s, 0, store.Windows, "key")
	write(t, s, 0, fence, set("key", "other"))
	if string(values[0]) != "value" {
		t.Errorf("a value that was read becomes %q", values[0])
	}
	copy(values[0], "xxxxx")
	expect(t, s, 0, store.Windows, "key", []byte("other"))
}

func endedContext(t *testing.T, s store.Store) {
	fence := take(t, s, 0)
	ended, end := context.WithCancel(ctx)
	end()
	_, err := s.Write(ended, 0, fence, []store.Change{set("key", "value")})
	errs := []error{err}
	_, _, err = s.Read(ended, 0, store.Windows, [][]byte{[]byte("key")})
	errs = append(errs, err)
	_, err = s.Scan(ended, 0, store.Windows, "", 1)
	errs = append(errs, err)
	_, err = s.Take(ended, 0)
	errs = append(errs, err)
	_, err = s.Agree(ended, "name", []byte("value"))
	for n, err := range append(errs, err) {
		if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrFenced) {
			t.Errorf("call %d: %v", n, err)
		}
	}
	expect(t, s, 0, store.Windows, "key", nil)
	write(t, s, 0, fence)
}

func fullCall(t *testing.T, s store.Store) {
	want, _ := fill(t, s, store.Windows, store.MaxKeys)
	keys := make([]string, 0, store.MaxKeys)
	for key := range want {
		keys = append(keys, key)
	}
	values, _ := read(t, s, 0, store.Windows, keys...)
	for n, key := range keys {
		if string(values[n]) != want[key] {
			t.Fatalf("%q is %q", key, values[n])
		}
	}
	if err := s.Sync(ctx); err != nil {
		t.Error(err)
	}
}

// Random writes by owners that come and go.
func model(t *testing.T, s store.Store) {
	r := rand.New(rand.NewPCG(3, 4))
	want := map[store.Space]map[string]string{}
	for _, space := range store.Spaces {
		want[space] = map[string]string{}
	}
	fence := take(t, s, 5)
	for range 300 {
		if r.IntN(20) == 0 {
			former := fence
			fence = take(t, s, 5)
			refused(t, s, 5, former, fence)
		}
		var changes []store.Change
		for range r.IntN(30) {
			c := store.Change{Space: store.Spaces[r.IntN(3)], Key: fmt.Appendf(nil, "%0*d", 1+60*r.IntN(2)*r.IntN(2), r.IntN(40))}
			if r.IntN(3) > 0 {
				c.Value = bytes.Repeat([]byte("v"), r.IntN(130))
				want[c.Space][string(c.Key)] = string(c.Value)
			} else {
				delete(want[c.Space], string(c.Key))
			}
			changes = append(changes, c)
		}
		fence = write(t, s, 5, fence, changes...)
	}
	for _, space := range store.Spaces {
		same(t, scan(t, s, 5, space, 7), want[space])
		for key, value := range want[space] {
			expect(t, s, 5, space, key, []byte(value))
		}
	}
}

func reopen(t *testing.T, open func() store.Store) {
	s := open()
	want, fence := fill(t, s, store.Windows, 500)
	if _, err := s.Agree(ctx, "partitions", []byte("16")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open()
		same(t, scan(t, s, 0, store.Windows, 100), want)
		want["again"] = "x"
		fence = write(t, s, 0, fence, set("again", "x"))
		if found, err := s.Agree(ctx, "partitions", []byte("32")); err != nil || string(found) != "16" {
			t.Errorf("%q, %v", found, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

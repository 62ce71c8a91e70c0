package evidence

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/pkg/request"
)

// A twin keeps every request in a list.
type twin struct {
	hash  uint64
	at    int64
	shown Request
}

// On random input, the ring has the newest requests of each key among those that still fit: never one of another key,
// never one missing between two that it has, and all as long as less than the ring's size was written.
func TestRingIsItsTwin(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	ring := NewRing(MinRing)
	rule := ring.Rule("per-ip")
	var all []twin
	var sizes []int
	for batch := range 400 {
		b := ring.Buffer()
		for range random.IntN(40) {
			key := fmt.Sprintf("key %d", random.IntN(1+random.IntN(60)))
			r := request.Request{
				UnixMilli: int64(batch*1000 + random.IntN(1000)), IP: netip.AddrFrom4([4]byte{192, 0, 2, byte(random.IntN(256))}), Method: "GET",
				Host: "shop.example", Path: "/" + strings.Repeat("p", random.IntN(250)), Query: strings.Repeat("a=b&", random.IntN(30)), Status: 200,
				Agent: strings.Repeat("agent ", random.IntN(40)),
			}
			hash := ring.Hash(rule, []byte(key))
			before := len(b.bytes)
			b.Add(hash, &r)
			one := stored(b.bytes[before:])
			if one.size() > MaxBytes || one.size() != len(one) {
				t.Fatalf("a request of %d bytes, its size says %d", len(one), one.size())
			}
			all, sizes = append(all, twin{hash, r.UnixMilli, one.shown()}), append(sizes, one.size())
		}
		ring.Put(b)
		check(t, ring, all, sizes, random)
	}
}

func check(t *testing.T, ring *Ring, all []twin, sizes []int, random *rand.Rand) {
	t.Helper()
	if len(all) == 0 {
		return
	}
	hash, most, upTo := all[random.IntN(len(all))].hash, 1+random.IntN(20), int64(math.MaxInt64)
	if random.IntN(2) == 0 {
		upTo = all[random.IntN(len(all))].at
	}

	// A request at the end of the ring leaves up to MaxBytes unused.
	var sure, possible []Request
	bytes := 0
	for i, one := range slices.Backward(all) {
		bytes += sizes[i]
		if one.hash != hash || one.at > upTo {
			continue
		}
		if bytes <= MinRing-MaxBytes && len(sure) < most {
			sure = append(sure, one.shown)
		}
		if bytes <= MinRing && len(possible) < most {
			possible = append(possible, one.shown)
		}
	}
	newestFirst(sure)
	got := ring.Find(hash, upTo, most)
	if len(got) < len(sure) || len(got) > len(possible) {
		t.Fatalf("%d requests, expected %d to %d", len(got), len(sure), len(possible))
	}
	if len(got) == len(sure) && !slices.Equal(got, sure) {
		t.Fatalf("got\n%v\nexpected\n%v", got, sure)
	}
}

// A key that sends very many requests does not occupy the ring's lock for long: Find gives up.
func TestFindIsBounded(t *testing.T) {
	ring := NewRing(16 << 20)
	hash := ring.Hash(ring.Rule("r"), []byte("key"))
	b := ring.Buffer()
	for i := range 3 * maxSteps {
		b.Add(hash, &request.Request{UnixMilli: int64(i)})
		if b.Full() {
			ring.Put(b)
			b = ring.Buffer()
		}
	}
	ring.Put(b)
	if got := ring.Find(hash, 10, 5); len(got) != 0 {
		t.Errorf("it found %v", got)
	}
	if got := ring.Find(hash, math.MaxInt64, 5); len(got) != 5 || !got[0].Time.Equal(time.UnixMilli(3*maxSteps-1)) {
		t.Errorf("it found %v", got)
	}
}

// Copying a request allocates nothing.
func TestAddingAllocatesNothing(t *testing.T) {
	ring := NewRing(1 << 20)
	rule, key := ring.Rule("per-ip"), []byte("192.0.2.1")
	r := request.Request{UnixMilli: 1, IP: netip.MustParseAddr("192.0.2.1"), Method: "GET", Path: "/", Agent: strings.Repeat("a", 300)}
	for range 2000 { // the buffer grows
		add(ring, rule, key, &r)
	}
	if n := testing.AllocsPerRun(1000, func() { add(ring, rule, key, &r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func add(ring *Ring, rule uint64, key []byte, r *request.Request) {
	b := ring.Buffer()
	b.Add(ring.Hash(rule, key), r)
	ring.Put(b)
}

func BenchmarkAdd(b *testing.B) {
	ring := NewRing(16 << 20)
	rule, key := ring.Rule("per-ip"), []byte("192.0.2.1")
	r := request.Request{UnixMilli: 1, IP: netip.MustParseAddr("192.0.2.1"), Method: "GET", Path: "/products/17", Query: "page=3", Host: "shop.example",
		Agent: "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", Status: 200}
	b.ReportAllocs()
	buffer := ring.Buffer()
	for b.Loop() {
		buffer.Add(ring.Hash(rule, key), &r)
		if buffer.Full() {
			ring.Put(buffer)
			buffer = ring.Buffer()
		}
	}
}

func BenchmarkFind(b *testing.B) {
	ring := NewRing(16 << 20)
	rule := ring.Rule("per-ip")
	buffer := ring.Buffer()
	r := request.Request{UnixMilli: 1, Method: "GET", Path: "/products/17", Agent: strings.Repeat("a", 80), Status: 200}
	for i := range 200_000 {
		buffer.Add(ring.Hash(rule, fmt.Appendf(nil, "key %d", i%5000)), &r)
		if buffer.Full() {
			ring.Put(buffer)
			buffer = ring.Buffer()
		}
	}
	b.ResetTimer()
	for i := range b.N {
		if got := ring.find(ring.Hash(rule, fmt.Appendf(nil, "key %d", i%5000)), math.MaxInt64, 5); len(got) != 5 {
			b.Fatal(len(got))
		}
	}
}

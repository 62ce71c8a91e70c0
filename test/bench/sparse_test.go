package bench

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// A sparse site has many clients that come, make a few requests and do not come again: half of them make five at most,
// and all make 13.5 on average. Some make theirs within a minute and others take days. It has the shape of real logs of
// public sites, and is the same at every run except for its date.
type sparse struct {
	random *rand.Rand
	next   time.Time // when the next client comes
	number uint32    // of clients so far
	visits visits
}

// A visit is the rest of a client's requests.
type visit struct {
	client string
	at     time.Time // of the next one
	gap    float64   // the mean time until the one after it
	left   int
}

const (
	sparseLines   = 13.5 // of a client, on average
	sparseArrival = sparseLines * float64(meanGap)
	sparseRamp    = 12 * time.Hour // at the beginning it has fewer clients at once, so its first lines take longer
)

func newSparse(begin time.Time) *sparse {
	return &sparse{random: rand.New(rand.NewPCG(3, 4)), next: begin}
}

func (s *sparse) line() (text, client string, at time.Time) {
	for len(s.visits) == 0 || s.next.Before(s.visits[0].at) {
		heap.Push(&s.visits, s.visit())
		s.next = s.next.Add(time.Duration(s.random.ExpFloat64() * sparseArrival))
	}

	v := &s.visits[0]
	client, at = v.client, v.at
	page := s.random.IntN(500)
	text = fmt.Sprintf("%s - - [%s] \"POST /api/v2/item/%d HTTP/1.1\" 200 %d \"-\" \"Dalvik/2.1.0 (Linux; U; Android 5.1.1; vivo V3 Build/LMY47V)\"",
		client, at.Format(clf), page, 30+page)

	if v.left--; v.left == 0 {
		heap.Pop(&s.visits)
	} else {
		v.at = v.at.Add(time.Duration(s.random.ExpFloat64() * v.gap))
		heap.Fix(&s.visits, 0)
	}
	return text, client, at.Truncate(time.Second)
}

// visit is that of a client that comes next. Its address looks random, and each client has another one.
func (s *sparse) visit() visit {
	n := s.number * 0x9e3779b1 >> 8 // an odd factor gives each number of 24 bits another one
	s.number += 1 << 8
	lines := 1 + int(4.9*math.Exp(1.4*s.random.NormFloat64()))
	gap := 300 * float64(time.Second) * math.Exp(2*s.random.NormFloat64())
	return visit{fmt.Sprintf("23.%d.%d.%d", n>>16, n>>8&255, n&255), s.next, gap, lines}
}

// visits are a heap by their times.
type visits []visit

func (v visits) Len() int           { return len(v) }
func (v visits) Less(i, j int) bool { return v[i].at.Before(v[j].at) }
func (v visits) Swap(i, j int)      { v[i], v[j] = v[j], v[i] }
func (v *visits) Push(x any)        { *v = append(*v, x.(visit)) }
func (v *visits) Pop() any {
	last := (*v)[len(*v)-1]
	*v = (*v)[:len(*v)-1]
	return last
}

func TestSparse(t *testing.T) {
	const lines = 1_000_000
	begin := time.Now().Add(-lines*meanGap - sparseRamp)
	site, truth := newSparse(begin), newTextbook()
	var was time.Time
	for range lines {
		_, client, at := site.line()
		if at.Before(was) {
			t.Fatalf("%v comes after %v", at, was)
		}
		truth.add(client, at)
		was = at
	}

	if was.After(time.Now()) {
		t.Errorf("the last line is of %v", was)
	}
	clients, offenders := len(truth.times), len(truth.offenders)
	t.Logf("%d clients, %d offenders, %v", clients, offenders, was.Sub(begin))
	if each := lines / clients; each < 8 || each > 14 {
		t.Errorf("%d clients have %d lines each", clients, each)
	}
	if offenders < clients/200 || offenders > clients/20 {
		t.Errorf("%d of %d clients are offenders", offenders, clients)
	}
}

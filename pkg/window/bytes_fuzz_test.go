package window

import (
	"reflect"
	"testing"
	"time"
)

// Whatever is read,
//   - it does not panic, and holds no more memory than its bytes and the bound justify;
//   - what was taken is written and read back as it is;
//   - and it can be hit.
func FuzzRead(f *testing.F) {
	policies := make([]*Policy, algorithms, algorithms+3)
	for i := range policies {
		policies[i] = mustNew(f, Config{Algorithm: Algorithm(i), Limits: []Limit{{10, time.Minute}, {1000, time.Hour}, {1_000_000, time.Hour}},
			Late: time.Minute, Remember: minRemember, Subwindows: 3, Block: Block{For: time.Minute, Extend: i%2 == 0}})
		var s State
		for j := range int64(40) {
			policies[i].Hit(&s, someTime+j*997, 1+j%3)
			f.Add(byte(i), policies[i].Append(nil, &s))
		}
		policies[i].Unblock(&s, someTime)
		f.Add(byte(i), policies[i].Append(nil, &s))
	}
	atOnce := mustNew(f, Config{Algorithm: Token, Limits: []Limit{{10, time.Minute}, {20, time.Minute}}, AtOnce: []int{0}, Block: Block{For: time.Minute}})
	var s State
	for j := range int64(10) {
		atOnce.Take(&s, someTime+j*997, 1+j%3)
		f.Add(byte(algorithms), atOnce.Append(nil, &s))
	}
	policies = append(policies, atOnce)
	for _, lasts := range []time.Duration{time.Second, time.Hour} {
		distinct := mustNew(f, Config{Distinct: 7, Limits: []Limit{{3, time.Minute}, {8, time.Hour}}, Late: time.Minute, Block: Block{For: lasts}})
		var s State
		for j := range int64(40) {
			distinct.HitValue(&s, someTime+j*997, uint64(j%7))
			f.Add(byte(len(policies)), distinct.Append(nil, &s))
		}
		policies = append(policies, distinct)
	}
	f.Fuzz(func(t *testing.T, which byte, b []byte) {
		p := policies[int(which)%len(policies)]
		var s, back State
		if p.Read(b, &s) != nil {
			return
		}
		if most := 64*len(b) + 3*16*2*minRemember + 1000; s.Bytes() > most {
			t.Fatalf("%d bytes are held of %d", s.Bytes(), len(b))
		}
		written := p.Append(nil, &s)
		if err := p.Read(written, &back); err != nil {
			t.Fatalf("%x reads as %+v, written as %x: %v", b, s, written, err)
		}
		if again := p.Append(nil, &back); !reflect.DeepEqual(again, written) {
			t.Fatalf("%x is written again as %x", written, again)
		}
		if p.AtOnce() {
			p.Take(&s, s.newest, 1)
			p.End(&s, MaxTime, s.newest, 1)
			return
		}
		p.HitValue(&s, s.newest, 1)
		p.HitValue(&s, max(0, s.newest-2000), 2)
		p.Hit(&s, s.newest, 1)
		p.Hit(&s, max(0, s.newest-1000), 3)
		p.Hit(&s, MaxTime, 1)
	})
}

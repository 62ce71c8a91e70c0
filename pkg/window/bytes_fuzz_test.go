package window

import (
	"reflect"
	"testing"
	"time"
)

// Any bytes that are read
//   - cause no panic, and take no more memory than their number and the bound justify;
//   - are written and read back as they are if they were accepted;
//   - and can be hit then.
func FuzzRead(f *testing.F) {
	policies := make([]*Policy, algorithms, algorithms+9)
	for i := range policies {
		policies[i] = mustNew(f, Config{Algorithm: Algorithm(i), Limits: []Limit{{10, time.Minute}, {1000, time.Hour}, {1_000_000, time.Hour}},
			Late: time.Minute, Remember: minRemember, Subwindows: 3, Block: Block{For: time.Minute, Extend: i%2 == 0}})
		var s State
		for j := range int64(40) {
			policies[i].Hit(&s, someTime+j*997, 1+j%3)
			f.Add(byte(i), policies[i].Append(nil, &s))
		}
		policies[i].Waive(&s, s.newest-1)
		f.Add(byte(i), policies[i].Append(nil, &s))
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
		distinct.Waive(&s, s.newest-1)
		f.Add(byte(len(policies)), distinct.Append(nil, &s))
		policies = append(policies, distinct)

		members := mustNew(f, Config{Distinct: 7, Members: true, Passes: lasts == time.Hour, Limits: []Limit{{3, time.Minute}, {8, time.Hour}}, Late: time.Minute, Block: Block{For: lasts}})
		s = State{}
		for j := range int64(40) {
			members.HitMember(&s, MemberBlock{At: someTime + j*997, Value: uint64(j % 7), ID: uint64(j % 11), Gone: j%5 == 0})
			members.HitMember(&s, MemberBlock{At: someTime + j*997 + 500, Value: uint64(j % 7), ID: uint64(j%11) | MemberEnd, Gone: j%3 == 0})
			f.Add(byte(len(policies)), members.Append(nil, &s))
		}
		policies = append(policies, members)
	}
	for _, late := range []time.Duration{0, time.Minute} {
		share := mustNew(f, Config{Share: &Share{Of: 7, Over: 500_000}, Limits: []Limit{{3, time.Minute}}, Late: late, Block: Block{For: time.Second}})
		share.share.most = 16
		var s State
		for j := range int64(40) {
			share.HitValue(&s, someTime+j*997, uint64(j%3/2))
			f.Add(byte(len(policies)), share.Append(nil, &s))
		}
		policies = append(policies, share)
	}
	for _, late := range []time.Duration{0, time.Minute} {
		estimated := mustEstimate(f, Config{Distinct: 7, Limits: []Limit{{5000, time.Minute}}, Late: late, Block: Block{For: time.Second}}, 3)
		var s State
		for j := range int64(40) {
			estimated.HitValue(&s, someTime+j*997, uint64(j%7))
			f.Add(byte(len(policies)), estimated.Append(nil, &s))
		}
		for j := range uint64(3000) {
			estimated.HitValue(&s, someTime+60_000, j)
		}
		f.Add(byte(len(policies)), estimated.Append(nil, &s))
		policies = append(policies, estimated)
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
		if p.CountsMembers() {
			p.HitMember(&s, MemberBlock{At: s.newest, Value: 1, ID: 1})
			p.HitMember(&s, MemberBlock{At: max(0, s.newest-2000), Value: 2, ID: 2})
			p.HitMember(&s, MemberBlock{At: MaxTime, Value: 3, ID: 1, Gone: true})
			p.HitMember(&s, MemberBlock{At: s.newest, Value: 1, ID: 1 | MemberEnd})
			return
		}
		p.HitValue(&s, s.newest, 1)
		p.HitValue(&s, max(0, s.newest-2000), 2)
		p.Hit(&s, s.newest, 1)
		p.Hit(&s, max(0, s.newest-1000), 3)
		p.Judge(&s, s.newest+1)
		p.Hit(&s, MaxTime, 1)
		p.Judge(&s, MaxTime)
	})
}

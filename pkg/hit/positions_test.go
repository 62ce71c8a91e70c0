package hit

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

// A cut is what a test sends: a source, from, to, and of how many parts which, from 0.
func cut(source string, from, to int64, part, parts int) Header {
	return Header{Source: source, From: from, To: to, Part: part, More: part < parts-1}
}

func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		applied  []Header
		then     Header
		checksum uint64 // of then; those applied have that of their part
		want     Verdict
	}{
		"an unknown source":               {nil, cut("s", 100, 200, 0, 1), 0, Apply},
		"an unknown source's second part": {nil, cut("s", 100, 200, 1, 2), 0, Apply},
		"the next":                        {[]Header{cut("s", 0, 100, 0, 1)}, cut("s", 100, 200, 0, 1), 9, Apply},
		"a later one":                     {[]Header{cut("s", 0, 100, 0, 1)}, cut("s", 500, 600, 0, 1), 9, Apply},
		"another source":                  {[]Header{cut("s", 0, 100, 0, 1)}, cut("t", 0, 100, 0, 1), 9, Apply},
		"the same":                        {[]Header{cut("s", 0, 100, 0, 1)}, cut("s", 0, 100, 0, 1), 0, Seen},
		"an earlier one":                  {[]Header{cut("s", 0, 100, 0, 1), cut("s", 100, 200, 0, 1)}, cut("s", 0, 100, 0, 1), 0, Seen},
		"one within":                      {[]Header{cut("s", 0, 100, 0, 1)}, cut("s", 50, 80, 0, 1), 9, Seen},
		"the same to, another checksum":   {[]Header{cut("s", 0, 100, 0, 1)}, cut("s", 0, 100, 0, 1), 9, Conflict},
		"the same to, another from":       {[]Header{cut("s", 0, 100, 0, 1)}, cut("s", 50, 100, 0, 1), 0, Conflict},
		"an overlap":                      {[]Header{cut("s", 0, 100, 0, 1)}, cut("s", 99, 200, 0, 1), 9, Conflict},
		"all of it and more":              {[]Header{cut("s", 50, 100, 0, 1)}, cut("s", 0, 200, 0, 1), 9, Conflict},
		"the next part":                   {[]Header{cut("s", 0, 100, 0, 2)}, cut("s", 0, 100, 1, 2), 9, Apply},
		"the next part's next":            {[]Header{cut("s", 0, 100, 0, 3), cut("s", 0, 100, 1, 3)}, cut("s", 0, 100, 2, 3), 9, Apply},
		"an earlier part":                 {[]Header{cut("s", 0, 100, 0, 2), cut("s", 0, 100, 1, 2)}, cut("s", 0, 100, 0, 2), 0, Seen},
		"the same part":                   {[]Header{cut("s", 0, 100, 0, 2), cut("s", 0, 100, 1, 2)}, cut("s", 0, 100, 1, 2), 1, Seen},
		"the same part, other checksum":   {[]Header{cut("s", 0, 100, 0, 2), cut("s", 0, 100, 1, 2)}, cut("s", 0, 100, 1, 2), 9, Conflict},
		"a part too many":                 {[]Header{cut("s", 0, 100, 0, 1)}, cut("s", 0, 100, 1, 2), 9, Conflict},
		"a part left out":                 {[]Header{cut("s", 0, 100, 0, 3)}, cut("s", 0, 100, 2, 3), 9, Conflict},
		"a part of another beginning":     {[]Header{cut("s", 0, 100, 0, 2)}, cut("s", 50, 100, 1, 2), 9, Conflict},
		"behind a cut not finished":       {[]Header{cut("s", 0, 100, 0, 2)}, cut("s", 100, 200, 0, 1), 9, Apply},
	} {
		p := NewPositions(10, day)
		for _, h := range c.applied {
			if v := p.Judge(h, uint64(h.Part), 0); v != Apply {
				t.Errorf("%s: %+v: %v", name, h, v)
			}
		}
		before := p.Append(nil)
		if v := p.Judge(c.then, c.checksum, 0); v != c.want {
			t.Errorf("%s: %v, want %v", name, v, c.want)
		}
		if c.want != Apply && !bytes.Equal(p.Append(nil), before) {
			t.Errorf("%s: %v changes a position", name, c.want)
		}
	}
}

func TestSilentSourcesAreForgotten(t *testing.T) {
	const ms = int64(day / time.Millisecond)
	p := NewPositions(10, day)
	p.Judge(cut("silent", 0, 100, 0, 1), 1, 0)
	p.Judge(cut("sends again", 0, 100, 0, 1), 1, 0)
	p.Judge(cut("contradicts", 0, 100, 0, 1), 1, 0)
	p.Judge(cut("sends again", 0, 100, 0, 1), 1, 10)
	p.Judge(cut("contradicts", 50, 150, 0, 1), 1, 10)
	if v := p.Judge(cut("silent", 0, 100, 0, 1), 1, ms); v != Seen {
		t.Errorf("silent for a retention: %v", v)
	}
	p.Judge(cut("loud", 0, 100, 0, 1), 1, ms+5)
	if p.Append(nil); p.Len() != 4 {
		t.Errorf("%d sources are remembered", p.Len())
	}
	p.Judge(cut("loud", 0, 100, 0, 1), 1, 2*ms+1)
	if p.Append(nil); p.Len() != 1 {
		t.Errorf("%d sources are remembered", p.Len())
	}
	if v := p.Judge(cut("silent", 0, 100, 0, 1), 2, 0); v != Apply {
		t.Errorf("silent for longer than a retention: %v", v)
	}
	if v := p.Judge(cut("silent", 0, 100, 0, 1), 2, 0); v != Seen {
		t.Errorf("a record of old time: %v", v)
	}
}

// A source that is silent is unknown also before anything has made Positions forget it.
func TestSilenceDoesNotDependOnWhenItIsForgotten(t *testing.T) {
	for _, forget := range []bool{false, true} {
		p := NewPositions(10, time.Second)
		p.Judge(cut("s", 0, 100, 0, 1), 1, 0)
		p.Judge(cut("t", 0, 100, 0, 1), 1, 1001)
		if forget {
			p.Append(nil)
		}
		if v := p.Judge(cut("s", 50, 150, 0, 1), 1, 500); v != Apply {
			t.Errorf("forgotten before: %v: %v", forget, v)
		}
	}
}

func TestThereAreNoMoreSourcesThanTheLimit(t *testing.T) {
	p := NewPositions(3, time.Second)
	for n := range 5 {
		want := Apply
		if n >= 3 {
			want = Full
		}
		if v := p.Judge(cut(fmt.Sprint(n), 0, 1, 0, 1), 1, int64(n)); v != want {
			t.Errorf("source %d: %v", n, v)
		}
	}
	if v := p.Judge(cut("0", 1, 2, 0, 1), 1, 5); v != Apply || p.Len() != 3 {
		t.Errorf("a source that is known: %v", v)
	}
	if v := p.Judge(cut("9", 0, 1, 0, 1), 1, 1002); v != Apply || p.Len() != 3 {
		t.Errorf("one more when one is silent: %v, %d sources", v, p.Len())
	}
}

func TestBytesOfPositions(t *testing.T) {
	p := NewPositions(5000, day)
	const sources = 2000
	for n := range sources {
		p.Judge(cut(fmt.Sprintf("access.log/5f0c9be24c1d4a55b0c6a3c1f1d2e3f4/%08x", n*7919), int64(n)<<20, int64(n)<<20+200_000, 0, 1), uint64(n)<<40, 1_700_000_000_000+int64(n))
	}
	b := p.Append(nil)
	t.Logf("%d bytes a source", len(b)/sources)
	if len(b) > 32*sources {
		t.Errorf("%d bytes for %d sources", len(b), sources)
	}
	read := NewPositions(5, day)
	if err := read.Read(b); err != nil || read.Len() != sources || !bytes.Equal(read.Append(nil), b) {
		t.Errorf("%d sources are read, %v", read.Len(), err)
	}
	if v := read.Judge(cut("one more", 0, 1, 0, 1), 1, 0); v != Full {
		t.Errorf("more than the limit are read; one more: %v", v)
	}
}

func TestDamagedPositionsAreRefused(t *testing.T) {
	p := NewPositions(10, day)
	p.Judge(cut("a", 0, 100, 0, 1), 1, 0)
	p.Judge(cut("b", 5, 100, 1, 3), 1, 0)
	b := p.Append(nil)
	refused := func(what string, b []byte, as error) {
		if err := p.Read(b); !errors.Is(err, as) || p.Len() != 2 {
			t.Errorf("%s: %v, %d sources", what, err, p.Len())
		}
	}
	for n := range b {
		refused("cut short", b[:n], ErrDamaged)
	}
	for bit := 8; bit < 8*len(b); bit++ {
		b[bit/8] ^= 1 << (bit % 8)
		refused("a bit changed", b, ErrDamaged)
		b[bit/8] ^= 1 << (bit % 8)
	}
	refused("a newer version", seal(append([]byte{2}, b[1:len(b)-checksumBytes]...), 0), ErrNewer)
	refused("another version without its checksum", append([]byte{2}, b[1:]...), ErrDamaged)
	const a, bb = "\x00\x01a\x00\x01\x0012345678\x00", "\x00\x01b\x00\x01\x0012345678\x00"
	refused("more than there are", sealed("\x00\x02"+a), ErrDamaged)
	refused("something left", sealed("\x00\x01"+a+"\x00"), ErrDamaged)
	refused("not in order", sealed("\x00\x02"+bb+a), ErrDamaged)
	refused("twice", sealed("\x00\x02"+a+"\x01"+a[2:]), ErrDamaged)
	refused("sharing more than there is", sealed("\x00\x01\x01"+a[1:]), ErrDamaged)
	refused("too long a name", sealed("\x00\x01\x00\xe1\x03"+strings.Repeat("s", 481)+a[3:]), ErrDamaged)
	if err := p.Read(sealed("\x00\x02" + a + bb)); err != nil {
		t.Errorf("and these are sound: %v", err)
	}
}

// A batch that a crash has its collector send again has its clock of the first time. One of a collector whose machine was
// set back has a later one, though its positions were counted.
func TestACollectorThatWentBackIsNoticed(t *testing.T) {
	const at = int64(1_800_000_000_000)
	made := func(from, to, clock int64) Header {
		h := cut("s", from, to, 0, 1)
		h.Clock = clock
		return h
	}
	for name, c := range map[string]struct {
		then Header
		want bool
	}{
		"sent again":              {made(0, 100, at-1000), false},
		"the next":                {made(200, 300, at+hour), false},
		"made again":              {made(0, 50, at+hour), true},
		"an overlap":              {made(150, 300, at+hour), true},
		"a clock somewhat ahead":  {made(0, 50, at+wentBack), false},
		"an unknown source's":     {Header{Source: "t", To: 10, Clock: at + hour}, false},
		"the clock is behind now": {made(0, 50, at-hour), false},
	} {
		p := NewPositions(10, day)
		p.Judge(made(0, 100, at-1000), 0, at-900)
		p.Judge(made(100, 200, at-10), 0, at)
		if got := p.WentBack(c.then); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

const hour = int64(3600_000)

package evidence

import (
	"errors"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"weir/pkg/request"
)

// kept is what a ring returns of one request.
func kept(t *testing.T, r *request.Request) Request {
	t.Helper()
	ring := NewRing(MinRing)
	add(ring, ring.Rule("r"), []byte("k"), r)
	got := ring.Find(ring.Hash(ring.Rule("r"), []byte("k")), math.MaxInt64, 1)
	if len(got) != 1 {
		t.Fatalf("%d requests", len(got))
	}
	return got[0]
}

// A client's texts are bounded and printable, and show no secret of a query.
func TestHostileTexts(t *testing.T) {
	long := strings.Repeat("x", 10<<10)
	for _, c := range []struct{ r, want Request }{
		{
			Request{Method: "GET", Host: "shop.example", Path: "/a?token=secret&b=1;c=2&d&=e&f=", Agent: "curl/8"},
			Request{Method: "GET", Host: "shop.example", Path: "/a?token=***&b=***;c=***&d&=***&f=", Agent: "curl/8"},
		},
		{
			Request{Method: "G\x00T", Host: "\u202ehost", Path: "/\x1b[31m\xff?q=a b<script>&x\n=y", Agent: "Bearer abc Basic def\u2028"},
			Request{Method: `G\x00T`, Host: `\xe2\x80\xaehost`, Path: `/\x1b[31m\xff?q=***&x\x0a=***`, Agent: `Bearer *** Basic ***`},
		},
		{
			Request{Path: "/<script>alert(1)</script>", Agent: `=cmd|' /C calc'!A0`},
			Request{Path: "/<script>alert(1)</script>", Agent: `=cmd|' /C calc'!A0`},
		},
		{
			Request{Method: long, Host: long, Path: "/" + long, Agent: long},
			Request{Method: long[:16], Host: long[:64], Path: "/" + long[:175] + "…", Agent: long[:120] + "…"},
		},
		{Request{Path: "/a?" + long + "=secret"}, Request{Path: "/a?" + long[:80] + "…"}},
		{Request{Path: "/" + strings.Repeat("é", 200)}, Request{Path: "/" + strings.Repeat("é", 87) + "…"}},
	} {
		path, query, _ := strings.Cut(c.r.Path, "?")
		r := request.Request{IP: netip.MustParseAddr("2001:db8::1"), Method: c.r.Method, Host: c.r.Host, Path: path, Query: query, Agent: c.r.Agent, Status: 404}
		want := c.want
		want.Time, want.Client, want.Status = time.UnixMilli(0).UTC(), "2001:db8::1", 404
		if got := kept(t, &r); got != want {
			t.Errorf("got\n%+v\nexpected\n%+v", got, want)
		}
	}
}

// The shown text of any request is printable and short, and comes back from its record.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "host", "/path", "a=b&c", "agent", 200, int64(1))
	f.Add("\xff", "\x00", "?\u202e", "=;&=&", "bearer \xff", -1, int64(-1))
	f.Fuzz(func(t *testing.T, method, host, path, query, agent string, status int, at int64) {
		one := kept(t, &request.Request{UnixMilli: at % (1 << 42), Method: method, Host: host, Path: path, Query: query, Agent: agent, Status: status})
		for _, text := range []string{one.Method, one.Host, one.Path, one.Agent} {
			if !utf8.ValidString(text) || len(text) > maxShown+len("…") || strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Errorf("%q", text)
			}
		}
		r := Record{ID: "1", Rule: "r", Key: "k", Most: 1, Requests: []Request{one}}
		line, err := r.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Parse(line); err != nil || !slices.Equal(back.Requests, r.Requests) {
			t.Errorf("%v: %+v became %+v", err, r, back)
		}
	})
}

// No bytes make Parse panic, and what it accepts is within bounds and can be written again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"v":1,"id":"0123456789abcdef","rule":"per-ip","key":"192.0.2.1","counted":11,"evidence":5,"collector":"c","requests":[{"time":"2026-11-23T20:00:00Z","path":"/"}]}`))
	f.Add([]byte(`{"v":2}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
				t.Error(err)
			}
			return
		}
		if len(r.Requests) > MaxRequests || r.ID == "" || r.Most > MaxRequests {
			t.Errorf("%+v", r)
		}
		if _, err := r.Append(nil); err != nil {
			t.Error(err)
		}
	})
}

// Records of several collectors are merged by time, and a request that was sent again is kept once.
func TestMerge(t *testing.T) {
	at := func(second int, path string) Request {
		return Request{Time: time.Unix(int64(second), 0).UTC(), Path: path}
	}
	r := Record{Counted: 4, Most: 4, Requests: []Request{at(9, "/a"), at(5, "/a"), at(5, "/a"), at(1, "/a")}}
	r.Merge(&Record{Counted: 3, Most: 4, Requests: []Request{at(7, "/b"), at(5, "/a"), at(5, "/a"), at(2, "/b")}})
	want := []Request{at(9, "/a"), at(7, "/b"), at(5, "/a"), at(5, "/a")}
	if !slices.Equal(r.Requests, want) || r.Counted != 4 {
		t.Errorf("got %+v, expected %v", r, want)
	}
}

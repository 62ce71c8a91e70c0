package limited

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

func from(address string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.RemoteAddr = address
	return r
}

// One address takes at most half of the places, and all places come back.
func TestPlacesAreSharedByAddresses(t *testing.T) {
	p := NewPlaces(4)
	var leave []func()
	for _, test := range []struct {
		address string
		ok      bool
	}{
		{"192.0.2.1:1", true}, {"192.0.2.1:2", true}, {"192.0.2.1:3", false}, {"[::ffff:192.0.2.1]:4", false},
		{"[2001:db8::1]:1", true}, {"127.0.0.1:1", true}, {"[2001:db8::2]:1", false}, {"127.0.0.1:2", false}, {"@", false},
	} {
		left, ok := p.TryTake(from(test.address))
		if ok != test.ok {
			t.Errorf("%s: %v", test.address, ok)
		}
		if ok {
			leave = append(leave, left)
		}
	}
	for _, left := range leave {
		left()
	}
	if p.Taken() != 0 || len(p.of) != 0 {
		t.Errorf("%d places and %d addresses are left", p.Taken(), len(p.of))
	}
}

// A request that waits gets the place that becomes free.
func TestPlacesAreWaitedFor(t *testing.T) {
	p := NewPlaces(2)
	first, _ := p.TryTake(from("192.0.2.1:1"))
	got := make(chan bool)
	go func() {
		leave, ok := p.Take(context.Background(), from("192.0.2.1:2"))
		if ok {
			leave()
		}
		got <- ok
	}()
	first()
	if !<-got {
		t.Error("no place")
	}
}

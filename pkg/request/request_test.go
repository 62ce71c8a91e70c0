package request

import (
	"net/netip"
	"testing"
)

func TestTextIsAView(t *testing.T) {
	buffer := []byte("first")
	text := Text(buffer)
	if text != "first" || Text(nil) != "" {
		t.Errorf("Text gave %q", text)
	}
	copy(buffer, "other")
	if text != "other" {
		t.Errorf("Text copied: %q", text)
	}
}

func TestFieldByName(t *testing.T) {
	r := Request{IP: netip.MustParseAddr("192.0.2.1"), User: "alice", Method: "GET", Host: "example.com", Path: "/a", Query: "b=c",
		Status: 404, Bytes: 0, Agent: "curl", Referrer: "-r-", Fields: []Field{{"tenant", "acme"}, {"tenant", "second"}}}
	for name, want := range map[string]string{"ip": "192.0.2.1", "user": "alice", "method": "GET", "host": "example.com", "path": "/a",
		"query": "b=c", "status": "404", "bytes": "0", "agent": "curl", "referrer": "-r-", "tenant": "acme"} {
		if got, ok := r.Field(name); !ok || got != want {
			t.Errorf("Field(%q) = %q, %v, want %q", name, got, ok, want)
		}
	}
	r.Reset()
	for _, name := range []string{"ip", "user", "method", "host", "path", "query", "status", "bytes", "agent", "referrer", "tenant", "nothing"} {
		if got, ok := r.Field(name); ok {
			t.Errorf("after Reset, Field(%q) = %q", name, got)
		}
	}
	if cap(r.Fields) == 0 {
		t.Error("Reset gave the memory of the fields away")
	}
}

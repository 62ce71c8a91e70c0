package request

import (
	"net/netip"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	tests := []struct{ text, want string }{ // want is empty for no address, ! for a text that is refused
		{"192.0.2.1", "192.0.2.1"},
		{"192.0.2.1:8080", "192.0.2.1"},
		{"0.0.0.0", "0.0.0.0"},
		{"255.255.255.255", "255.255.255.255"},
		{"2001:db8::1", "2001:db8::1"},
		{"2001:DB8:0:0:0:0:0:1", "2001:db8::1"},
		{"[2001:db8::1]", "2001:db8::1"},
		{"[2001:db8::1]:443", "2001:db8::1"},
		{"fe80::1%eth0", "fe80::1"},
		{"[fe80::1%25eth0]:443", "fe80::1"},
		{"::ffff:192.0.2.1", "192.0.2.1"},
		{"[::ffff:192.0.2.1]:80", "192.0.2.1"},
		{"::ffff:c000:201", "192.0.2.1"},
		{"", ""},
		{"-", ""},
		{"unix:", ""},
		{"@", ""},
		{"localhost", "!"},
		{"host.example.com", "!"},
		{"host.example.com:80", "!"},
		{"face.cafe", "!"},
		{"192.0.2", "!"},
		{"192.0.2.256", "!"},
		{"192.0.2.01", "!"},
		{"192.0.2.1.", "!"},
		{"192.0.2.1:", "!"},
		{"192.0.2.1:port", "!"},
		{"192.0.2.1:123456", "!"},
		{"192.0.2.1, 192.0.2.2", "!"},
		{"[2001:db8::1", "!"},
		{"[2001:db8::1]443", "!"},
		{"2001:db8::1::2", "!"},
		{"1.2.3.4%eth0", "!"},
		{"unknown", "!"},
	}
	for _, test := range tests {
		got, ok := parseAddress(test.text)
		want := netip.Addr{}
		if test.want != "" && test.want != "!" {
			want = netip.MustParseAddr(test.want)
		}
		if ok != (test.want != "!") || ok && got != want {
			t.Errorf("%q: %v %v, want %q", test.text, got, ok, test.want)
		}
	}
}

func TestAddressesWithPorts(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1:2817": "192.0.2.1", "2001:db8::1:2817": "2001:db8::1", "[2001:db8::1]:2817": "2001:db8::1", "192.0.2.1": "192.0.2.1"} {
		if got, ok := parseAddressPort(text); !ok || got != netip.MustParseAddr(want) {
			t.Errorf("%q: %v %v, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "-", "unix:1"} {
		if got, ok := parseAddressPort(text); !ok || got.IsValid() {
			t.Errorf("%q: %v %v, want no address", text, got, ok)
		}
	}
}

func TestResolve(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ff::/48"),
		netip.MustParsePrefix("::ffff:172.16.0.0/108"), netip.MustParsePrefix("127.0.0.1/8")}
	client := NewClient(trusted)
	tests := []struct {
		peer, forwarded, want string
		proxy                 bool
	}{
		{"192.0.2.1", "", "192.0.2.1", false},
		{"192.0.2.1", "198.51.100.1", "192.0.2.1", false}, // an untrusted peer's header does not count
		{"10.0.0.1", "198.51.100.1", "198.51.100.1", false},
		{"10.0.0.1", "9.9.9.9, 198.51.100.1", "198.51.100.1", false}, // the client's own text stands to the left
		{"10.0.0.1", "198.51.100.1, 10.0.0.2,127.0.0.1", "198.51.100.1", false},
		{"172.17.0.1", "198.51.100.1:4711", "198.51.100.1", false},
		{"2001:db8:ff::1", "[2001:db8::7]:443", "2001:db8::7", false},
		{"10.0.0.1", "", "10.0.0.1", true},
		{"10.0.0.1", "-", "10.0.0.1", true},
		{"10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3", true},
		{"10.0.0.1", "9.9.9.9, unknown", "10.0.0.1", true}, // a proxy that does not know the client
		{"10.0.0.1", "9.9.9.9, unknown, 10.0.0.2", "10.0.0.2", true},
		{"10.0.0.1", "198.51.100.1,", "198.51.100.1", false}, // an empty entry is skipped
		{"10.0.0.1", "9.9.9.9, 198.51.100.1, ,\t,", "198.51.100.1", false},
		{"10.0.0.1", "198.51.100.1,, 10.0.0.2,", "198.51.100.1", false},
		{"10.0.0.1", "9.9.9.9, unknown,", "10.0.0.1", true},
		{"10.0.0.1", " , ", "10.0.0.1", true},
		{"", "198.51.100.1", "198.51.100.1", false},
		{"", "", "", false},
		{"", "garbage", "", false},
		{"10.0.0.1", `for=192.0.2.60;proto=http;by=203.0.113.43`, "192.0.2.60", false},
		{"10.0.0.1", `for=9.9.9.9, For="[2001:db8:cafe::17]:4711"; proto=https`, "2001:db8:cafe::17", false},
		{"10.0.0.1", `by=9.9.9.9`, "10.0.0.1", true},
		{"10.0.0.1", `for=198.51.100.1;host="a, for=9.9.9.9"`, "198.51.100.1", false}, // a Host that a client has sent
		{"10.0.0.1", `host="a, for=9.9.9.9";for=198.51.100.1`, "198.51.100.1", false},
		{"10.0.0.1", `host="a;for=9.9.9.9";for=198.51.100.1`, "198.51.100.1", false},
		{"10.0.0.1", `host="a\", for=9.9.9.9;x=\\";for=198.51.100.1`, "198.51.100.1", false},
		{"10.0.0.1", `for="9.9.9.9, for=198.51.100.1`, "198.51.100.1", false}, // a client has left a quote open
		{"10.0.0.1", `for="9.9.9.9, for="[2001:db8::7]:1";host="\"", for=10.0.0.2;host="x,y"`, "2001:db8::7", false},
		{"10.0.0.1", `for=9.9.9.9, for=10.0.0.2;host=","`, "9.9.9.9", false},
		{"10.0.0.1", `for=9.9.9.9, for="_gazonk:4711"`, "10.0.0.1", true},
		{"10.0.0.1", `for=9.9.9.9, for=unknown;for=9.9.9.9`, "10.0.0.1", true},
		{"10.0.0.1", `for=9.9.9.9, proto=http;by="[2001:db8::1]"`, "10.0.0.1", true},
		{"10.0.0.1", `for=9.9.9.9, FOR = 198.51.100.1`, "10.0.0.1", true}, // no space is allowed there
		{"10.0.0.1", `for="_hidden"`, "10.0.0.1", true},
	}
	for _, test := range tests {
		r := Request{Forwarded: test.forwarded}
		if test.peer != "" {
			r.IP = netip.MustParseAddr(test.peer)
		}
		want := netip.Addr{}
		if test.want != "" {
			want = netip.MustParseAddr(test.want)
		}
		if proxy := client.Resolve(&r); r.IP != want || proxy != test.proxy {
			t.Errorf("peer %q, forwarded %q: %v proxy %v, want %v proxy %v", test.peer, test.forwarded, r.IP, proxy, want, test.proxy)
		}
	}
}

func TestResolveAllocatesNothing(t *testing.T) {
	client := NewClient([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	peer := netip.MustParseAddr("10.0.0.1")
	for _, forwarded := range []string{"198.51.100.1, 10.0.0.2", `for="[2001:db8::1]:1"`, `host="a,b";for=198.51.100.1, for=10.0.0.2;host=","`, "unknown"} {
		r := Request{Forwarded: forwarded}
		if n := testing.AllocsPerRun(100, func() { r.IP = peer; client.Resolve(&r) }); n != 0 {
			t.Errorf("%s: %v allocations", forwarded, n)
		}
	}
}

func TestSample(t *testing.T) {
	tests := []struct{ line, want string }{
		{`1.2.3.4 - - [x] "GET /a?token=s3cret&page=2#x HTTP/1.1" 200`, `1.2.3.4 - - [x] "GET /a?token=***&page=*** HTTP/1.1" 200`},
		{`"GET /a?a=b=c&d=&e HTTP/1.1" "https://x/?q=1" q=2`, `"GET /a?a=***&d=&e HTTP/1.1" "https://x/?q=***" q=2`},
		{`"Authorization: Bearer abc.def" "basic dXNlcg=="`, `"Authorization: Bearer ***" "basic ***"`},
		{`Bearer abc.def`, `Bearer ***`},
		{`"GET /a?f={1}&token=s3cret&g='&token=s3cret&h=<&token=s3cret HTTP/1.1"`, `"GET /a?f=***&token=***&g=***&token=***&h=***&token=*** HTTP/1.1"`},
		{`{"uri":"/a?x=1\u0026token=s3cret","q":1}`, `{"uri":"/a?x=***","q":1}`},
		{`"GET /a?x=\x22&token=s3cret HTTP/1.1"`, `"GET /a?x=***&token=*** HTTP/1.1"`},
		{"tab\there \x00\xff\u0085 é", `tab\x09here \x00\xff\xc2\x85 é`},
		{"", ""},
		{strings.Repeat("a", 200), strings.Repeat("a", 200)},
		{strings.Repeat("a", 201), strings.Repeat("a", 197) + "…"},
		{strings.Repeat("é", 150), strings.Repeat("é", 98) + "…"},
		{strings.Repeat("a", 190) + "?token=" + strings.Repeat("s", 100), strings.Repeat("a", 190) + "?token=***"},
		{strings.Repeat("a", 199) + "?token=secret", strings.Repeat("a", 197) + "…"},
	}
	for _, test := range tests {
		if got := Sample(test.line); got != test.want {
			t.Errorf("%q\ngot  %q\nwant %q", test.line, got, test.want)
		}
	}
}

package rule_test

import (
	"net/netip"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"weir/pkg/request"
	"weir/pkg/rule"
)

func mustKey(t testing.TB, words ...string) rule.Key {
	t.Helper()
	key, err := rule.ParseKey(words...)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestCanonicalKeys(t *testing.T) {
	v4, v6 := netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("2001:db8:1:2:3:4:5:6")
	fields := []request.Field{{Name: "tenant", Value: "acme"}, {Name: "tenant", Value: "second"}}
	tests := []struct {
		words string
		r     request.Request
		want  string // "" when there is no key
	}{
		{"ip", request.Request{IP: v4}, "203.0.113.7"},
		{"ip", request.Request{IP: v6}, "2001:db8:1:2::/64"},
		{"ip", request.Request{IP: netip.MustParseAddr("::ffff:203.0.113.7")}, "203.0.113.7"},
		{"ip", request.Request{IP: netip.MustParseAddr("fe80::1%eth0")}, "fe80::/64"},
		{"ip", request.Request{}, ""},
		{"ip/32+128", request.Request{IP: v6}, "2001:db8:1:2:3:4:5:6"},
		{"ip/24+56", request.Request{IP: v4}, "203.0.113.0/24"},
		{"ip/24+56", request.Request{IP: v6}, "2001:db8:1::/56"},
		{"ip/24", request.Request{IP: v6}, "2001:db8:1:2::/64"},
		{"user", request.Request{User: "Alice B"}, "Alice B"},
		{"user", request.Request{User: `a\b`}, `a\\b`},
		{"user", request.Request{User: "a\nb\x00"}, `a\x0ab\x00`},
		{"user", request.Request{User: "M\xfcller"}, `M\xfcller`},
		{"user", request.Request{User: "Müller 日本"}, "Müller 日本"},
		{"user", request.Request{User: "a\u202eb\u00a0c\u2028d\x7f"}, `a\xe2\x80\xaeb\xc2\xa0c\xe2\x80\xa8d\x7f`},
		{"user", request.Request{User: "a…#b…"}, `a\xe2\x80\xa6#b…`},
		{"user", request.Request{}, ""},
		{"host", request.Request{Host: "Shop.Example.COM:8443"}, "shop.example.com"},
		{"host", request.Request{Host: "shop.example.com."}, "shop.example.com"},
		{"host", request.Request{Host: "shop.example.com..:80"}, "shop.example.com"},
		{"host", request.Request{Host: "shop.example.com.:80"}, "shop.example.com"},
		{"host", request.Request{Host: "Shop.example.com/x:1:2"}, "shop.example.com"},
		{"host", request.Request{Host: "shop.example.com.:80 a/b"}, "shop.example.com"},
		{"host", request.Request{Host: "/x"}, ""},
		{"host", request.Request{Host: "\uff53hop.example.com"}, "shop.example.com"},
		{"host", request.Request{Host: "[2001:DB8::1]:443"}, "2001:db8::1"},
		{"host", request.Request{Host: "2001:DB8::1"}, "2001:db8::1"},
		{"host", request.Request{Host: "[2001:0db8:0:0:0:0:0:1]"}, "2001:db8::1"},
		{"host", request.Request{Host: "2001:db8:0::1"}, "2001:db8::1"},
		{"host", request.Request{Host: "a:b:C"}, "a"},
		{"host", request.Request{Host: "Shop.example.com:80:80"}, "shop.example.com"},
		{"host", request.Request{Host: "shop.example.com.::80"}, "shop.example.com"},
		{"host", request.Request{Host: "\uff53hop.example.com:" + strings.Repeat("0", 2000) + "80"}, "shop.example.com"},
		{"host", request.Request{Host: "\uff53hop.example.com/" + strings.Repeat("x", 2000)}, "shop.example.com"},
		{"host", request.Request{Host: "s" + strings.Repeat("\u00ad\U000e0100", 2000) + "hop.example.com:80"}, "shop.example.com"},
		{"host", request.Request{Host: "A\xC1B"}, `a\xc1b`},
		{"host", request.Request{Host: "."}, ""},
		{"path", request.Request{Path: "/A b"}, "/A b"},
		{"method,path", request.Request{Method: "GET", Path: "/A b"}, `GET /A\x20b`},
		{"user,path", request.Request{User: "alice", Path: "/login"}, "alice /login"},
		{"user,path", request.Request{User: "alice"}, ""},
		{"user,path", request.Request{Path: "/login"}, ""},
		{"tenant", request.Request{Fields: fields}, "acme"},
		{"other", request.Request{Fields: fields}, ""},
		{"status,ip", request.Request{Status: 404, IP: v4}, "404 203.0.113.7"},
		{"status", request.Request{}, ""},
		{"query,agent,referrer", request.Request{Query: "a=1", Agent: "x", Referrer: "-"}, "a=1 x -"},
		{"path", request.Request{Path: "/" + strings.Repeat("a", 255)}, "/" + strings.Repeat("a", 255)},
		{"path", request.Request{Path: "/" + strings.Repeat("a", 256)}, "/" + strings.Repeat("a", 219) + "…#c3f7e0325bf5e1c10bbeafaa2f6fa860"},
	}
	for _, test := range tests {
		got, ok := mustKey(t, test.words).Append([]byte("x"), &test.r)
		if string(got) != "x"+test.want || ok != (test.want != "") {
			t.Errorf("%s of %+v: %s, %v, want %s", test.words, test.r, got, ok, test.want)
		}
	}
}

func TestFieldsOfKeys(t *testing.T) {
	r := request.Request{IP: netip.MustParseAddr("203.0.113.7"), User: "a b\\", Path: "/" + strings.Repeat("x ", 200)}
	key, _ := mustKey(t, "ip/24,user,path,user2").Append(nil, &r)
	if len(key) > 0 {
		t.Errorf("%s lacks a part", key)
	}
	k := mustKey(t, "ip/24,user,path")
	key, _ = k.Append(nil, &r)
	fields := k.Fields(string(key))
	if fields["ip"] != "203.0.113.0/24" || fields["user"] != "a b\\" || !strings.HasPrefix(fields["path"], "/x x x ") || !strings.Contains(fields["path"], "…#") {
		t.Errorf("%s: %q", key, fields)
	}
	if got := mustKey(t, "user").Fields("alice b"); len(got) != 1 || got["user"] != "alice b" {
		t.Errorf("%q", got)
	}
}

func TestKeysTypedByPeople(t *testing.T) {
	tests := []struct{ words, typed, want string }{
		{"ip", "2001:db8::1", "2001:db8::/64"},
		{"ip", "2001:db8::/64", "2001:db8::/64"},
		{"ip", " 203.0.113.7 ", "203.0.113.7"},
		{"ip", "203.0.113.7/32", "203.0.113.7"},
		{"ip/24+56", "203.0.113.7", "203.0.113.0/24"},
		{"ip", "203.0.113.0/24", ""},
		{"ip", "alice", ""},
		{"ip", "", ""},
		{"host", "Shop.example.com:80", "shop.example.com"},
		{"user", "alice b", "alice b"},
		{"ip,path", "203.0.113.7  /login", "203.0.113.7 /login"},
		{"ip,path", "203.0.113.7", ""},
		{"ip,path", "203.0.113.7 /a b …#x", ""},
		{"ip,path", "203.0.113.7…#x", ""},
		{"ip,user,path", "203.0.113.7 alice…#x", "203.0.113.7 alice…#x"},
	}
	for _, test := range tests {
		got, err := mustKey(t, test.words).Canonical(test.typed)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s %q: %q, %v, want %q", test.words, test.typed, got, err, test.want)
		}
	}
}

func TestKeyWords(t *testing.T) {
	for words, want := range map[string]string{"ip": "ip", "ip/32+64": "ip", "ip/24": "ip/24+64", "ip , path": "ip,path", "ip/32+128": "ip/32+128"} {
		if got := mustKey(t, words).String(); got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
	for _, words := range []string{"", "ip,", "ip/0", "ip/33", "ip/24+0", "ip/24+129", "ip/", "ip/024", "ip/+24", "ip/24+56+8", "user/24", "a b", "ip,ip", "bytes", "a,b,c,d,e,f,g,h,i", "1a"} {
		if key, err := rule.ParseKey(words); err == nil {
			t.Errorf("%q was read as %s", words, key)
		}
	}
}

// For any values: the key is printable and not too long; it is the same as its canonical form; the parts of a complete
// key come back unchanged; two requests have the same key only if they have the same parts.
func FuzzKey(f *testing.F) {
	f.Add("alice", "/login", "bob", "/login", "203.0.113.7")
	f.Add("a b", "c", "a", "b c", "2001:db8::1")
	f.Add(`a\x20b`, "c", "a b", "c", "")
	f.Add("…#", "\xff", "…", "#", "::ffff:1.2.3.4")
	f.Add("a", ".", "a", "/x/..", "")
	f.Add(strings.Repeat("é", 200), "x", strings.Repeat("é", 199)+"\xc3", "x", "fe80::1")
	f.Fuzz(func(t *testing.T, user, path, user2, path2, ip string) {
		for _, words := range []string{"user,path", "ip,user,path", "path"} {
			k := mustKey(t, words)
			_, _ = k.Canonical(path) // any text may be typed
			one, two := request.Request{User: user, Path: path}, request.Request{User: user2, Path: path2}
			if addr, err := netip.ParseAddr(ip); err == nil {
				one.IP, two.IP = addr, addr
			}
			a, okA := k.Append(nil, &one)
			b, okB := k.Append(nil, &two)
			if !okA || !okB {
				continue
			}
			one.Path, _ = request.PathForm{}.Normal(path, false, nil) // the key has the path in its one spelling
			two.Path, _ = request.PathForm{}.Normal(path2, false, nil)
			checkKey(t, k, &one, string(a))
			sameParts := one.Path == two.Path && (user == user2 || words == "path")
			if (string(a) == string(b)) != sameParts {
				t.Fatalf("%s: %q of %+v and %q of %+v", words, a, one, b, two)
			}
		}
	})
}

func checkKey(t *testing.T, k rule.Key, r *request.Request, key string) {
	t.Helper()
	if len(key) > rule.MaxKeyBytes || !utf8.ValidString(key) || strings.ContainsFunc(key, func(c rune) bool { return !unicode.IsPrint(c) }) {
		t.Fatalf("%q is too long or cannot be printed", key)
	}
	fields := k.Fields(key)
	if strings.Contains(key, "…#") {
		return
	}
	for name, want := range map[string]string{"user": r.User, "path": r.Path} {
		if got, has := fields[name]; has && got != want {
			t.Fatalf("%s of %q is %q, was %q", name, key, got, want)
		}
	}
	if len(fields) != len(k.Words()) {
		t.Fatalf("%q has the parts %q", key, fields)
	}
	if again, err := k.Canonical(key); err == nil && strings.TrimSpace(key) == key && again != key {
		t.Fatalf("%q is made %q", key, again)
	}
}

func TestKeysAllocateNothing(t *testing.T) {
	r, buffer := sample(), make([]byte, 0, 1024)
	r.Path += strings.Repeat("é\\ ", 100)
	for _, words := range []string{"ip", "ip/24+56", "user", "host", "ip,path", "method,agent,query"} {
		k := mustKey(t, words)
		if n := testing.AllocsPerRun(100, func() { buffer, _ = k.Append(buffer[:0], r) }); n > 0 {
			t.Errorf("%s: %v allocations", words, n)
		}
	}
}

// A client cannot make the conversion of a host expensive.
func TestALongHostIsNotConverted(t *testing.T) {
	var long strings.Builder
	for r := rune(0x4e00); r < 0x9fa5; r++ {
		long.WriteRune(r)
	}
	if got := rule.PlainHost(long.String()); got != long.String() {
		t.Errorf("%d bytes became %d", long.Len(), len(got))
	}
}

func TestPlainHost(t *testing.T) {
	for host, want := range map[string]string{"": "", "Shop.Example:443": "shop.example", "shop.example.": "shop.example", "[2001:DB8::1]:80": "2001:db8::1", "[::1]": "::1", "::1": "::1", ":80": "",
		"shop.example/x:80": "shop.example", "Shop.example. x/y": "shop.example", "/": ""} {
		if got := rule.PlainHost(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}

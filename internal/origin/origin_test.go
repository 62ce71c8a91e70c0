package origin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	own := Loopback([]string{"weir.internal"})
	for host, ok := range map[string]bool{
		"127.0.0.1:7421": true, "127.0.0.9": true, "[::1]:7421": true, "[::1]": true, "localhost": true, "LOCALHOST.:80": true, "": true,
		"weir.internal:7421": true, "[::ffff:127.0.0.1]:80": true,
		"rebind.example:7421": false, "rebind.example": false, "localhost.rebind.example": false, "127.0.0.1.rebind.example:7421": false,
		"203.0.113.7:7421": false, "0.0.0.0:7421": false, "weir.internal.example": false, "[::]:80": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Host = host
		if err := own.Check(r); (err == nil) != ok || !ok && !errors.Is(err, ErrHost) {
			t.Errorf("Host %q: %v", host, err)
		}
		if err := (Pages{}).Check(r); err != nil {
			t.Errorf("Host %q where others may ask: %v", host, err)
		}
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.UnixAddr{Name: "s", Net: "unix"})))
		if err := own.Check(r); err != nil {
			t.Errorf("Host %q over a unix socket: %v", host, err)
		}
	}
}

func TestPages(t *testing.T) {
	for _, test := range []struct {
		method, fields string
		ok             bool
	}{
		{"GET", "", true},
		{"POST", "", true},
		{"POST", "Sec-Fetch-Site=same-origin Origin=http://127.0.0.1:7421", true},
		{"GET", "Sec-Fetch-Site=none Sec-Fetch-Mode=navigate Sec-Fetch-Dest=document", true},
		{"GET", "Sec-Fetch-Site=cross-site Sec-Fetch-Mode=navigate Sec-Fetch-Dest=document", true},
		{"GET", "Sec-Fetch-Site=cross-site Sec-Fetch-Mode=navigate Sec-Fetch-Dest=iframe", false},
		{"GET", "Sec-Fetch-Site=cross-site Sec-Fetch-Mode=no-cors Sec-Fetch-Dest=image", false},
		{"GET", "Sec-Fetch-Site=same-site Sec-Fetch-Mode=cors", false},
		{"POST", "Sec-Fetch-Site=cross-site Sec-Fetch-Mode=navigate Sec-Fetch-Dest=document", false},
		{"DELETE", "Sec-Fetch-Site=same-site", false},
		{"GET", "Sec-Fetch-Site=strange", false},
		{"POST", "Origin=http://127.0.0.1:7421", true},
		{"POST", "Origin=http://127.0.0.1:8000", false},
		{"POST", "Origin=https://evil.example", false},
		{"POST", "Origin=null", false},
		{"POST", "Sec-Fetch-Site=none Origin=http://127.0.0.1:7421", true},
		{"POST", "Sec-Fetch-Site=none Origin=https://evil.example", false},
		{"POST", "Sec-Fetch-Site=same-origin Origin=https://evil.example", false},
		{"POST", "Sec-Fetch-Site=none Origin=null", false},
		{"POST", "Sec-Fetch-Site=same-site Origin=http://127.0.0.1:7421", false},
		{"GET", "Origin=https://evil.example", false},
		{"GET", "Origin=:", false},
	} {
		r := httptest.NewRequest(test.method, "/", http.NoBody)
		r.Host = "127.0.0.1:7421"
		for _, field := range strings.Fields(test.fields) {
			name, value, _ := strings.Cut(field, "=")
			r.Header.Set(name, value)
		}
		for _, pages := range []Pages{{}, Loopback(nil)} {
			if err := pages.Check(r); (err == nil) != test.ok || !test.ok && !errors.Is(err, ErrPage) {
				t.Errorf("%s %s: %v", test.method, test.fields, err)
			}
		}
	}
}

// When a server redirects every request, it gets the key, and another server never does.
func TestKeysStayWithTheirHost(t *testing.T) {
	var got []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("X-Api-Key")+r.Header.Get("Authorization"))
	}))
	defer other.Close()
	target := ""
	mux := http.NewServeMux()
	mux.HandleFunc("/at", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target, http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/here", func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Header.Get("X-Api-Key")) })
	first := httptest.NewServer(mux)
	defer first.Close()
	for _, test := range []struct{ method, key, to, got string }{
		{"GET", "X-Api-Key", other.URL, ""},
		{"GET", "Authorization", other.URL, ""},
		{"POST", "", other.URL, ""},
		{"GET", "", other.URL, "nothing"},
		{"POST", "X-Api-Key", first.URL + "/here", "secret"},
		{"GET", "X-Api-Key", "/here", "secret"},
	} {
		got, target = nil, test.to
		request, _ := http.NewRequest(test.method, first.URL+"/at", strings.NewReader("line"))
		if test.key != "" {
			request.Header.Set(test.key, "secret")
		}
		answer, err := Stay(first.Client()).Do(request)
		if err == nil {
			answer.Body.Close()
		}
		if test.got == "" && (!errors.Is(err, ErrRedirect) || len(got) > 0) {
			t.Errorf("%+v: %v, and there came %q", test, err, got)
		}
		if test.got != "" && (err != nil || len(got) != 1 || got[0] != strings.TrimPrefix(test.got, "nothing")) {
			t.Errorf("%+v: %v, and there came %q", test, err, got)
		}
	}
}

func TestTheSameHost(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"http://a/x", "http://a:80/y", true}, {"http://a", "https://a", true}, {"http://a:7421", "https://a:7443", true},
		{"https://a", "http://a", false}, {"https://a", "https://a:8443", false}, {"http://a", "http://b", false}, {"http://a", "http://a.b", false},
	} {
		a, _ := http.NewRequest(http.MethodGet, test.a, http.NoBody)
		b, _ := http.NewRequest(http.MethodGet, test.b, http.NoBody)
		if got := sameHost(a.URL, b.URL); got != test.same {
			t.Errorf("%s and %s: %v", test.a, test.b, got)
		}
	}
}

func TestALoopOfRedirectsEnds(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }))
	defer s.Close()
	for _, before := range []func(*http.Request, []*http.Request) error{nil, func(*http.Request, []*http.Request) error { return errors.New("ours") }} {
		client := *s.Client()
		client.CheckRedirect = before
		if answer, err := Stay(&client).Get(s.URL); err == nil {
			answer.Body.Close()
			t.Error("it went on")
		}
	}
}

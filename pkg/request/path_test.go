package request

import (
	"bytes"
	"net/url"
	"path"
	"strings"
	"testing"
	"unsafe"
)

func normal(f PathForm, text string) string {
	got, _ := f.Normal(text, false, nil)
	return got
}

func TestPathsHaveOneSpelling(t *testing.T) {
	for text, want := range map[string]string{
		"/signin":               "/signin",
		"/%73ignin":             "/signin",
		"/%73%69%67%6E%69%6e":   "/signin",
		"//signin":              "/signin",
		"///x//../signin":       "/signin",
		"/x/../signin":          "/signin",
		"/./signin":             "/signin",
		"/x/%2e%2e/signin":      "/signin",
		"/x/%2E./signin":        "/signin",
		"/x%2f..%2Fsignin":      "/signin",
		"%2Fsignin":             "/signin",
		"/../../signin":         "/signin",
		"/signin#":              "/signin",
		"/signin%0a":            "/signin", // in Starlette, Django's re_path and nginx's regular expressions
		"/signin%0A%0a":         "/signin",
		"/a%0a/b":               "/a\n/b",
		"/signin#/../x":         "/signin",
		"/signin%23x":           "/signin#x",
		"/signin/":              "/signin/",
		"/signin/.":             "/signin/",
		"/signin/x/..":          "/signin/",
		"/signin/..":            "/",
		"/..":                   "/",
		"/.":                    "/",
		"/":                     "/",
		"//":                    "/",
		"":                      "",
		"*":                     "*",
		"a/../b":                "b",
		"..":                    "/",
		"/...":                  "/...",
		"/..a/.b":               "/..a/.b",
		"/%2573ignin":           "/%73ignin", // decoded once
		"/100%":                 "/100%",     // no escape
		"/%zz%4":                "/%zz%4",
		"/%u0073ignin":          "/%u0073ignin",
		"/a%00b":                "/a\x00b",
		"/a%3Fb":                "/a?b",
		"/a+b":                  "/a+b",
		"/caf%C3%A9":            "/café",
		"/%c0%af%ff":            "/\xc0\xaf\xff", // not a slash: it is not decoded again
		"/\xff%2e%2e":           "/\xff..",
		"/SignIn":               "/SignIn",
		"/signin;a=b":           "/signin;a=b",
		"/x/..;/signin":         "/x/..;/signin",
		`/x\..\signin`:          `/x\..\signin`,
		"/a/b/c/../../../../d/": "/d/",
	} {
		if got := normal(PathForm{}, text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestPathsByChoice(t *testing.T) {
	for _, test := range []struct {
		form       PathForm
		text, want string
	}{
		{PathForm{Lower: true}, "/Sign%49N", "/signin"},
		{PathForm{Lower: true}, "/É", "/É"},
		{PathForm{Lower: true}, "/s%C4%B0gnin", "/signin"},
		{PathForm{Lower: true}, "/SİGNİN/%e2%84%AAey/K", "/signin/key/k"},
		{PathForm{Lower: true}, "/%C4%B1%C5%BF", "/ıſ"}, // their upper case is in ASCII, and not their lower case
		{PathForm{}, "/s%C4%B0gnin", "/sİgnin"},
		{PathForm{DropSlash: true}, "/signin/", "/signin"},
		{PathForm{DropSlash: true}, "/signin/x/..", "/signin"},
		{PathForm{DropSlash: true}, "/", "/"},
		{PathForm{DropParams: true}, "/signin;jsessionid=1", "/signin"},
		{PathForm{DropParams: true}, "/a;b=c/d;e", "/a/d"},
		{PathForm{DropParams: true}, "/x/..;/signin", "/signin"},
		{PathForm{DropParams: true}, "/a;b%2Fc/d", "/a/d"},
		{PathForm{DropParams: true}, "/a%3Bb", "/a;b"}, // an escaped ; begins no parameters
		{PathForm{DropParams: true}, ";", ""},
		{PathForm{BackslashToo: true}, `\x\..%5Csignin`, "/signin"},
		{PathForm{Lower: true, DropSlash: true, DropParams: true, BackslashToo: true}, `/X\..;y/%53IGNIN/;z`, "/signin"},
	} {
		if got := normal(test.form, test.text); got != test.want {
			t.Errorf("%q under %+v is %q, want %q", test.text, test.form, got, test.want)
		}
	}
}

// A path that a server decoded before logging it is not decoded again, and a # in it is a character of the path.
func TestDecodedPathsAreNotDecodedAgain(t *testing.T) {
	for text, want := range map[string]string{"/%73ignin": "/%73ignin", "/a#b": "/a#b", "/x/../a//b": "/a/b"} {
		if got, _ := (PathForm{}).Normal(text, true, nil); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for format, want := range map[string]bool{`$remote_addr [$time_local] $uri`: true, `$remote_addr [$time_local] $request_uri`: false, `%h %t %U`: true} {
		r := parsed(t, mustParser(t, format, Options{}), "192.0.2.1 [04/May/2026:06:25:06 +0000] /a%41")
		if r.PathDecoded != want || r.Path != "/a%41" {
			t.Errorf("%s: %+v", format, r)
		}
	}
}

func TestNormalPathsAllocateNothing(t *testing.T) {
	var buffer []byte
	for _, text := range []string{"/", "/api/items/4711", "/a.b/..c/d-e_f~g", "/caf\u00e9"} {
		var got string
		if n := testing.AllocsPerRun(100, func() { got, buffer = (PathForm{}).Normal(text, false, buffer) }); n != 0 {
			t.Errorf("%s: %v allocations", text, n)
		}
		if unsafe.StringData(got) != unsafe.StringData(text) {
			t.Errorf("%s was copied", text)
		}
	}
	buffer = make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() { _, buffer = (PathForm{}).Normal("/x/..//%73ignin", false, buffer) }); n != 0 {
		t.Errorf("%v allocations where there is something to change", n)
	}
}

// slowNormal does the same in a simple way.
func slowNormal(f PathForm, text string) string {
	if f.DropParams {
		segments := strings.Split(strings.SplitN(text, "#", 2)[0], "/")
		for i := range segments {
			segments[i], _, _ = strings.Cut(segments[i], ";")
		}
		text = strings.Join(segments, "/")
	}
	text, _, _ = strings.Cut(text, "#")
	var b []byte
	for i := 0; i < len(text); i++ {
		if i+2 < len(text) && text[i] == '%' {
			if one, err := url.PathUnescape(text[i : i+3]); err == nil {
				b = append(b, one...)
				i += 2
				continue
			}
		}
		b = append(b, text[i])
	}
	if f.Lower {
		for i, c := range b {
			if 'A' <= c && c <= 'Z' {
				b[i] = c + 32
			}
		}
		b = bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("İ"), []byte("i")), []byte("\u212a"), []byte("k"))
	}
	if f.BackslashToo {
		b = bytes.ReplaceAll(b, []byte{'\\'}, []byte{'/'})
	}
	text = strings.TrimRight(string(b), "\n")
	if text == "" {
		return ""
	}
	rooted := text[0] == '/'
	last := text[strings.LastIndexByte(text, '/')+1:]
	clean := path.Clean("/" + text)
	if (last == "" || last == "." || last == "..") && clean != "/" {
		clean += "/"
	}
	if !rooted && clean != "/" {
		clean = clean[1:]
	}
	if f.DropSlash && len(clean) > 1 {
		clean = strings.TrimSuffix(clean, "/")
	}
	return clean
}

// FuzzPath: a path has the spelling that the slow twin gives it, has neither segments of dots nor two slashes in a row,
// and does not change when nothing in it is encoded any more.
func FuzzPath(f *testing.F) {
	for _, text := range []string{"/x/../%73ignin", "//a/./b//", "a;b/c", `\..\a`, "/a%2f%2e%2e/b#c", "/%C4%B0\xc4;\xb0/\u212a", "..", "/%", "%2e%2e/", "/a;#/b", "/a%0a/b%0A", "/a/..%0a/\n"} {
		for choice := range byte(16) {
			f.Add(text, choice)
		}
	}
	f.Fuzz(func(t *testing.T, text string, choice byte) {
		form := PathForm{Lower: choice&1 > 0, DropSlash: choice&2 > 0, DropParams: choice&4 > 0, BackslashToo: choice&8 > 0}
		got := normal(form, text)
		if want := slowNormal(form, text); got != want {
			t.Fatalf("%q under %+v is %q, want %q", text, form, got, want)
		}
		if strings.Contains(got, "//") || strings.Contains(got+"/", "/../") || strings.Contains(got+"/", "/./") {
			t.Fatalf("%q is %q", text, got)
		}
		if again, _ := form.Normal(got, true, nil); again != got && !(form.DropParams && strings.Contains(got, ";")) && !(form.DropSlash && strings.HasSuffix(got, "\n")) {
			t.Fatalf("%q is %q, and then %q", text, got, again)
		}
		if form.isNormal(text, false) && got != text {
			t.Fatalf("%q is taken for normal and is %q", text, got)
		}
	})
}

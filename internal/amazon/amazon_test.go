package amazon_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/amazon"
)

// A server may redirect a call to itself, but not without an end, and to no other server, which would get the signature.
func TestRedirects(t *testing.T) {
	var elsewhere, calls atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		switch r.URL.Path {
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusTemporaryRedirect)
		case "/moved":
			http.Redirect(w, r, "/here", http.StatusPermanentRedirect)
		case "/other":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	loaded, err := amazon.Load(t.Context(), &amazon.Options{Region: "eu-central-1"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/loop": 307, "/moved": 200, "/other": 307} {
		before := calls.Load()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(20*time.Second, server.CloseClientConnections)
		answer, err := loaded.HTTPClient.Do(r)
		timer.Stop()
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want || calls.Load()-before > 12 {
			t.Errorf("%s: %s after %d calls", path, answer.Status, calls.Load()-before)
		}
	}
	if elsewhere.Load() > 0 {
		t.Error("another server was called")
	}
}

// Answers have so many values, and texts of any characters.
func TestValuesOfAnswers(t *testing.T) {
	text, many := strings.Repeat(`{[<,=\"\\`, 100_000), 600_000
	for body, want := range map[string]bool{
		`{"a":"` + text + `"}`:                                    true,
		`[{"a":"` + text + `"},"` + text + `"]`:                   true,
		"<a><b>" + strings.Repeat("=,{[\"", 600_000) + "</b></a>": true,
		"a text" + text:                                           true,
		"":                                                        true,
		` {"a":["\"",` + strings.Repeat("{},", many) + "1]}": false,
		"[" + strings.Repeat("1,", many) + "1]":              false,
		`{"a":"\\",` + strings.Repeat(`"":1,`, many):         false,
		"<a>\"" + strings.Repeat("<b/>", many):               false,
		"<a " + strings.Repeat("b='' ", many) + "/>":         false,
		"x<a>" + strings.Repeat("<b/>", many):                false,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		loaded, err := amazon.Load(t.Context(), &amazon.Options{Region: "eu-central-1"})
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := loaded.HTTPClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(answer.Body)
		if want && (err != nil || string(got) != body) || !want && err == nil {
			t.Errorf("%.20q…: %d bytes, %v", body, len(got), err)
		}
		_ = answer.Body.Close()
		server.Close()
	}
}

package crowdsec

import (
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
)

// A live answer without a decision is the four bytes null, which Lua compares.
func TestNothingIsNullWithoutANewline(t *testing.T) {
	w := newSite(t).ask("GET", "/v1/decisions?ip=203.0.113.7", "")
	if w.Body.String() != "null" || w.Code != 200 || w.Header().Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
}

// Live questions about one client are reported, with what refuses it for longest.
func TestLiveQuestionsAreReported(t *testing.T) {
	s := newSite(t)
	s.list.block("per-ip", "ip", "203.0.113.7", s.after(time.Hour)).ID = "the shorter"
	s.list.block("per-net", "ip", "203.0.113.0/24", s.after(2*time.Hour)).ID = "the longer"
	s.list.block("per-user", "user", "alice", s.after(time.Hour)).ID = "of a user"
	for _, query := range []string{"?ip=203.0.113.7", "?ip=192.0.2.1", "?scope=username&value=alice", "", "?range=203.0.113.0/24&contains=false", "/stream?startup=true"} {
		s.ask("GET", "/v1/decisions"+query, "")
	}
	if want := []string{"per-net the longer", " ", "per-user of a user"}; !slices.Equal(s.asked, want) {
		t.Errorf("%q", s.asked)
	}
}

func TestBytes(t *testing.T) {
	s := newSite(t)
	e := s.list.block("per-ip", "ip", "203.0.113.7", s.after(time.Hour-400*time.Millisecond))
	e.ID = "0123456789abcdef"
	tests := map[string]string{
		"/v1/decisions?ip=203.0.113.7":      `[{"duration":"1h0m0s","id":1,"origin":"weir","scenario":"per-ip","scope":"Ip","type":"ban","value":"203.0.113.7"}]`,
		"/v1/decisions/stream?startup=true": `{"new": [{"duration":"1h0m0s","id":1,"origin":"weir","scenario":"per-ip","scope":"Ip","type":"ban","uuid":"UUID","value":"203.0.113.7"}], "deleted": []}`,
		"/v1/decisions/stream":              `{"new": [], "deleted": []}`,
	}
	for _, url := range []string{"/v1/decisions?ip=203.0.113.7", "/v1/decisions/stream?startup=true", "/v1/decisions/stream"} {
		got := s.ask("GET", url, "").Body.String()
		if _, rest, ok := strings.Cut(got, `"uuid":"`); ok {
			got = strings.Replace(got, rest[:36], "UUID", 1)
		}
		if got != tests[url] {
			t.Errorf("%s\n got %s\nwant %s", url, got, tests[url])
		}
	}
	s.list.lift("per-ip", "203.0.113.7")
	s.now = s.now.Add(10 * time.Second)
	want := `{"new": [], "deleted": [{"duration":"-1s","id":1,`
	if got := s.ask("GET", "/v1/decisions/stream", "").Body.String(); !strings.HasPrefix(got, want) {
		t.Errorf("got %s", got)
	}
}

// A decision that lasts never has the duration zero, which Lua treats as for ever, nor a longer one than a date can be.
func TestDurations(t *testing.T) {
	now := int64(1_800_000_000_000)
	tests := map[int64]string{1: "1s", 999: "1s", 1499: "1s", 1500: "2s", 59_600: "1m0s", 3_599_000: "59m59s", -5: "1s", blocklist.Never - now: "87600h0m0s"}
	for left, want := range tests {
		if got := (&row{Until: now + left}).remaining(now).String(); got != want {
			t.Errorf("%d ms: %s, want %s", left, got, want)
		}
	}
	if got := past(now, now).String(); got != "-1s" {
		t.Errorf("what ends now has %s left", got)
	}
}

// A bouncer that names no scopes gets addresses and prefixes; it gets users only when it asks for them.
func TestScopes(t *testing.T) {
	s := newSite(t)
	s.list.block("per-ip", "ip", "203.0.113.7", s.after(time.Minute))
	s.list.block("per-net", "ip", "198.51.100.0/24", s.after(time.Minute))
	s.list.block("per-ip", "ip", "2001:db8:1::/64", s.after(time.Minute))
	s.list.block("per-user", "user", `al"ice <ü>`, s.after(time.Minute))
	s.list.block("per-user", "user", "b\xffad", s.after(time.Minute))
	s.list.block("sign-in", "ip", "203.0.113.99", s.after(time.Minute))
	s.list.order(blocklist.OrderBlock, "host", "example.org", s.after(time.Minute))
	s.list.entries["h"] = s.list.orders["example.org"].Entry()
	addresses := "Ip 203.0.113.7 per-ip 1m0s, Range 198.51.100.0/24 per-net 1m0s, Range 2001:db8:1::/64 per-ip 1m0s | "
	s.expect(t, "?startup=true", addresses)
	s.expect(t, "?startup=true&scopes=IP,range", addresses)
	s.expect(t, "?startup=true&scopes=ip", "Ip 203.0.113.7 per-ip 1m0s | ")
	s.expect(t, "?startup=true&scopes=username", `username al"ice <ü> per-user 1m0s | `)
	s.expect(t, "?startup=true&scopes=Username,country", " | ")
	s.expect(t, "?startup=true&scopes=host,Session", "host example.org manual 1m0s | ")
	s.expect(t, "?startup=true&origins=manual&scopes=host,Ip", "host example.org manual 1m0s | ")
}

func TestFilters(t *testing.T) {
	s := newSite(t)
	s.list.block("per-ip", "ip", "203.0.113.7", s.after(time.Minute))
	s.list.block("scans", "ip", "203.0.113.7", s.after(time.Hour))
	s.list.block("per-net", "ip", "203.0.113.0/24", s.after(time.Minute))
	address, scan, network := "203.0.113.7 per-ip", "203.0.113.7 scans", "203.0.113.0/24 per-net"
	tests := map[string][]string{
		"/v1/decisions":                               {address, scan, network},
		"/v1/decisions?ip=203.0.113.7":                {address, scan, network},
		"/v1/decisions?ip=::ffff:203.0.113.7":         {address, scan, network},
		"/v1/decisions?ip=203.0.113.8":                {network},
		"/v1/decisions?ip=203.0.114.8":                nil,
		"/v1/decisions?range=203.0.113.0/25":          {network},
		"/v1/decisions?range=203.0.0.0/16":            nil,
		"/v1/decisions?range=203.0.0.0/16&contains=0": {address, scan, network},
		"/v1/decisions?value=203.0.113.7":             {address, scan},
		"/v1/decisions?scope=Range":                   {network},
		"/v1/decisions?type=captcha":                  nil,
		"/v1/decisions?type=ban&scopes=range":         {network},
		"/v1/decisions?scenarios_containing=SCAN,x":   {scan},
		"/v1/decisions?scenarios_not_containing=per":  {scan},
		"/v1/decisions?origins=weir,x&limit=0":        {address, scan, network},
		"/v1/decisions?origins=manual":                nil,
		"/v1/decisions?no_such=1&simulated=false":     {address, scan, network},
		"/v1/decisions?startup=true&dedup=false":      {address, scan, network},
	}
	for url, want := range tests {
		body := s.ask("GET", url, "").Body.String()
		for _, one := range []string{address, scan, network} {
			value, name, _ := strings.Cut(one, " ")
			in := strings.Contains(body, `"scenario":"`+name+`"`) && strings.Contains(body, `"value":"`+value+`"`)
			if in != strings.Contains(strings.Join(want, ","), one) {
				t.Errorf("%s: %s is there: %v", url, one, in)
			}
		}
	}
	both := "Ip 203.0.113.7 per-ip 1m0s, Ip 203.0.113.7 scans 1h0m0s | "
	s.expect(t, "?startup=true&dedup=false&scopes=ip", both)
	s.expect(t, "?startup=true&scopes=ip&community_pull=false&additional_pull=false", "Ip 203.0.113.7 scans 1h0m0s | ")
	s.expect(t, "?startup=true&scopes=ip&scenarios_containing=per", "Ip 203.0.113.7 per-ip 1m0s | ")
}

func TestPages(t *testing.T) {
	s := newSite(t)
	for i := range 5 {
		s.list.block("per-ip", "ip", fmt.Sprintf("203.0.113.%d", i), s.after(time.Hour))
		s.now = s.now.Add(time.Second)
		s.ask("GET", "/v1/decisions", "")
	}
	for query, want := range map[string]string{"?limit=2": "0 1", "?limit=2&offset=3": "3 4", "?id_gt=4": "4", "?offset=9": "null"} {
		body := s.ask("GET", "/v1/decisions"+query, "").Body.String()
		var got []string
		for _, part := range strings.Split(body, "203.0.113.")[1:] {
			got = append(got, part[:1])
		}
		if strings.Join(got, " ") != strings.TrimSuffix(want, "null") || want == "null" && body != "null" {
			t.Errorf("%s: %s", query, body)
		}
	}
}

func TestErrors(t *testing.T) {
	s := newSite(t)
	tests := []struct {
		method, url, body string
		code              int
		want, allow       string
	}{
		{"GET", "/v1/decisions?ip=notanip", "", 400, `{"message":"unable to convert 'notanip' to int: invalid ip address 'notanip': invalid ip address / range"}`, ""},
		{"GET", "/v1/decisions/stream?contains=x", "", 400, `{"message":"invalid contains value : strconv.ParseBool: parsing \"x\": invalid syntax: invalid filter"}`, ""},
		{"GET", "/v1/decisions?limit=x", "", 400, `{"message":"invalid limit value : strconv.Atoi: parsing \"x\": invalid syntax: invalid filter"}`, ""},
		{"PUT", "/v1/decisions", "", 405, "", "GET, HEAD"},
		{"POST", "/v1/decisions/stream", "", 405, "", "GET, HEAD"},
		{"GET", "/v1/usage-metrics", "", 405, "", "POST"},
		{"GET", "/v1/decisions/streams", "", 404, "", ""},
		{"DELETE", "/v1/decisions", "", 401, `{"code":401,"message":"cookie token is empty"}`, ""},
		{"GET", "/v1/heartbeat", "", 401, `{"code":401,"message":"cookie token is empty"}`, ""},
		{"GET", "/health", "", 200, `{"status":"up"}`, ""},
		{"POST", "/health", "", 405, "", "GET, HEAD"},
	}
	for _, test := range tests {
		w := s.ask(test.method, test.url, test.body)
		if w.Code != test.code || w.Body.String() != test.want || w.Header().Get("Allow") != test.allow {
			t.Errorf("%s %s: %d %q, Allow %q", test.method, test.url, w.Code, w.Body, w.Header().Get("Allow"))
		}
	}
}

// A missing or a wrong key is a 403, whatever the method; HEAD checks only the key.
func TestKeys(t *testing.T) {
	s := newSite(t)
	for _, url := range []string{"/v1/decisions", "/v1/decisions/stream", "/v1/usage-metrics"} {
		for _, key := range []string{"", "wrong"} {
			for _, method := range []string{"GET", "HEAD", "POST"} {
				r := httptest.NewRequest(method, url, nil)
				r.Header.Set("X-Api-Key", key)
				w := httptest.NewRecorder()
				s.mux.ServeHTTP(w, r)
				if w.Code != 403 && w.Code != 405 || w.Code == 403 && w.Body.String() != `{"message":"access forbidden"}` {
					t.Errorf("%s %s with the key %q: %d %s", method, url, key, w.Code, w.Body)
				}
			}
		}
	}
	s.list.part = true // HEAD does not read the list
	for _, url := range []string{"/v1/decisions", "/v1/decisions/stream"} {
		if w := s.ask("HEAD", url, ""); w.Code != 200 || w.Body.Len() > 0 {
			t.Errorf("HEAD %s: %d %s", url, w.Code, w.Body)
		}
	}
}

// HEAD moves no cursor.
func TestHeadTakesNothing(t *testing.T) {
	s := newSite(t)
	s.expect(t, "", " | ")
	s.list.block("per-ip", "ip", "203.0.113.7", s.after(time.Hour))
	s.now = s.now.Add(time.Second)
	s.ask("HEAD", "/v1/decisions/stream", "")
	s.now = s.now.Add(time.Second)
	s.expect(t, "", "Ip 203.0.113.7 per-ip 59m58s | ")
}

func TestUsageMetrics(t *testing.T) {
	s := newSite(t)
	tests := []struct {
		body string
		code int
		want string
	}{
		{`{"remediation_components":[{"version":"v1","utc_startup_timestamp":1,"os":{},"metrics":[{"meta":{}}],"x":1}],"log_processors":null}`, 201, ""},
		{`{"remediation_components":[{"version":"v1","utc_startup_timestamp":1,"metrics":{"meta":{}}}]}`, 201, ""},
		{`{"remediation_components":[{"utc_startup_timestamp":1}]}`, 422, `{"message":"validation failure list:\nremediation_components.0.version in body is required"}`},
		{`{"remediation_components":[]}`, 400, `{"message":"exactly one remediation component is wanted"}`},
		{`{"remediation_components":[{},{}]}`, 400, `{"message":"exactly one remediation component is wanted"}`},
		{`{`, 400, `{"message":"failed to parse body: unexpected EOF"}`},
		{`{"x":"` + strings.Repeat("x", maxUsage) + `"}`, 400, `{"message":"failed to parse body: http: request body too large"}`},
	}
	for _, test := range tests {
		w := s.ask("POST", "/v1/usage-metrics", test.body)
		if w.Code != test.code || w.Body.String() != test.want {
			t.Errorf("%.80s: %d %s", test.body, w.Code, w.Body)
		}
	}
}

// Usage metrics of bouncers may be compressed; without a bound on their size they are not read to the end.
func TestUsageMetricsPacked(t *testing.T) {
	s := newSite(t)
	for body, want := range map[string]int{
		`{"remediation_components":[{"version":"v1","utc_startup_timestamp":1}]}`: 201,
		`{"x":"` + strings.Repeat("x", 20*maxUsage) + `"}`:                        400,
	} {
		var packed strings.Builder
		w := gzip.NewWriter(&packed)
		if _, err := w.Write([]byte(body)); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]int{packed.String(): want, body: 400} {
			r := httptest.NewRequest(http.MethodPost, "/v1/usage-metrics", strings.NewReader(text))
			r.Header.Set("X-Api-Key", "key-of-edge")
			r.Header.Set("Content-Encoding", "gzip")
			w := httptest.NewRecorder()
			if s.mux.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%.60q: %d %s, want %d", text, w.Code, w.Body, want)
			}
		}
	}
}

// Without a complete list bouncers get an error and no byte of a list, and keep their cursors.
func TestNoListIsNoEmptyList(t *testing.T) {
	s := newSite(t)
	s.list.block("per-ip", "ip", "203.0.113.7", s.after(time.Hour))
	s.expect(t, "", "Ip 203.0.113.7 per-ip 1h0m0s | ")
	s.list.part = true
	s.list.entries = map[string]*blocklist.Entry{}
	for _, url := range []string{"/v1/decisions", "/v1/decisions/stream", "/v1/decisions/stream?startup=true"} {
		if w := s.ask("GET", url, ""); w.Code != 503 || w.Body.String() != `{"message":"there is no complete list yet"}` {
			t.Errorf("%s: %d %s", url, w.Code, w.Body)
		}
	}
	s.list.part = false
	s.list.block("per-ip", "ip", "203.0.113.7", time.UnixMilli(1_800_000_000_000).Add(time.Hour))
	s.expect(t, "", " | ")
}

// A list that cannot be written to its end ends the connection, so a part never looks like the complete list. The
// bouncer then gets the same changes again.
func TestAListCutShortIsAborted(t *testing.T) {
	s := newSite(t)
	for i := range 3000 {
		s.list.block("per-ip", "ip", fmt.Sprintf("203.0.%d.%d", i/256, i%256), s.after(time.Hour))
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/decisions/stream", nil)
	r.Header.Set("X-Api-Key", "key-of-edge")
	func() {
		defer func() {
			if recover() != http.ErrAbortHandler {
				t.Error("the connection was not ended")
			}
		}()
		s.mux.ServeHTTP(&broken{httptest.NewRecorder(), pieceBytes + 1}, r)
	}()
	if got := s.poll(t, ""); len(got.New) != 3000 {
		t.Errorf("then %d new decisions", len(got.New))
	}
}

// A broken connection accepts that many bytes.
type broken struct {
	*httptest.ResponseRecorder
	room int
}

func (b *broken) Write(p []byte) (int, error) {
	if b.room -= len(p); b.room < 0 {
		return 0, net.ErrClosed
	}
	return b.ResponseRecorder.Write(p)
}

// When all places are taken, further bouncers are asked to come again.
func TestAnswersAreBounded(t *testing.T) {
	s := newSite(t)
	for range maxWriting {
		local := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		local.RemoteAddr = "127.0.0.1:1234"
		s.writing.TryTake(local)
	}
	if w := s.ask("GET", "/v1/decisions/stream", ""); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

// Over a real connection, answers are chunked, and compressed on request. Short live answers never are, because one is
// compared as bytes.
func TestOverHTTP(t *testing.T) {
	s := newSite(t)
	for i := range 2000 {
		s.list.block("per-ip", "ip", fmt.Sprintf("203.0.%d.%d", i/250, i%250), s.after(time.Hour))
	}
	server := httptest.NewServer(s.mux)
	defer server.Close()
	chunked := false
	ask := func(path, accept string) (encoding, body string) {
		r, _ := http.NewRequest(http.MethodGet, server.URL+path, nil)
		r.Header.Set("x-api-key", "key-of-edge")
		r.Header.Set("Accept-Encoding", accept)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		chunked = slices.Equal(response.TransferEncoding, []string{"chunked"})
		return response.Header.Get("Content-Encoding"), string(text)
	}
	const stream, all = "/v1/decisions/stream?startup=true", "/v1/decisions?range=203.0.0.0/16&contains=false"
	encoding, plain := ask(stream, "identity")
	if encoding != "" || !chunked {
		t.Errorf("the encoding is %q, chunked %v", encoding, chunked)
	}
	for path, accepts := range map[string]map[string]bool{
		stream:                          {"gzip": true, "br, gzip;q=0.5, *;q=0.1": true, "GZIP": true, "gzip;q=0": false, "gzip; q=0.0": false, "br": false, "xgzip": false, "": false},
		all:                             {"gzip": true, "": false},
		"/v1/decisions?ip=203.0.0.7":    {"gzip": false},
		"/v1/decisions?ip=198.51.100.1": {"gzip": false},
	} {
		_, want := ask(path, "identity")
		for accept, zipped := range accepts {
			encoding, body := ask(path, accept)
			if zipped {
				zip, err := gzip.NewReader(strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				unpacked, err := io.ReadAll(zip)
				if err != nil || len(body) > len(unpacked)/3 {
					t.Errorf("%s: %d of %d bytes, %v", path, len(body), len(unpacked), err)
				}
				body = string(unpacked)
			}
			if (encoding == "gzip") != zipped || len(body) != len(want) {
				t.Errorf("%s for %q: %q, %d bytes, want %d", path, accept, encoding, len(body), len(want))
			}
		}
	}
	if len(plain) < 100_000 {
		t.Errorf("the list has %d bytes", len(plain))
	}
}

// A compressed list whose reader has gone is not complete either.
func TestACompressedAnswerThatBreaksIsCutOff(t *testing.T) {
	s := newSite(t)
	for i := range 2000 {
		s.list.block("per-ip", "ip", fmt.Sprintf("203.0.%d.%d", i/250, i%250), s.after(time.Hour))
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/decisions/stream?startup=true", nil)
	r.Header.Set("X-Api-Key", "key-of-edge")
	r.Header.Set("Accept-Encoding", "gzip")
	defer func() {
		if recovered := recover(); recovered != http.ErrAbortHandler {
			t.Errorf("the handler ended with %v", recovered)
		}
		if len(s.masks.bouncers) != 0 {
			t.Error("its reader is believed to have it")
		}
	}()
	s.mux.ServeHTTP(&broken{ResponseRecorder: httptest.NewRecorder(), room: 1000}, r)
}

// Durations below a minute have a fraction in live answers, and none in streams.
func TestLiveDurations(t *testing.T) {
	for left, want := range map[time.Duration]string{time.Second: "1.001s", 47 * time.Second: "47.001s", time.Minute: "1m0s", time.Hour + 9*time.Second: "1h0m9s"} {
		if got := liveDuration(left).String(); got != want {
			t.Errorf("%v: %s, want %s", left, got, want)
		}
		if !regexp.MustCompile(`(-?)(?:(?:(\d+)h)?(\d+)m)?(\d+).\d+(m?)s`).MatchString(want) { // express-bouncer's
			t.Errorf("%s is not read", want)
		}
	}
	s := newSite(t)
	s.list.block("per-ip", "ip", "203.0.113.7", s.after(47*time.Second))
	if got := s.ask("GET", "/v1/decisions?ip=203.0.113.7", "").Body.String(); !strings.Contains(got, `"duration":"47.001s"`) {
		t.Error(got)
	}
	if got := s.ask("GET", "/v1/decisions/stream?startup=true", "").Body.String(); !strings.Contains(got, `"duration":"47s"`) {
		t.Error(got)
	}
}

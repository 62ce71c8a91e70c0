package telemetry

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// An error with the answer of another server is logged with its beginning.
func TestALongErrorIsCutOff(t *testing.T) {
	var out bytes.Buffer
	f := NewFaults(slog.New(slog.NewTextHandler(&out, nil)))
	f.Note("read", errors.New(strings.Repeat("ä", 1<<20)))
	if text := out.String(); out.Len() > longestFault+200 || !strings.Contains(text, "ää…") {
		t.Errorf("%d bytes: …%s", out.Len(), text[max(0, out.Len()-60):])
	}
}

func TestARepeatedErrorIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		f := NewFaults(slog.New(slog.NewTextHandler(&out, nil)))
		said := func(want string) {
			t.Helper()
			if got := out.String(); (want == "") != (got == "") || !strings.Contains(got, want) {
				t.Errorf("said %q, want %q", got, want)
			}
			out.Reset()
		}
		f.Over("read")
		said("")
		f.Note("read", errors.New("away"))
		said("times=1")
		for range 59 {
			time.Sleep(time.Second)
			f.Note("read", errors.New("away"))
		}
		said("")
		f.Note("write", errors.New("full"))
		said("full")
		time.Sleep(time.Second)
		f.Note("read", errors.New("away"))
		said("times=60")
		if got := f.Lasts("read"); got != "away" {
			t.Errorf("%q lasts", got)
		}
		f.Over("read")
		if got := f.Lasts("read") + f.Lasts("other"); got != "" {
			t.Errorf("%q lasts", got)
		}
		said("after=1m0s")
		f.Over("read")
		said("")

		for range 59 { // it fails and works in turn
			f.Note("read", errors.New("away"))
			f.Over("read")
			time.Sleep(time.Second)
		}
		said("")
		time.Sleep(time.Second)
		f.Note("read", errors.New("away"))
		said("times=60")
		f.Over("read")
		said("works again")
	})
}

func TestAMissingPartMakesUnready(t *testing.T) {
	h := NewHealth()
	var said []string
	h.OnChange(func(why string) { said = append(said, why) })
	h.Lack("no list")
	h.Ready()
	h.Lack("no list")
	h.Lack("")
	h.Lack("no list")
	h.Unready("ending")
	if got := strings.Join(said, ";"); got != "no list;;no list;ending" {
		t.Error(got)
	}
}

func TestHealth(t *testing.T) {
	h := NewHealth()
	mux := http.NewServeMux()
	h.Handle(mux)
	get := func(path string, want int, says string) {
		t.Helper()
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%s: %d %q, want %d %q", path, w.Code, w.Body, want, says)
		}
	}
	get("/healthz", 200, "ok")
	get("/readyz", 503, "starting")
	get("/status", 503, "starting")
	h.Unready("Redis is away")
	get("/status", 503, "Redis is away")
	h.Ready()
	h.Status(func() any { return map[string]int{"lag": 3} })
	get("/readyz", 200, "ready")
	get("/status", 200, `"lag": 3`)
	h.Unready("ending")
	get("/readyz", 503, "ending")
	get("/healthz", 200, "ok")
}

func TestLog(t *testing.T) {
	var out bytes.Buffer
	logger, err := Log(&out, "warn", "auto")
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("quiet")
	logger.Warn("loud")
	if got := out.String(); strings.Contains(got, "quiet") || !strings.HasPrefix(got, "{") || !strings.Contains(got, `"msg":"loud"`) {
		t.Errorf("logged %q", got)
	}
	out.Reset()
	logger, _ = Log(&out, "info", "text")
	if logger.Info("x"); !strings.HasPrefix(out.String(), "time=") {
		t.Errorf("logged %q", out.String())
	}
	if _, err := Log(&out, "loud", "text"); err == nil {
		t.Error("an unknown level is taken")
	}
}

// Durations and addresses are text in JSON too; times, numbers and errors stay what they are.
func TestLogInWords(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{5200 * time.Millisecond, `"5.2s"`},
		{netip.MustParseAddr("192.0.2.1"), `"192.0.2.1"`},
		{netip.MustParseAddrPort("192.0.2.1:443"), `"192.0.2.1:443"`},
		{netip.MustParsePrefix("192.0.2.0/24"), `"192.0.2.0/24"`},
		{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}, `"192.0.2.1:443"`},
		{(*net.TCPAddr)(nil), `null`},
		{&net.UnixAddr{Name: "/run/weir.sock", Net: "unix"}, `"/run/weir.sock"`},
		{&net.AddrError{Err: "no address", Addr: "x"}, `"address x: no address"`},
		{time.Unix(0, 0).UTC(), `"1970-01-01T00:00:00Z"`},
		{7, `7`},
		{[]string{"a"}, `["a"]`},
	} {
		var out bytes.Buffer
		logger, _ := Log(&out, "info", "json")
		logger.Info("x", slog.Group("in", "it", c.value))
		if !strings.Contains(out.String(), `"in":{"it":`+c.want+`}`) {
			t.Errorf("%T: logged %s, want %s", c.value, out.String(), c.want)
		}
	}
}

// An error may have a text that another server sent. A line that is too long for the log would be lost.
func TestALongTextIsCutOff(t *testing.T) {
	long := strings.Repeat("x", longestText-1) + strings.Repeat("é", 1<<20)
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		logger, _ := Log(&out, "info", format)
		logger.Error(long, "error", errors.New(long), "n", 7)
		if got := out.String(); len(got) > 2*longestText+300 || strings.Count(got, "x… (2113535 bytes)") != 2 || strings.ContainsRune(got, '\uFFFD') {
			t.Errorf("%s: %d bytes, %q", format, len(got), got[max(0, len(got)-100):])
		}
	}
}

func TestMetricsAreAsPrometheusWantsThem(t *testing.T) {
	registry := Metrics("collector")
	if problems, err := testutil.GatherAndLint(registry, "weir_build_info"); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	if n, err := testutil.GatherAndCount(registry, "weir_build_info"); n != 1 || err != nil {
		t.Errorf("build_info is there %d times: %v", n, err)
	}
}

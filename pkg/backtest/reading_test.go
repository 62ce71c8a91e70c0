package backtest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"weir/pkg/request"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// decisions are the report as JSON, without the inputs.
func decisions(t *testing.T, r *Report) string {
	t.Helper()
	bare := *r
	bare.Inputs = nil
	var b strings.Builder
	if err := bare.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func usualConfig(t testing.TB, inputs ...Input) Config {
	return Config{Rules: parseRules(t, fmt.Sprintf(usualRules, "{for: 1m, then: [5m]}")), Inputs: inputs}
}

func writeFile(t testing.TB, name string, data []byte) Input {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return Input{Path: path}
}

func gzipped(t testing.TB, text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstandard(t testing.TB, text string) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll([]byte(text), nil)
}

// The report is the same however the lines of a log are spread over files, and in whatever order the files are named.
func TestFilesAreReadInTheOrderOfTheirTimes(t *testing.T) {
	text := generated(3, 40_000)
	wanted := decisions(t, runConfig(t, usualConfig(t, fromText("whole", text))))
	lines := strings.SplitAfter(text, "\n")
	at := func(share float64) int { return int(share * float64(len(lines))) }
	part := func(from, to float64) string { return strings.Join(lines[at(from):at(to)], "") }
	rotated := []Input{
		writeFile(t, "access.log", []byte(part(0.75, 1))), writeFile(t, "access.log.2.zst", zstandard(t, part(0.3, 0.5))),
		writeFile(t, "access.log.1", []byte(part(0.5, 0.75))), writeFile(t, "access.log.3.gz", gzipped(t, part(0, 0.1)+part(0.1, 0.3))),
		writeFile(t, "empty", nil), writeFile(t, "empty.gz", gzipped(t, "\n\n")),
		writeFile(t, "comments", []byte("#Version: 1.0\n#Fields: date time c-ip\n")),
	}
	servers := make([]strings.Builder, 3)
	random := rand.New(rand.NewPCG(1, 1))
	for _, line := range lines {
		servers[random.IntN(3)].WriteString(line)
	}
	several := append(bytes.Clone(gzipped(t, part(0, 0.5))), gzipped(t, part(0.5, 1))...)
	for name, inputs := range map[string][]Input{
		"gzip":                   {writeFile(t, "a", gzipped(t, text))},
		"gzip of two parts":      {writeFile(t, "a", several)},
		"zstd":                   {writeFile(t, "a", zstandard(t, text))},
		"standard input":         {{Path: "-", Reader: strings.NewReader(text)}},
		"gzip on standard input": {{Path: "-", Reader: bytes.NewReader(gzipped(t, text))}},
		"byte order mark":        {fromText("a", "\ufeff"+text)},
		"lines ending in \\r\\n": {fromText("a", strings.ReplaceAll(text, "\n", "\r\n"))},
		"no newline at the end":  {fromText("a", strings.TrimSuffix(text, "\n"))},
		"rotated":                rotated,
		"rotated the other way":  {rotated[3], rotated[4], rotated[2], rotated[1], rotated[0]},
		"three servers": {fromText("a", servers[0].String()), writeFile(t, "b.gz", gzipped(t, servers[1].String())),
			writeFile(t, "c", []byte(servers[2].String()))},
	} {
		if got := decisions(t, runConfig(t, usualConfig(t, inputs...))); got != wanted {
			t.Errorf("%s: another report:\n%.300s\nwant\n%.300s", name, got, wanted)
		}
	}
}

// Lines in any order within the lateness give the same report.
func TestOrderWithinTheLatenessChangesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	text := generated(4, 30_000)
	wanted := decisions(t, runConfig(t, usualConfig(t, fromText("log", text))))
	for _, late := range []time.Duration{time.Second, time.Minute, 9*time.Minute - 1} {
		lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
		// A line is written up to late after its time. Lines may be a minute late in the log already.
		type written struct {
			line string
			at   time.Time
		}
		var all []written
		for i, l := range readLines(t, text) {
			all = append(all, written{strings.TrimSuffix(lines[i], "\n") + "\n", l.at.Add(time.Duration(random.Int64N(int64(late))))})
		}
		slices.SortStableFunc(all, func(a, b written) int { return a.at.Compare(b.at) })
		var shuffled strings.Builder
		for _, w := range all {
			shuffled.WriteString(w.line)
		}
		if got := decisions(t, runConfig(t, usualConfig(t, fromText("log", shuffled.String())))); got != wanted {
			t.Errorf("late %v: another report:\n%.300s\nwant\n%.300s", late, got, wanted)
		}
	}
}

func combined(client string, at time.Time) string {
	return fmt.Sprintf("%s - - [%s] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"\n", client, at.Format("02/Jan/2006:15:04:05 -0700"))
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// A line later than the lateness counts in its window if its key allows that, and is reported otherwise.
func TestLinesThatComeTooLateAreReported(t *testing.T) {
	text := combined("192.0.2.1", noon) + combined("192.0.2.2", noon.Add(time.Hour)) + combined("192.0.2.3", noon.Add(time.Hour+time.Second)) +
		combined("192.0.2.1", noon.Add(time.Minute)) + // late for the log, in order for its key
		combined("192.0.2.2", noon.Add(49*time.Minute)) + // more than the lateness before its key's newest, which is not counted yet
		combined("192.0.2.8", noon.Add(2*time.Hour)) + combined("192.0.2.9", noon.Add(2*time.Hour+time.Second)) +
		combined("192.0.2.2", noon.Add(49*time.Minute)) // and once that has counted
	r := runConfig(t, usualConfig(t, fromText("log", text)))
	if got := r.Rules[0]; r.Requests != 8 || got.Requests != 6 || got.Uncounted["late"] != 2 || got.Keys != 5 {
		t.Fatalf("%+v", got)
	}
}

// The first line may be longer than the sample for detection, and longer than a line may be.
func TestALongFirstLine(t *testing.T) {
	good := combined("192.0.2.1", noon)
	for _, first := range []string{strings.Replace(good, "GET /", "GET /?"+strings.Repeat("a", 300<<10), 1), strings.Repeat("x", maxLineBytes+1) + "\n"} {
		r := runConfig(t, usualConfig(t, fromText("log", first+strings.Repeat(good, 20))))
		if got, want := r.Requests+r.Unread["long"], int64(21); got != want || len(r.Unread) > 1 {
			t.Errorf("%d, want %d: %v", got, want, r.Unread)
		}
	}
}

func TestUnreadLinesAreCountedAndShown(t *testing.T) {
	good := combined("192.0.2.1", noon)
	long := strings.Repeat("x", maxLineBytes+1) + "\n"
	text := good + good + "nonsense\n" + long + "\n" + good + strings.Replace(good, "Mar", "Foo", 1) + "more nonsense\n" + long + good
	r := runConfig(t, usualConfig(t, fromText("a.log", text), fromText("b.log", good+good+"other nonsense\n")))
	if got := fmt.Sprint(r.Requests, r.Unread, r.Inputs[0].Unread, r.Inputs[1].Unread); got != "6 map[format:3 long:2 time:1] map[format:2 long:2 time:1] map[format:1]" {
		t.Error(got)
	}
	var samples []string
	for _, s := range r.Samples {
		samples = append(samples, fmt.Sprintf("%s:%d %s %.8s", s.Input, s.Line, s.Reason, s.Text))
	}
	slices.Sort(samples)
	if got := strings.Join(samples, ", "); got != "a.log:3 format nonsense, a.log:4 long xxxxxxxx, a.log:7 time 192.0.2." {
		t.Error(got)
	}
	if r.Rules[0].Blocked == nil || r.Faults == nil {
		t.Error("empty lists are null in JSON")
	}
}

func TestALogThatBreaksOffIsCountedSoFar(t *testing.T) {
	var text strings.Builder
	for i := range 50_000 {
		text.WriteString(combined(fmt.Sprintf("192.0.2.%d", i%250), noon.Add(time.Duration(i)*time.Second)))
	}
	whole := gzipped(t, text.String())
	r := runConfig(t, usualConfig(t, writeFile(t, "cut.gz", whole[:len(whole)-len(whole)/3]), fromText("other", combined("198.51.100.1", noon))))
	if len(r.Faults) != 1 || !strings.Contains(r.Faults[0], "cut.gz: it is cut off after line ") || r.Requests < 10_000 || r.Requests > 49_999 || len(r.Unread) > 0 {
		t.Errorf("%d requests, unread %v, faults %q", r.Requests, r.Unread, r.Faults)
	}
	broken := bytes.Clone(whole)
	copy(broken[len(broken)/2:], "this is not what was written")
	if r := runConfig(t, usualConfig(t, writeFile(t, "broken.gz", broken))); len(r.Faults) != 1 || !strings.Contains(r.Faults[0], "broken.gz: after line ") {
		t.Errorf("%q", r.Faults)
	}
}

func TestBytesBehindAGzipAreAnError(t *testing.T) {
	whole := gzipped(t, combined("192.0.2.1", noon)+combined("192.0.2.2", noon))
	for _, behind := range []string{"\n", "\x1fx", "more than a header of gzip is long", strings.Repeat("\x00", 512)} {
		r := runConfig(t, usualConfig(t, writeFile(t, "a.gz", append(bytes.Clone(whole), behind...))))
		if len(r.Faults) != 1 || !strings.Contains(r.Faults[0], "after line 2: other bytes follow the end of the compressed data") || r.Requests != 2 {
			t.Errorf("%q: %d requests, %q", behind, r.Requests, r.Faults)
		}
	}
}

func TestInputsThatCannotBeReadAreReportedTogether(t *testing.T) {
	_, err := Run(t.Context(), usualConfig(t, Input{Path: "/no/such/file"}, fromText("poem", "Wir sind es noch immer\nund morgen\n"),
		fromText("good", combined("192.0.2.1", noon)), writeFile(t, "a.xz", []byte("\xfd7zXZ\x00")), writeFile(t, "a.zip", []byte("PK\x03\x04")),
		Input{Path: t.TempDir()}))
	if err == nil {
		t.Fatal("no error")
	}
	for _, wanted := range []string{"/no/such/file", "poem: no known format", "a.xz: xz is not read", "a.zip: zip is not read", "is a directory"} {
		if !strings.Contains(err.Error(), wanted) {
			t.Errorf("%q is missing in\n%v", wanted, err)
		}
	}
}

func TestNothingToRead(t *testing.T) {
	r := runConfig(t, usualConfig(t, fromText("-", "")))
	var j map[string]any
	if err := json.Unmarshal([]byte(decisions(t, r)), &j); err != nil {
		t.Fatal(err)
	}
	if from, given := j["from"]; !given || from != nil || j["requests"] != 0.0 || len(j["rules"].([]any)) != 1 {
		t.Errorf("%v", j)
	}
	if _, err := Run(t.Context(), Config{Inputs: []Input{fromText("-", "")}}); !errors.Is(err, errNoRules) {
		t.Error(err)
	}
}

// The JSON has the documented form.
func TestJSONForPrograms(t *testing.T) {
	var text strings.Builder
	for i := range 15 {
		text.WriteString(combined("203.0.113.7", noon.Add(time.Duration(i)*time.Second)))
	}
	text.WriteString("nonsense\n")
	r := runConfig(t, usualConfig(t, fromText("log", text.String())))
	const wanted = `{"requests":15,"unread":{"format":1},"from":"2026-03-01T12:00:00Z","to":"2026-03-01T12:00:14Z","refused":5,"rules":[` +
		`{"rule":"per-ip","mode":"enforce","algorithm":"sliding","key":"ip/32+128","limits":["10/min","100/hour","1000/day"],` +
		`"keys":1,"requests":15,"refused":5,"uncounted":{},"blocked":[` +
		`{"key":"203.0.113.7","first":"2026-03-01T12:00:10Z","limit":"10/min","peak":15,"requests":15,"refused":5,"blocks":1}]}],` +
		`"inputs":null,"samples":[{"reason":"format","input":"log","line":16,"text":"nonsense"}],"faults":[]}` + "\n"
	if got := decisions(t, r); got != wanted {
		t.Errorf("got  %swant %s", got, wanted)
	}
}

func TestTimesHaveTheSourcesPrecision(t *testing.T) {
	for at, wanted := range map[Instant]string{0: "1970-01-01T00:00:00Z", 1500: "1970-01-01T00:00:01.500Z", 1_772_366_400_000: "2026-03-01T12:00:00Z"} {
		if at.String() != wanted {
			t.Errorf("%d: %s", at, at)
		}
	}
}

// A stuck reader returns nothing and never ends, like a terminal without input.
type stuck struct{ released chan struct{} }

func (s stuck) Read([]byte) (int, error) {
	<-s.released
	return 0, io.EOF
}

func TestRunEndsWithItsContext(t *testing.T) {
	s := stuck{make(chan struct{})}
	defer close(s.released)
	for name, input := range map[string]io.Reader{
		"before the first line": s,
		"in the middle":         io.MultiReader(strings.NewReader(generated(5, 5000)), s),
	} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, context.Canceled)
		_, err := Run(ctx, usualConfig(t, Input{Path: name, Reader: input}))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

func TestProgressReachesTheEnd(t *testing.T) {
	in := writeFile(t, "log", []byte(generated(6, 20_000)))
	info, _ := os.Stat(in.Path)
	c := usualConfig(t, in)
	var done, total int64
	c.Progress = func(d, of int64) {
		if d < done {
			t.Errorf("%d after %d", d, done)
		}
		done, total = d, of
	}
	runConfig(t, c)
	if done != info.Size() || total != done {
		t.Errorf("%d of %d bytes, want %d", done, total, info.Size())
	}
}

// Lines with a time that is far off, as from a server without a clock, change no result of other keys.
func TestTimesFarOffHurtNoOtherKey(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	var servers [2]strings.Builder
	var lines []line
	for i, text := range strings.SplitAfter(generatedOf(7, 60_000, 500, 2), "\n") {
		if text == "" {
			continue
		}
		lines = append(lines, readLines(t, text)...)
		server := &servers[random.IntN(2)]
		if server.WriteString(text); i == 0 {
			servers[1-random.IntN(2)].WriteString(combined("192.0.2.7", noon))
			lines = append(lines, line{"192.0.2.7", noon})
		}
		if i%1000 == 999 {
			server.WriteString(combined(fmt.Sprintf("192.0.2.%d", 100+i/1000), time.Date([]int{1970, 2099}[i/1000%2], 1, 2, 0, 0, 0, 0, time.UTC)))
		}
	}
	book := textbook{limits: usualLimits, duration: time.Minute, then: []time.Duration{5 * time.Minute}, forget: 24 * time.Hour}
	wanted, _ := book.run(lines)
	got := runConfig(t, usualConfig(t, fromText("a", servers[0].String()), fromText("b", servers[1].String()))).Rules[0]
	if len(got.Uncounted) > 0 {
		t.Errorf("not counted: %v", got.Uncounted)
	}
	compareBlocked(t, got.Blocked, wanted)
}

// Logs with lines that define the format of later lines are read in one piece.
func TestLogsWithDirectives(t *testing.T) {
	var text strings.Builder
	for part := range 40 {
		text.WriteString("#Version: 1.0\n#Fields: date time c-ip cs-method cs-uri-stem sc-status\n")
		for i := range 250 {
			at := noon.Add(time.Duration(part*500+i) * time.Second)
			fmt.Fprintf(&text, "%s 192.0.2.%d GET / 200\n", at.Format("2006-01-02 15:04:05"), i%5)
		}
		text.WriteString("#Fields: c-ip date time sc-status\n")
		for i := range 250 {
			at := noon.Add(time.Duration(part*500+250+i) * time.Second)
			fmt.Fprintf(&text, "192.0.2.%d %s 200\n", i%5, at.Format("2006-01-02 15:04:05"))
		}
	}
	r := runConfig(t, usualConfig(t, fromText("iis", text.String())))
	if r.Requests != 20_000 || len(r.Unread) > 0 || r.Rules[0].Keys != 5 {
		t.Errorf("%d requests, unread %v", r.Requests, r.Unread)
	}
}

// A file next to its packed copy is refused: its lines would count twice.
func TestTheSameLogTwiceIsRefused(t *testing.T) {
	text := generated(5, 300)
	_, err := Run(t.Context(), usualConfig(t, writeFile(t, "access.log.1", []byte(text)), writeFile(t, "access.log.1.gz", gzipped(t, text)), fromText("other", generated(6, 300))))
	if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), "access.log.1.gz begin with the same lines") {
		t.Errorf("got %v", err)
	}
}

// A trusted proxy that sends no client address is the client.
func TestATrustedProxysOwnRequestsCount(t *testing.T) {
	c := usualConfig(t, fromText("log", combined("192.0.2.1", noon)+combined("192.0.2.77", noon)))
	c.Client = request.NewClient([]netip.Prefix{netip.MustParsePrefix("192.0.2.77/32")})
	r := runConfig(t, c)
	if got := r.Rules[0]; r.Requests != 2 || got.Requests != 2 || len(got.Uncounted) != 0 || got.Keys != 2 {
		t.Errorf("%+v", got)
	}
}

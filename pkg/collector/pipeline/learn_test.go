package pipeline

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/pkg/collector/pace"
	"weir/pkg/request"
	"weir/test/sink"
)

const (
	noTimeLine = `203.0.113.1 - - [yesterday] "GET / HTTP/1.1" 200 2 "-" "-"`
	noAddress  = `nobody? - - [03/Mar/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 2 "-" "-"`
)

func inDocker(line string) string {
	text, _ := json.Marshal(map[string]string{"log": line + "\n", "stream": "stdout", "time": "2026-03-03T08:00:00.5Z"})
	return string(text)
}

// learner is a stream of records whose form has to be found out.
func learner(t *testing.T, envelope, format string) *Stream {
	r := newRig(t, perIP)
	in, err := r.pipeline.NewIntake(IntakeConfig{Name: "test", Envelope: envelope, Format: format})
	if err != nil {
		t.Fatal(err)
	}
	s := in.NewStream(StreamConfig{Log: "a log", Source: "a source", Reached: pace.NoTime, NotBefore: pace.NoTime})
	t.Cleanup(s.Close)
	return s
}

// lot gives the stream records that arrived together.
func (s *Stream) lot(t *testing.T, records ...string) {
	t.Helper()
	s.Learn(records, nil)
	for _, record := range records {
		s.mustAdd(t, []byte(record))
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (s *Stream) unreadFor(why Reason) float64 {
	return testutil.ToFloat64(s.in.metrics.uncounted[why])
}

// If the format is given, unreadable records count under their true reason from the first one on, and readable ones
// are counted, before the envelope is known.
func TestBadFirstRecordsCountUnderTheirReason(t *testing.T) {
	s := learner(t, "auto", "combined")
	s.lot(t, noTimeLine)
	s.lot(t, noAddress, noTimeLine, string(logLine(1, time.Now())))
	if s.learned {
		t.Error("it is said to be known what the records are in")
	}
	if n, m, hits := s.unreadFor(reasonTime), s.unreadFor(reasonAddress), s.tally.hits; n != 2 || m != 1 || s.unreadFor(ReasonFormat) != 0 {
		t.Errorf("%v times, %v addresses, %v", n, m, hits)
	}
	if got, _ := s.in.pipeline.config.Sink.(*sink.Memory).Counted(t); len(got) != 1 {
		t.Errorf("counted %v", got)
	}
	decoder := s.decoder
	s.lot(t, string(logLine(2, time.Now())))
	if !s.learned || s.decoder != decoder {
		t.Error("lines in nothing are not read on as such")
	}
}

// An envelope is known by its marks, though the lines in it cannot be read.
func TestAnEnvelopeWithBadFirstLines(t *testing.T) {
	s := learner(t, "auto", "combined")
	s.lot(t, "listening on :80")
	s.lot(t, inDocker("starting"), inDocker(noTimeLine))
	s.lot(t, inDocker(string(logLine(1, time.Now()))))
	if got := s.in.choice.Load(); got == nil || got.Envelope != "docker" {
		t.Errorf("it is in %v", got)
	}
	if n, m := s.unreadFor(ReasonFormat), s.unreadFor(reasonTime); n != 2 || m != 1 {
		t.Errorf("unread: %v of the format, %v of the time", n, m)
	}
	if got, _ := s.in.pipeline.config.Sink.(*sink.Memory).Counted(t); len(got) != 1 {
		t.Errorf("counted %v", got)
	}
}

// A long sample without marks is in no envelope, though nothing of it can be read.
func TestALongSampleIsEnough(t *testing.T) {
	s := learner(t, "auto", "combined")
	s.lot(t, strings.Split(strings.Repeat(noTimeLine+"\n", 120), "\n")...)
	if !s.learned || s.form.envelope != "none" {
		t.Error("it is asked again and again")
	}
}

// The choice for another log of a source does not make the server of these lines the client.
func TestTheChoiceOfAnotherLogHasToFit(t *testing.T) {
	const vhost = `127.0.1.1:80 198.51.100.1 - - [03/Mar/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 2 "-" "-"`
	s := learner(t, "auto", "auto")
	if choice := s.Learn([]string{vhost, vhost}, &request.Choice{Envelope: "none", Format: "combined"}); choice == nil || choice.Format != "vhost_combined" {
		t.Errorf("chose %v", choice)
	}
}

// Where JSON has two addresses, the log and the status name the member that is taken.
func TestDoubtAboutTheClientIsLogged(t *testing.T) {
	var lines bytes.Buffer
	r := newRig(t, perIP)
	r.pipeline.config.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	in, err := r.pipeline.NewIntake(IntakeConfig{Name: "test", Envelope: "auto", Format: "auto"})
	if err != nil {
		t.Fatal(err)
	}
	s := in.NewStream(StreamConfig{Log: "a log", Source: "a source", Reached: pace.NoTime, NotBefore: pace.NoTime})
	defer s.Close()
	s.Learn([]string{`{"time":"2026-03-03T08:00:00Z","ip":"10.0.0.1","client_ip":"203.0.113.7","path":"/"}`}, nil)
	if !strings.Contains(lines.String(), `msg="ip is taken for the client's address, and client_ip has another`) {
		t.Errorf("logged %s", &lines)
	}
	if got := in.Status("file").Format; !strings.Contains(got, "the client is ip, not client_ip") {
		t.Errorf("the status has %s", got)
	}
}

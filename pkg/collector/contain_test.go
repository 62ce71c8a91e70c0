package collector

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/pkg/collector/files"
	"weir/pkg/collector/listeners"
	"weir/pkg/collector/pipeline"
	"weir/test/mine"
	"weir/test/port"
	"weir/test/wait"
)

func (b *bench) panics(source string) float64 {
	return b.metric("panics_total", "source", source)
}

// A log whose reading panics again and again, at any line, with cuts in any state, is counted once. The status reports
// that it is stopped, and the process and the other logs continue.
func TestALogThatPanicsIsCountedOnce(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{0, 20 * time.Millisecond} {
		b := newBench(t, "access.log", "other.log")
		heard := b.listen()
		b.config.Metrics = prometheus.NewRegistry()
		b.config.restartAfter = 5 * time.Millisecond
		b.sink.Delay = delay
		explosive := &mine.Mine{Armed: 12, Every: 400}
		b.config.Sources[0].Only = explosive.Only
		b.Log("access.log", 3000)
		b.Log("other.log", 1000)
		b.start()
		for !explosive.Exploded() {
			b.Log("access.log", 50)
			b.Log("other.log", 50)
			time.Sleep(time.Millisecond)
		}
		b.Log("access.log", 50)
		b.await()
		wait.Until(t, "the source to be well", func() bool { return b.collector.Status().CaughtUp })
		if got := b.panics("logs"); got != 12 {
			t.Errorf("%v panics are counted", got)
		}
		if !heard.Has("stopped by an error") || !heard.Has("collector/files/") {
			t.Error("it was not said, with where")
		}
		b.stop()
		b.start()
		b.Log("access.log", 10)
		b.await()
		b.stop()
	}
}

// A log that always panics is stopped, and the status reports it. Others are read, and its lines are counted once the
// panics end.
func TestASourceThatAlwaysPanics(t *testing.T) {
	b := newBench(t, "access.log")
	b.config.Late = 100 * 365 * 24 * time.Hour // none waits for another
	explosive := &mine.Mine{Armed: 1 << 30, Every: 1}
	bad := b.config.Sources[0]
	bad.Name, bad.Only = "bad", explosive.Only
	bad.File = &files.Config{Patterns: []string{b.Path("bad.log")}}
	b.config.Sources = append(b.config.Sources, bad)
	b.Log("access.log", 100)
	want := map[string]int64{}
	for key, n := range b.Want {
		want[key] = n
	}
	b.Log("bad.log", 100)
	b.start()
	b.sink.Await(t, want)
	wait.Until(t, "the status to say it", func() bool {
		status := b.collector.Status()
		return !status.CaughtUp && slices.ContainsFunc(status.Sources, func(s pipeline.SourceStatus) bool {
			return s.Name == "bad" && !s.CaughtUp && strings.Contains(s.Error, "bad.log is stopped by an error in the program: panic: a mine")
		})
	})
	b.stop()
	b.config.Sources[1].Only = nil
	b.start()
	b.await()
}

// The HTTP and the syslog source accept requests again after a panic.
func TestListenersGoOnAfterAPanic(t *testing.T) {
	t.Run("http", func(t *testing.T) {
		b := newBench(t)
		b.config.restartAfter = 5 * time.Millisecond
		explosive := &mine.Mine{Armed: 1, Every: 1}
		listen := port.Reserve(t, "127.0.0.1")
		b.config.Sources = []SourceConfig{{
			IntakeConfig: pipeline.IntakeConfig{Name: "posts", Format: "combined", Only: explosive.Only},
			HTTP:         &listeners.HTTPConfig{Listen: listen},
		}}
		b.start()
		client := &http.Client{Transport: &http.Transport{}}
		t.Cleanup(client.CloseIdleConnections)
		line := b.Line()
		post := func() (status int) {
			response, err := client.Post("http://"+listen+"/v1/requests", "text/plain", strings.NewReader(line))
			if err != nil {
				return 0
			}
			response.Body.Close()
			return response.StatusCode
		}
		wait.Until(t, "it to listen", func() bool { return len(b.collector.Status().Sources[0].Logs) > 0 })
		if status := post(); status == http.StatusOK {
			t.Error("answered 200")
		}
		wait.Until(t, "it to take requests again", func() bool { return post() == http.StatusOK })
		b.await()
	})
	t.Run("syslog", func(t *testing.T) {
		b := newBench(t)
		b.config.restartAfter = 5 * time.Millisecond
		explosive := &mine.Mine{Armed: 1, Every: 1}
		listen := port.Reserve(t, "127.0.0.1")
		b.config.Sources = []SourceConfig{{
			IntakeConfig: pipeline.IntakeConfig{Name: "lines", Format: "combined", Only: explosive.Only},
			Syslog:       &listeners.SyslogConfig{Listen: "tcp://" + listen},
		}}
		heard := b.listen()
		b.start()
		send := func(line string) {
			t.Helper()
			conn, err := net.Dial("tcp", listen)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			if _, err := io.WriteString(conn, line); err != nil {
				t.Fatal(err)
			}
		}
		wait.Until(t, "it to listen", func() bool { return heard.Has("takes syslog") })
		send(b.Line())
		clear(b.Want)
		wait.Until(t, "the panic", explosive.Exploded)
		wait.Until(t, "it to listen again", func() bool { return strings.Count(heard.String(), "takes syslog") == 2 })
		send(b.Line())
		b.await()
	})
}

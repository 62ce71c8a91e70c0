package live

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/internal/topic"
	"weir/test/wait"
)

// A command that waits, for a pager or for new records, does not keep a process from starting, and reads on from that
// process.
func TestACommandThatWaitsLeavesTheFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("data: data\nrules: {rules: [{name: per-ip, key: ip, limits: [10/min]}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, _, err := config.Load(config.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	write := func(log *daemon.Local, value string) {
		t.Helper()
		if err := log.EnsureTopics(t.Context(), topic.Topic{Name: "a", Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		to := log.Appender(topic.AppenderConfig{Topic: "a", Partitions: 1})
		if err := to.Send(t.Context(), topic.Message{Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
		if err := to.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	process, err := daemon.OpenLocal(t.Context(), settings, logger)
	if err != nil {
		t.Fatal(err)
	}
	write(process, "before")
	process.Close()

	topics, err := Connect(settings, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer topics.Close()
	reader := topics.Reader("a", 0, 0, 0)
	next := func() (text string) {
		t.Helper()
		for began := time.Now(); text == "" && time.Since(began) < time.Minute; {
			records, err := reader.Fetch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, record := range records {
				text += string(record.Value)
			}
		}
		return text
	}
	if got := next(); got != "before" || !topics.RunsHere() {
		t.Fatalf("%q", got)
	}
	wait.Until(t, "the folder", func() bool {
		process, err = daemon.OpenLocal(t.Context(), settings, logger)
		return err == nil
	})
	write(process, "meanwhile")
	process.Close()
	if got := next(); got != "meanwhile" {
		t.Fatalf("%q", got)
	}
}

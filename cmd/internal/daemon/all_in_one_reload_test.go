package daemon

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"weir/cmd/internal/config"
)

// A reloaded part counts its reloads.
type reloaded struct{ times int }

func (*reloaded) Run(context.Context) error { return nil }
func (*reloaded) Status() any               { return nil }
func (*reloaded) Close() error              { return nil }

func (r *reloaded) Reload(*config.Config) error {
	r.times++
	return nil
}

// A file that only one part reads and that cannot be read leaves all parts as they are.
func TestAFaultyFileLeavesAllPartsAsTheyAre(t *testing.T) {
	folder := t.TempDir()
	senders := filepath.Join(folder, "senders.txt")
	if err := os.WriteFile(senders, []byte("198.51.100.0/24\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := `
collector: {sources: [{name: one, syslog: "udp://127.0.0.1:5514", format: combined, from: [{file: senders.txt}]}]}
rules: [{name: per-ip, key: ip, limits: [10/min]}]
`
	c, _, err := config.Read([]byte(text), config.Options{File: filepath.Join(folder, "weir.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	one := &reloaded{}
	w := &allInOne{parts: []openPart{{Running: one}, {Running: one}}}
	if err := w.Reload(c); err != nil || one.times != 2 {
		t.Errorf("%v, %d parts reloaded", err, one.times)
	}
	if err := os.WriteFile(senders, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Reload(c); err == nil || one.times != 2 {
		t.Errorf("an empty file: %v, %d parts reloaded", err, one.times-2)
	}
	if err := os.Remove(senders); err != nil {
		t.Fatal(err)
	}
	if err := w.Reload(c); err == nil || one.times != 2 {
		t.Errorf("%v, %d parts reloaded", err, one.times-2)
	}
}

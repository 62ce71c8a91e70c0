package embedded

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// A disk that stays full is logged once a minute, not with every batch.
func TestRepeatsAreLoggedOnceAMinute(t *testing.T) {
	var text bytes.Buffer
	l := &logger{to: slog.New(slog.NewTextHandler(&text, nil)), kinds: map[string]*repeated{}}
	for range 1000 {
		l.Logf(kfake.LogLevelWarn, "persist batch %s: %v", "weir.hits-0", errors.New("no space left on device"))
		l.Logf(kfake.LogLevelInfo, "nothing")
	}
	l.Logf(kfake.LogLevelError, "another: %v", errors.New("broken"))
	if got := text.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "no space left") || !strings.Contains(got, "level=ERROR") {
		t.Error(got)
	}
	if times, due := l.due("persist batch %s: %v", time.Now().Add(sayEvery)); !due || times != 1000 {
		t.Errorf("after a minute %v, %d times", due, times)
	}
}

package ask

import (
	"errors"
	"strings"
	"testing"

	"weir/internal/origin"
)

// The tool takes no URL with a password, and shows none.
func TestAURLWithAPasswordIsRefused(t *testing.T) {
	const at = "http://me:secret@127.0.0.1:7421"
	t.Setenv("WEIR_URL", "")
	_, flag := (&Flags{url: at}).places(&clientFile{})
	_, file := (&Flags{}).places(&clientFile{URL: at, path: "client.yaml"})
	t.Setenv("WEIR_URL", at)
	_, variable := (&Flags{}).places(&clientFile{})
	for name, err := range map[string]error{"--url": flag, "client.yaml": file, "WEIR_URL": variable} {
		if !errors.Is(err, origin.ErrUser) || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

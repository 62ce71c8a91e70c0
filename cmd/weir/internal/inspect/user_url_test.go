package inspect

import (
	"errors"
	"strings"
	"testing"

	"weir/cmd/internal/config"
	"weir/internal/origin"
)

// No part is asked at a URL with a password, and no message shows one.
func TestAPartsURLWithAPasswordIsRefused(t *testing.T) {
	at := []string{"http://me:secret@127.0.0.1:7411"}
	_, counts := (&aggregatorFlags{aggregators: at}).open(config.Default())
	_, status := (&partFlags{enforcers: at}).places(config.Default())
	for _, err := range []error{counts, status} {
		if !errors.Is(err, origin.ErrUser) || strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	}
}

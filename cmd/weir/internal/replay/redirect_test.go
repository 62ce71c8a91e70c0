package replay

import (
	"errors"
	"strings"
	"testing"

	"weir/internal/origin"
	"weir/test/running"
)

// Lines do not follow a redirect to another host with the tool's key. The message names that host at once.
func TestTheKeyForLinesStaysWithItsHost(t *testing.T) {
	first, leaked := running.Redirect(t)
	sending := newHTTPSink(first+"/v1/requests", "secret")
	err := sending.add(t.Context(), []byte("line"))
	if err == nil {
		err = sending.flush(t.Context())
	}
	if err == nil || leaked() > 0 {
		t.Fatalf("%v; the key went to another host %d times", err, leaked())
	}
	if !strings.Contains(err.Error(), "it redirects to http://127.0.0.1:") || strings.Contains(err.Error(), "tried for") {
		t.Errorf("%v; the message does not name the other address, or it was asked again", err)
	}
}

func TestLinesGoToNoURLWithAPassword(t *testing.T) {
	if _, err := requestsURL("http://me:secret@127.0.0.1:7402"); !errors.Is(err, origin.ErrUser) || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

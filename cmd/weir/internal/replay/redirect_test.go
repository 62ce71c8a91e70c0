package replay

import (
	"testing"

	"weir/test/running"
)

// Lines do not follow a redirect to another host with the tool's key.
func TestTheKeyForLinesStaysWithItsHost(t *testing.T) {
	first, leaked := running.Redirect(t)
	sending := newHTTPSink(first+"/v1/requests", "secret")
	sending.patience = 0
	err := sending.add(t.Context(), []byte("line"))
	if err == nil {
		err = sending.flush(t.Context())
	}
	if err == nil || leaked() > 0 {
		t.Errorf("%v; the key went to another host %d times", err, leaked())
	}
}

package ask

import (
	"net/http"
	"strings"
	"testing"

	"weir/test/running"
)

// No request follows a redirect to another host with the tool's key.
func TestTheToolsKeyStaysWithItsHost(t *testing.T) {
	first, leaked := running.Redirect(t)
	enforcer, err := newEnforcer([]place{{url: first, named: "--url"}}, "secret", &clientFile{})
	if err != nil {
		t.Fatal(err)
	}
	defer enforcer.Close()
	for name, ask := range map[string]func() error{
		"an enforcer": func() error {
			_, err := enforcer.Ask(t.Context(), http.MethodGet, "/v1/find", nil, nil, &struct{}{})
			return err
		},
		"an order": func() error {
			_, err := enforcer.Ask(t.Context(), http.MethodPost, "/v1/blocks", nil, map[string]string{"key": "x"}, &struct{}{})
			return err
		},
		"a part's status": func() error {
			_, _, err := Status(t.Context(), first+"/status", "secret")
			return err
		},
	} {
		if err := ask(); err == nil || leaked() > 0 {
			t.Errorf("asking %s: %v; the key went to another host %d times", name, err, leaked())
		} else if !strings.Contains(err.Error(), "it redirects to http://127.0.0.1:") {
			t.Errorf("asking %s: %v; the message does not name the other address", name, err)
		}
	}
}

package inspect

import (
	"net/url"
	"testing"

	"weir/cmd/internal/config"
	"weir/test/running"
)

// A question to an aggregator does not follow a redirect to another host with the tool's key.
func TestTheKeyForAggregatorsStaysWithItsHost(t *testing.T) {
	first, leaked := running.Redirect(t)
	at, err := url.Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	settings := config.Default()
	settings.Aggregator.Listen = at.Host
	counting, err := (&aggregatorFlags{}).open(settings)
	if err != nil {
		t.Fatal(err)
	}
	counting.key = "secret"
	if err := counting.ask(t.Context(), first, "/v1/keys", nil, &struct{}{}); err == nil || leaked() > 0 {
		t.Errorf("%v; the key went to another host %d times", err, leaked())
	}
}

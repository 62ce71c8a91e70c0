package inspect

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/shown"
	"weir/pkg/blocklist"
)

// mostProven is for how many entries of a key the evidence is shown.
const mostProven = 5

// findEvidence adds the last requests that counted for the key's entries. An enforcer without evidence, and an earlier
// one that does not know the question, answer that there is none.
func (x *explanation) findEvidence(ctx context.Context, enforcer *ask.Enforcer) error {
	for _, entry := range x.Entries {
		if entry.Source != blocklist.Verdict || len(x.Evidence) == mostProven {
			continue
		}
		found := &shown.Evidence{}
		_, err := enforcer.Ask(ctx, http.MethodGet, "/v1/evidence", url.Values{"id": {entry.ID}}, nil, found)
		if refused, ok := errors.AsType[*ask.RefusedError](err); ok && refused.Status == http.StatusNotFound {
			continue
		}
		if err != nil {
			return err
		}
		found.Limit = entry.Limit
		x.Evidence = append(x.Evidence, found)
	}
	return nil
}

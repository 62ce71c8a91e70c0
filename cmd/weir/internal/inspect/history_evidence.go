package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/shown"
	"weir/pkg/blocklist"
	"weir/pkg/evidence"
)

// mostProvenEvents is for how many blocks of a history the evidence is shown, the last ones.
const mostProvenEvents = 20

// addEvidence asks an enforcer for the last requests that counted for the last blocks of a story.
func (h *historyCommand) addEvidence(ctx context.Context, to *story) error {
	enforcer, err := h.enforcer.Connect()
	if err != nil {
		return err
	}
	defer enforcer.Close()
	asked := map[string]bool{}
	for _, e := range slices.Backward(to.events) {
		if e.Source != blocklist.Verdict || asked[e.ID] {
			continue
		}
		if len(asked) == mostProvenEvents {
			return nil
		}
		asked[e.ID] = true
		found := &shown.Evidence{}
		_, err := enforcer.Ask(ctx, http.MethodGet, "/v1/evidence", url.Values{"id": {e.ID}}, nil, found)
		if refused, ok := errors.AsType[*ask.RefusedError](err); ok && refused.Status == http.StatusNotFound {
			continue // there is none
		}
		if err != nil {
			return err
		}
		found.Limit = e.Limit
		to.proofs = append(to.proofs, found)
	}
	return nil
}

// checkEvidence refuses flags that --evidence does not go with.
func (h *historyCommand) checkEvidence() error {
	if h.evidence && (h.tries || h.output.Form != "text" && h.output.Form != "json") {
		return exit.Wrongf("--evidence goes with events as text and as JSON only")
	}
	return nil
}

// withEvidence adds the requests to the events of their blocks, as the member evidence.
func (s *story) withEvidence() error {
	of := map[string][]evidence.Request{}
	for _, one := range s.proofs {
		of[one.ID] = one.Requests
	}
	for _, e := range s.events {
		requests := of[e.ID]
		if len(requests) == 0 || !strings.HasSuffix(string(e.Line), "}") {
			continue
		}
		text, err := json.Marshal(requests)
		if err != nil {
			return err
		}
		e.Line = append(append(append(slices.Clone(e.Line[:len(e.Line)-1]), `,"evidence":`...), text...), '}')
	}
	return nil
}

package enforcer

import (
	"net/http"
	"strings"

	"weir/internal/keys"
	"weir/pkg/evidence"
)

// maxID is the length of the longest id of an entry.
const maxID = 256

// A proven is the answer to GET /v1/evidence.
type proven struct {
	ID       string             `json:"id"`
	Rule     string             `json:"rule"`
	Key      string             `json:"key"`
	Requests []evidence.Request `json:"requests"` // newest first
	Kept     int                `json:"kept"`     // requests in this answer
	Counted  int64              `json:"counted"`  // hits that broke the limit
}

// evidence is GET /v1/evidence: the last requests that counted for an entry.
func (e *Enforcer) evidence(w http.ResponseWriter, r *http.Request) error {
	if _, err := e.Admit(r, keys.Read); err != nil {
		return err
	}
	values, err := parameters(r, []string{"id"})
	if err != nil {
		return err
	}
	id := values.Get("id")
	switch {
	case id == "" || len(id) > maxID:
		return problemf(http.StatusBadRequest, "the id is missing or too long: give that of an entry, as /v1/find shows it")
	case e.config.Evidence == nil && strings.HasPrefix(e.config.Follows, "http"):
		return problemf(http.StatusNotFound, "this enforcer keeps no evidence; ask the one that it follows: %s", e.config.Follows)
	case e.config.Evidence == nil:
		return problemf(http.StatusNotFound, "this enforcer keeps no evidence: enforcer.evidence is 0")
	}

	record, ok := e.config.Evidence(id)
	if !ok {
		return problemf(http.StatusNotFound, "there is no evidence for the entry %.40q: its rule keeps none, it is too old, or its requests were", id)
	}
	answer := proven{ID: record.ID, Rule: record.Rule, Key: record.Key, Requests: record.Requests, Kept: len(record.Requests), Counted: record.Counted}
	if answer.Requests == nil {
		answer.Requests = []evidence.Request{}
	}
	writeJSON(hurry(w), http.StatusOK, answer)
	return nil
}

package crowdsec

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
)

// maxUsage bounds a bouncer's usage metrics, also after decompression.
const maxUsage = 1 << 20

// usage accepts a bouncer's usage metrics. It stores none of them, and checks only as much as bouncers need.
func (a *API) usage(w http.ResponseWriter, r *http.Request, _ string) {
	body := io.Reader(http.MaxBytesReader(w, r.Body, maxUsage))
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			answerError(w, http.StatusBadRequest, "invalid gzip: "+err.Error())
			return
		}

		// Bounded again: a small gzip may unpack to a thousand times its length.
		body = io.LimitReader(unpacked, maxUsage)
	}

	var said struct {
		Components []map[string]json.RawMessage `json:"remediation_components"`
	}
	if err := json.NewDecoder(body).Decode(&said); err != nil {
		answerError(w, http.StatusBadRequest, "failed to parse body: "+err.Error())
		return
	}
	if len(said.Components) != 1 {
		answerError(w, http.StatusBadRequest, "exactly one remediation component is wanted")
		return
	}

	for _, name := range []string{"version", "utc_startup_timestamp"} {
		if value := said.Components[0][name]; len(value) == 0 || string(value) == "null" {
			answerError(w, http.StatusUnprocessableEntity, "validation failure list:\nremediation_components.0."+name+" in body is required")
			return
		}
	}

	empty(w, http.StatusCreated)
}

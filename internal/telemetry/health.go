package telemetry

import (
	"encoding/json"
	"net/http"
	"sync"
)

// Health answers for a process: whether it runs, whether it is ready, how it stands.
type Health struct {
	mu      sync.Mutex
	unready string // why it is not ready; empty when it is
	status  func() any
	changed func(unready string)
}

// NewHealth makes that of a process that is starting.
func NewHealth() *Health { return &Health{unready: "starting"} }

// Ready says that the process is ready.
func (h *Health) Ready() { h.set("") }

// Unready says that it is not, and why.
func (h *Health) Unready(why string) { h.set(why) }

func (h *Health) set(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed != nil && why != h.unready {
		h.changed(why)
	}
	h.unready = why
}

// OnChange has a function called at every change, with why the process is not ready; empty when it is.
func (h *Health) OnChange(changed func(unready string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = changed
}

// Status has /status answer with what a function gives, as JSON.
func (h *Health) Status(status func() any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = status
}

// Handle adds /healthz, /readyz and /status.
func (h *Health) Handle(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", h.readyz)
	mux.HandleFunc("GET /status", h.statusz)
}

func (h *Health) readyz(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	why := h.unready
	h.mu.Unlock()
	if why != "" {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	w.Write([]byte("ready\n"))
}

func (h *Health) statusz(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	status := h.status
	h.mu.Unlock()
	if status == nil {
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.Encode(status())
}

package telemetry

import (
	"cmp"
	"encoding/json"
	"net/http"
	"sync"
)

// Health answers for a process: whether it runs, whether it is ready, and its status.
type Health struct {
	mu      sync.Mutex
	unready string // why it is not ready; empty when it is
	lacks   string // what is missing although Ready was called
	lost    string // what it had and has lost
	status  func() any
	changed func(unready string)
}

// NewHealth makes the Health of a process that is starting.
func NewHealth() *Health { return &Health{unready: "starting"} }

// Ready sets the process ready.
func (h *Health) Ready() { h.set("") }

// Unready sets the process not ready, with the reason.
func (h *Health) Unready(why string) { h.set(why) }

// Lack names something missing that makes the process not ready although Ready was called; empty is nothing.
func (h *Health) Lack(what string) { h.change(func() { h.lacks = what }) }

// Lost names something lost that makes the process not ready until it has it again; empty is nothing.
func (h *Health) Lost(what string) { h.change(func() { h.lost = what }) }

func (h *Health) set(why string) { h.change(func() { h.unready = why }) }

func (h *Health) change(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.why()
	change()
	if why := h.why(); h.changed != nil && why != before {
		h.changed(why)
	}
}

// why returns why the process is not ready. The caller holds the lock.
func (h *Health) why() string {
	return cmp.Or(h.unready, h.lost, h.lacks)
}

// OnChange registers a function to call at every change, with the reason why the process is not ready; empty when it
// is.
func (h *Health) OnChange(changed func(unready string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = changed
}

// Status makes /status answer with a function's result, as JSON.
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
	why := h.why()
	h.mu.Unlock()
	if why != "" {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	w.Write([]byte("ready\n"))
}

func (h *Health) statusz(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	status, why := h.status, cmp.Or(h.why(), "starting")
	h.mu.Unlock()
	if status == nil {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.Encode(status())
}

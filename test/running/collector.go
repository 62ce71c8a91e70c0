package running

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// A Collector takes requests as a collector's http source does, after the answers that the test has set.
type Collector struct {
	*httptest.Server
	mu      sync.Mutex
	answers []func(http.ResponseWriter) // given before it takes anything
	bodies  []string                    // that it took
	Keys    []string
	Tried   int
}

// NewCollector runs a stub that gives these answers before it takes anything.
func NewCollector(answers ...func(http.ResponseWriter)) *Collector {
	s := &Collector{answers: answers}
	s.Server = httptest.NewServer(s)
	return s
}

func (s *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Tried++
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/requests" {
		http.Error(w, "not so", http.StatusNotFound)
		return
	}
	if len(s.answers) > 0 {
		answer := s.answers[0]
		s.answers = s.answers[1:]
		answer(w)
		return
	}
	s.bodies, s.Keys = append(s.bodies, string(body)), append(s.Keys, r.Header.Get("X-Api-Key"))
	fmt.Fprintf(w, `{"requests": %d, "unread": {"time": 1}, "uncounted": {"match": 2}}`, strings.Count(string(body), "\n"))
}

// Received returns what was taken since the last call.
func (s *Collector) Received() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := strings.Join(s.bodies, "")
	s.bodies = nil
	return taken
}

package files

import (
	"slices"
	"sync"

	"weir/pkg/collector/pipeline"
)

// namedReadFiles is how many of a source's read files have a name in its status.
const namedReadFiles = 100

// readFiles collects the read files of a source's families. Each family sets its own.
type readFiles struct {
	mu       sync.Mutex
	byFamily map[string][]string
}

// set replaces the paths of a family.
func (r *readFiles) set(family string, paths []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byFamily == nil {
		r.byFamily = map[string][]string{}
	}
	if delete(r.byFamily, family); len(paths) > 0 {
		r.byFamily[family] = paths
	}
}

// status returns nil when there are none.
func (r *readFiles) status() *pipeline.ReadFiles {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, paths := range r.byFamily {
		all = append(all, paths...)
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	return &pipeline.ReadFiles{Files: len(all), Names: all[:min(len(all), namedReadFiles)]}
}

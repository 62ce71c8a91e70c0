package files

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"

	"weir/pkg/collector/pipeline"
)

// missingFiles are the patterns of a source that matched no file when it looked last.
type missingFiles struct {
	mu    sync.Mutex
	empty map[string]bool
}

func (m *missingFiles) set(empty map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.empty = empty
}

// of returns the patterns that lead to nothing. A path is one of them when it does not exist and none of its rotated
// files is read, and a glob when the source has no file at all: of several globs some may be for other machines.
func (m *missingFiles) of(patterns []string, status *pipeline.SourceStatus) (missing []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	nothing := len(status.Logs) == 0 && status.Read == nil
	for _, pattern := range patterns {
		if strings.ContainsAny(pattern, `*?[\`) {
			if nothing && m.empty[pattern] {
				missing = append(missing, pattern)
			}
			continue
		}
		_, err := os.Stat(pattern)
		read := slices.ContainsFunc(status.Logs, func(log pipeline.LogStatus) bool { return strings.HasPrefix(log.Log, pattern) })
		if errors.Is(err, os.ErrNotExist) && !read {
			missing = append(missing, pattern)
		}
	}
	return missing
}

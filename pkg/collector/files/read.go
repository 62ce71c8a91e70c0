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

// showRead publishes the files that the family has read to their end. Of those that files lists, which are the present
// ones, it forgets the others and renames those that were rotated; nil changes none.
func (f *family) showRead(files []found) {
	if files != nil {
		present := map[inode]string{}
		for _, file := range files {
			present[inodeOf(file.info)] = file.path
		}
		for id := range f.done {
			if f.done[id] = present[id]; f.done[id] == "" || f.finished[id] == nil {
				delete(f.done, id)
			}
		}
		for _, log := range f.logs {
			delete(f.done, log.inode) // it has grown, and is open again
		}
	}

	paths := make([]string, 0, len(f.done))
	for _, path := range f.done {
		paths = append(paths, path)
	}
	f.allRead.set(f.path, paths)
}

package collector

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"weir/internal/logfile"
)

const namedFiles = 5

// barredFiles are the files and folders of a source that cannot be read, and why. Its families tell of theirs with each
// look, the source of its patterns' folders under no family; it says them all together.
type barredFiles struct {
	mu       sync.Mutex
	byFamily map[*family]map[string]error
	told     bool // that there are some
}

// set takes what a family has found by now, by path; nothing is nothing.
func (b *barredFiles) set(f *family, faults map[string]error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(faults) == 0 {
		delete(b.byFamily, f)
		return
	}
	if b.byFamily == nil {
		b.byFamily = map[*family]map[string]error{}
	}
	b.byFamily[f] = faults
}

// none says whether there is none that may be read later.
func (b *barredFiles) none() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, faults := range b.byFamily {
		for _, fault := range faults {
			if !errors.Is(fault, logfile.ErrNoLog) { // which nothing will be read of
				return false
			}
		}
	}
	return true
}

// news is what there is to say: a fault, or that the last one is over.
func (b *barredFiles) news() (fault error, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	over = b.told && len(b.byFamily) == 0
	b.told = len(b.byFamily) > 0
	if !b.told {
		return nil, over
	}
	faults := map[string]error{}
	for _, of := range b.byFamily {
		maps.Copy(faults, of)
	}
	return barredFault(faults), false
}

// barredFault names the first of the files, and what can be done.
func barredFault(faults map[string]error) error {
	paths := slices.Sorted(maps.Keys(faults))
	var named []string
	for _, path := range paths[:min(len(paths), namedFiles)] {
		named = append(named, faults[path].Error())
	}
	text := strings.Join(named, "; ")
	if n := len(paths); n > 1 {
		text = fmt.Sprintf("%d files cannot be read: %s", n, text)
	}
	if more := len(paths) - namedFiles; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	for _, path := range paths {
		if errors.Is(faults[path], fs.ErrPermission) {
			who := ourName()
			return fmt.Errorf("%s; let %s read them: by their group (on Debian adm: usermod -aG adm %s, then restart), or by setfacl -R -m u:%s:rX,d:u:%s:rX %s",
				text, who, who, who, who, filepath.Dir(path))
		}
	}
	return errors.New(text)
}

func ourName() string {
	if us, err := user.Current(); err == nil && us.Username != "" {
		return us.Username
	}
	return strconv.Itoa(os.Getuid())
}

package files

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
	"syscall"

	"weir/internal/logfile"
)

const namedFiles = 5

// barredFiles are the files and folders of a source that cannot be read, with their errors. Each family sets its own
// with every scan; the source sets those of its patterns' folders, with an empty key.
type barredFiles struct {
	mu       sync.Mutex
	byFamily map[string]map[string]error
	reported bool // that there are some
}

// set replaces the errors of a family, by path; no errors remove its entry.
func (b *barredFiles) set(family string, faults map[string]error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(faults) == 0 {
		delete(b.byFamily, family)
		return
	}
	if b.byFamily == nil {
		b.byFamily = map[string]map[string]error{}
	}
	b.byFamily[family] = faults
}

// lasts reports whether a file stays unread until it changes: it is no log, or it is broken.
func lasts(fault error) bool {
	return errors.Is(fault, logfile.ErrNoLog) || errors.Is(fault, errBroken)
}

// all returns the errors that last, or the others, by path.
func (b *barredFiles) all(lasting bool) map[string]error {
	faults := map[string]error{}
	for _, of := range b.byFamily {
		for path, fault := range of {
			if lasts(fault) == lasting {
				faults[path] = fault
			}
		}
	}
	return faults
}

// none reports whether there is no unreadable file that may become readable later without a change.
func (b *barredFiles) none() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all(false)) == 0
}

// lasting names the files that are not read, or not to their end. Each was logged when it was found.
func (b *barredFiles) lasting() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if faults := b.all(true); len(faults) > 0 {
		return barredFault(faults, "are not read, or not to their end")
	}
	return nil
}

// report returns the error to report for the other files, or that the last of them is over. It remembers that it did.
func (b *barredFiles) report() (fault error, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	faults := b.all(false)
	over = b.reported && len(faults) == 0
	if b.reported = len(faults) > 0; !b.reported {
		return nil, over
	}
	return barredFault(faults, "cannot be read"), false
}

// barredFault names the first of the files, and the remedy.
func barredFault(faults map[string]error, what string) error {
	paths := slices.Sorted(maps.Keys(faults))
	var named []string
	for _, path := range paths[:min(len(paths), namedFiles)] {
		named = append(named, faults[path].Error())
	}

	text := strings.Join(named, "; ")
	if n := len(paths); n > 1 {
		text = fmt.Sprintf("%d files %s: %s", n, what, text)
	}
	if more := len(paths) - namedFiles; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}

	for _, path := range paths {
		if errors.Is(faults[path], syscall.EMFILE) {
			return fmt.Errorf("%s; let this process have more files open, by LimitNOFILE= in its unit or ulimit -n", text)
		}
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

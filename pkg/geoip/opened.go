package geoip

import (
	"fmt"
	"os"
	"syscall"
)

// Opened remembers databases by their paths, so that an unchanged file is not read again. One goroutine uses it.
type Opened struct{ known map[string]opened }

type opened struct {
	look string
	*Database
}

// Open opens the databases of the paths; errs has the error of each path, or nil. Databases of other paths are forgotten,
// and one that cannot be read is read again at the next call.
func (o *Opened) Open(paths []string) (all []*Database, errs []error) {
	before := o.known
	o.known = map[string]opened{}
	errs = make([]error, len(paths))
	for i, path := range paths {
		one := opened{look: look(path)} // before reading, so that a change meanwhile is found at the next call
		if known, ok := before[path]; ok && known.look == one.look {
			one = known
		} else if one.Database, errs[i] = Open(path); errs[i] != nil {
			continue
		}
		o.known[path] = one
		all = append(all, one.Database)
	}
	return all, errs
}

// look describes a file by size, time of change and inode.
func look(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	stat, _ := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintln(info.Size(), info.ModTime().UnixNano(), stat.Ino)
}

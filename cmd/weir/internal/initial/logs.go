package initial

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Usual returns the places where servers write their access logs by default.
func Usual() []string {
	return []string{
		"/var/log/nginx/*access*.log",
		"/var/log/apache2/*access*.log",
		"/var/log/httpd/*access_log",
		"/var/log/caddy/*access*.log",
		"/var/log/traefik/*access*.log",
		"/var/log/haproxy.log",
		"/var/log/lighttpd/access.log",
		"/var/log/squid/access.log",
		"/data/logs/*access.log",        // Nginx Proxy Manager, in its container
		"/opt/npmplus/nginx/access.log", // NPMplus
	}
}

// Logs are the patterns with a log that can be read, and the logs that cannot.
type Logs struct {
	readable []string
	locked   []string
}

// Find looks for the files of patterns.
func Find(patterns []string) (found Logs) {
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(pattern) // the patterns are ours
		if len(paths) == 0 {
			// Glob finds nothing in a folder that the user may not read.
			if folder := filepath.Dir(pattern); lockedFolder(folder) {
				found.locked = append(found.locked, folder)
			}
			continue
		}

		readable := false
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
				continue
			}
			file, err := os.Open(path)
			if err != nil {
				found.locked = append(found.locked, path)
				continue
			}
			file.Close()
			readable = true
		}

		if readable {
			found.readable = append(found.readable, pattern)
		}
	}

	found.locked = slices.Compact(found.locked)
	return found
}

func lockedFolder(folder string) bool {
	_, err := os.ReadDir(folder)
	return errors.Is(err, fs.ErrPermission)
}

func (f Logs) patterns() []string { return f.readable }

// Missing returns an error when no log can be read.
func (f Logs) Missing() error {
	switch {
	case len(f.readable) > 0:
		return nil
	case len(f.locked) > 0:
		return errLockedLogs
	}
	return errNoLogs
}

var (
	errNoLogs     = errors.New("no access log was found in the usual places; `weir init` writes a weir.yaml in which you can name one, `weir run --demo` runs with a log of its own")
	errLockedLogs = errors.New("none of the access logs that were found may be read; change that and run this again. `weir run --demo` runs with a log of its own")
)

// Warn lists the logs that may not be read, each with a command that changes this. It also warns of several servers: one
// may pass its requests on to another.
func (f Logs) Warn(w io.Writer) {
	if len(f.readable) > 1 {
		fmt.Fprintf(w, "logs of several servers are read: %s. If one passes requests on to another, both log them and each counts twice: "+
			"name only the logs of the first in weir.yaml\n", strings.Join(f.readable, ", "))
	}
	for _, path := range f.locked {
		fmt.Fprintf(w, "%s may not be read by %s: %s\n", path, userName(), remedyFor(path))
	}
}

// remedyFor returns a command after which a path may be read: it adds the user to the file's group, or to its access list.
func remedyFor(path string) string {
	info, err := os.Stat(path)
	if err == nil && info.Mode()&0o040 != 0 {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			if group, err := user.LookupGroupId(strconv.FormatUint(uint64(stat.Gid), 10)); err == nil && group.Name != "root" {
				return fmt.Sprintf("sudo usermod -aG %s %s, then sign in again", group.Name, userName())
			}
		}
	}
	return fmt.Sprintf("sudo setfacl -R -m u:%s:rX %s", userName(), path)
}

func userName() string {
	if who, err := user.Current(); err == nil {
		return who.Username
	}
	return strconv.Itoa(os.Getuid())
}

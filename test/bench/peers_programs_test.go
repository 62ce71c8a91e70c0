package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// readWithWeir finds the clients that break the three limits, in one command.
func readWithWeir(b *testing.B, folder, log string) (reading, map[string]bool) {
	weir := filepath.Join(folder, "weir")
	if said, err := exec.Command("go", "build", "-o", weir, "weir/cmd/weir").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, said)
	}
	took, said, _ := read(b, child(folder, weir, "backtest", "--limit", "10/min", "--limit", "100/hour", "--limit", "1000/day", "--key", "ip", "--json", log))
	var report struct {
		Rules []struct{ Blocked []struct{ Key string } }
	}
	if err := json.Unmarshal([]byte(said), &report); err != nil {
		b.Fatal(err)
	}
	blocked := map[string]bool{}
	for _, k := range report.Rules[0].Blocked {
		blocked[k.Key] = true
	}
	return took, blocked
}

// readWithGawk counts in the minutes, hours and days of the clock.
func readWithGawk(b *testing.B, folder, log string) (reading, map[string]bool) {
	took, said, _ := read(b, child(folder, "gawk", gawkCounts, log))
	return took, words(said)
}

// readWithGoAccess makes a report of visitors and pages. It names no offenders.
func readWithGoAccess(b *testing.B, folder, log string) (reading, map[string]bool) {
	took, _, _ := read(b, child(folder, "goaccess", "--no-global-config", "--no-progress", "--log-format=COMBINED", "-o", "report.json", log))
	return took, nil
}

// fail2ban has fail2ban's filter and its count of failures read the log once for each limit, as a jail each would. Its
// server treats old lines as current or leaves them out, so the clock is that of the lines here.
func fail2ban(limits []limit, options ...string) func(b *testing.B, folder, log string) (reading, map[string]bool) {
	return func(b *testing.B, folder, log string) (reading, map[string]bool) {
		root := debian(b, "fail2ban", "usr/bin/fail2ban-server")
		script, err := filepath.Abs("peers/replay.py")
		if err != nil {
			b.Fatal(err)
		}
		command := child(folder, "python3", append([]string{script}, options...)...)
		command.Args = append(command.Args, log)
		for _, l := range limits {
			command.Args = append(command.Args, fmt.Sprintf("%d/%d", l.hits, l.millis/1000))
		}
		command.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "usr/lib/python3/dist-packages"), "PYTHONDONTWRITEBYTECODE=1")
		took, said, _ := read(b, command)
		return took, words(said)
	}
}

// debian returns the folder of a Debian package's files: / when its program is installed, else the cache folder, into
// which the package is downloaded and unpacked without installing it.
func debian(b *testing.B, name, program string) string {
	b.Helper()
	if _, err := os.Stat("/" + program); err == nil {
		return "/"
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		b.Skipf("%s is not measured: %v", name, err)
	}
	root := filepath.Join(cache, "weir", "peers")
	if _, err := os.Stat(filepath.Join(root, program)); err == nil {
		return root
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		b.Fatal(err)
	}
	command := exec.Command("sh", "-c", `apt-get download -q "$1" && dpkg-deb -x "$1"_*.deb . && rm "$1"_*.deb`, "sh", name)
	command.Dir = root
	if said, err := command.CombinedOutput(); err != nil {
		b.Skipf("%s is not measured: it is not installed and cannot be had: %s", name, strings.ReplaceAll(strings.TrimSpace(string(said)), "\n", "; "))
	}
	return root
}

package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var binary struct {
	once sync.Once
	path string
	err  error
}

// build makes the collector's binary, once.
func build(t testing.TB) string {
	t.Helper()
	binary.once.Do(func() {
		folder, err := os.MkdirTemp("", "weir-crash-")
		if err != nil {
			binary.err = err
			return
		}
		binary.path = filepath.Join(folder, "collector")
		if out, err := exec.Command("go", "build", "-o", binary.path, "weir/cmd/collector").CombinedOutput(); err != nil {
			binary.err = fmt.Errorf("building: %w: %s", err, out)
		}
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return binary.path
}

func TestMain(m *testing.M) {
	code := m.Run()
	if binary.path != "" {
		os.RemoveAll(filepath.Dir(binary.path))
	}
	os.Exit(code)
}

// An installation is a collector's configuration and folder, and the process that runs it.
type installation struct {
	t       testing.TB
	folder  string
	process *exec.Cmd
	said    strings.Builder // on standard error
}

// install writes a configuration that reads the files of a pattern.
func install(t testing.TB, brokers []string, pattern string) *installation {
	t.Helper()
	i := &installation{t: t, folder: t.TempDir()}
	i.write("rules.yaml", "rules: [{name: per-ip, key: ip, limits: [10/min]}, {name: per-path, key: path, limits: [10/min]}]\n")
	i.write("weir.yaml", fmt.Sprintf(`
data: data
kafka: {brokers: [%s], hits: {partitions: %d}}
collector:
  listen: ""
  sources: [{file: %q, format: combined}]
`, strings.Join(brokers, ", "), partitions, pattern))
	t.Cleanup(i.kill)
	return i
}

func (i *installation) write(name, text string) {
	i.t.Helper()
	if err := os.WriteFile(filepath.Join(i.folder, name), []byte(text), 0o644); err != nil {
		i.t.Fatal(err)
	}
}

func (i *installation) start() {
	i.t.Helper()
	i.process = exec.Command(build(i.t), "--config", filepath.Join(i.folder, "weir.yaml"))
	i.process.Stderr = &i.said
	if err := i.process.Start(); err != nil {
		i.t.Fatal(err)
	}
}

// kill ends the process as a crash does.
func (i *installation) kill() { i.end(syscall.SIGKILL) }

// stop lets it drain.
func (i *installation) stop() { i.end(syscall.SIGTERM) }

func (i *installation) end(signal syscall.Signal) {
	if i.process == nil {
		return
	}
	i.process.Process.Signal(signal)
	i.process.Wait()
	i.process = nil
}

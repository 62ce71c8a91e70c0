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

	"weir/internal/kafka/kafkatest"
	"weir/test/locked"
)

var (
	binaries string     // a folder for those of the parts
	building sync.Mutex // one at a time
)

// build makes a part's binary, once, and returns its path.
func build(t testing.TB, part string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	path := filepath.Join(binaries, part)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if out, err := exec.Command("go", "build", "-o", path, "weir/cmd/"+part).CombinedOutput(); err != nil {
		t.Fatalf("building: %v: %s", err, out)
	}
	return path
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if binaries, err = os.MkdirTemp("", "weir-crash-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(binaries)
	return kafkatest.Run(m)
}

// An installation is a part's configuration and folder, and its process.
type installation struct {
	t         testing.TB
	part      string
	arguments []string
	folder    string
	process   *exec.Cmd
	said      locked.Buffer // on standard error
}

// ownPrefix is that of the topics where a test has a Kafka of its own.
const ownPrefix = "weir."

// sharedPrefix is that of a test's topics on the Kafka of all tests.
func sharedPrefix(t testing.TB) string { return strings.ReplaceAll(t.Name(), "/", ".") + "." }

// install writes a configuration of a collector that reads the files of a pattern.
func install(t testing.TB, brokers []string, prefix, pattern string) *installation {
	t.Helper()
	i := &installation{t: t, part: "collector", folder: t.TempDir()}
	build(t, i.part) // before the files that it reads are written
	i.write("rules.yaml", "rules: [{name: per-ip, key: ip, limits: [10/min]}, {name: per-path, key: path, limits: [10/min]}]\n")
	i.write("weir.yaml", fmt.Sprintf(`
data: data
kafka: {brokers: [%s], prefix: %q, hits: {partitions: %d}}
collector:
  listen: ""
  sources: [{file: %q, format: combined}]
`, strings.Join(brokers, ", "), prefix, partitions, pattern))
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
	i.process = exec.Command(build(i.t, i.part), append(i.arguments, "--config", filepath.Join(i.folder, "weir.yaml"))...)
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

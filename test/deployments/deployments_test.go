// Package deployments tests the files of deployments/: each is loaded, linted or run by the program that uses it.
package deployments

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/test/port"
	"weir/test/real"
)

const root = "../../deployments"

// helm is the path of Helm.
func helm(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("helm")
	if err != nil {
		real.Missing(t, "helm is missing: go install helm.sh/helm/v3/cmd/helm@v3.19.0")
	}
	return path
}

// run runs a program and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	said, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, said)
	}
	return string(said)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUnits(t *testing.T) {
	analyze := real.Program(t, "systemd-analyze", "systemd")
	units, err := filepath.Glob(filepath.Join(root, "systemd", "*.service"))
	if err != nil || len(units) != 4 {
		t.Fatal(units, err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		installed := regexp.MustCompile(`/usr/local/bin/\w+`).ReplaceAllString(string(text), "/bin/true")
		installed = regexp.MustCompile(`(?m)^Documentation=.*\n`).ReplaceAllString(installed, "") // pages that are not installed here
		said, err := exec.Command(analyze, "verify", write(t, filepath.Base(unit), installed)).CombinedOutput()
		for line := range strings.Lines(string(said)) {
			if !strings.Contains(line, "ignoring: notify-reload") { // of a systemd before 253
				t.Errorf("%s: %s", unit, line)
			}
		}
		if err != nil {
			t.Error(unit, err)
		}
	}
}

// systemd ends a unit that leaks before the machine is short of memory, and Go collects garbage well before that.
func TestUnitsBoundMemory(t *testing.T) {
	units, err := filepath.Glob(filepath.Join(root, "systemd", "*.service"))
	if err != nil || len(units) != 4 {
		t.Fatal(units, err)
	}
	bound := regexp.MustCompile(`(?m)^MemoryMax=(\d+)G\nEnvironment=GOMEMLIMIT=(\d+)MiB$`)
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		found := bound.FindSubmatch(text)
		if found == nil {
			t.Errorf("%s has no MemoryMax with a GOMEMLIMIT", unit)
			continue
		}
		gigabytes, _ := strconv.Atoi(string(found[1]))
		megabytes, _ := strconv.Atoi(string(found[2]))
		if megabytes < gigabytes*800 || megabytes > gigabytes*950 {
			t.Errorf("%s: GOMEMLIMIT is %d MiB of %d GiB", unit, megabytes, gigabytes)
		}
	}
}

func TestBaseImagesAreNamedByDigest(t *testing.T) {
	stages := map[string]bool{}
	image := regexp.MustCompile(`^FROM (\S+)(?: AS (\w+))?`)
	byDigest := regexp.MustCompile(`^\S+:\S+@sha256:[0-9a-f]{64}$`)
	images := 0
	for line := range strings.Lines(read(t, "docker/Dockerfile")) {
		from := image.FindStringSubmatch(line)
		if from == nil {
			continue
		}
		images++
		if !stages[from[1]] && !byDigest.MatchString(from[1]) {
			t.Errorf("%s is named without a digest", from[1])
		}
		stages[from[2]] = true
	}
	if images < 2 {
		t.Errorf("only %d images", images)
	}
}

func TestPrometheus(t *testing.T) {
	promtool := real.Program(t, "promtool", "prometheus")
	run(t, promtool, "check", "rules", filepath.Join(root, "prometheus", "alerts.yaml"))
	folder := t.TempDir()
	for name, text := range map[string]string{
		"prometheus.yaml": strings.ReplaceAll(read(t, "prometheus/prometheus.yaml"), "/run/secrets/weir-key", filepath.Join(folder, "key")),
		"alerts.yaml":     read(t, "prometheus/alerts.yaml"),
		"key":             "key",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, promtool, "check", "config", filepath.Join(folder, "prometheus.yaml"))
	cases, err := os.ReadFile(filepath.Join("testdata", "alerts_test.yaml"))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "alerts_test.yaml"), cases, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	run(t, promtool, "test", "rules", filepath.Join(folder, "alerts_test.yaml"))
}

// The page of the metrics has a row for each alert, in their order, and no other.
func TestAlertsAreDescribed(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(read(t, "prometheus/alerts.yaml"), -1)
	rows := regexp.MustCompile(`(?m)^\| (Weir\w+) \|`).FindAllStringSubmatch(string(page), -1)
	if len(alerts) != len(rows) || len(alerts) == 0 {
		t.Fatalf("%d alerts, %d rows", len(alerts), len(rows))
	}
	for i := range alerts {
		if alerts[i][1] != rows[i][1] {
			t.Errorf("alert %s, row %s", alerts[i][1], rows[i][1])
		}
	}
}

// Alerts and the dashboard use metrics that docs/metrics.md has; another test compares that page with the code.
func TestMetricsThatAreAskedForExist(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`\bweir_[a-z_]+`)
	known := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(weir_[a-z_]+)` \\| (\\w+) \\|").FindAllStringSubmatch(string(page), -1) {
		if row[2] != "histogram" {
			known[row[1]] = true
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} { // the names that Prometheus makes of it
			known[row[1]+suffix] = true
		}
	}
	asked := 0
	for _, file := range []string{"prometheus/alerts.yaml", "grafana/weir.json"} {
		for _, metric := range name.FindAllString(read(t, file), -1) {
			asked++
			if !known[metric] {
				t.Errorf("%s asks for %s, which docs/metrics.md does not have", file, metric)
			}
		}
	}
	if asked < 30 {
		t.Errorf("only %d metrics are asked for", asked)
	}
}

// docs/metrics.md has instructions for each alert, and for no other.
func TestAlertsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var told, alerts []string
	for _, row := range regexp.MustCompile(`(?m)^\| (Weir\w+) \|`).FindAllStringSubmatch(string(page), -1) {
		told = append(told, row[1])
	}
	for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(read(t, "prometheus/alerts.yaml"), -1) {
		alerts = append(alerts, alert[1])
	}
	slices.Sort(told)
	slices.Sort(alerts)
	if !slices.Equal(told, alerts) || len(told) == 0 {
		t.Errorf("documented: %v; there are: %v", told, alerts)
	}
}

func TestNginxOfTheComposeFile(t *testing.T) {
	nginx := real.Program(t, "nginx", "nginx")
	folder := t.TempDir()
	config := strings.NewReplacer("enforcer:7421", "127.0.0.1:7421", "site:80", "127.0.0.1:80", "/var/log/nginx", folder,
		"listen 8080;", "listen "+port.Reserve(t, "127.0.0.1")+";", "listen 80;", "listen "+port.Reserve(t, "127.0.0.1")+";").Replace(read(t, "compose/nginx.conf") + read(t, "compose/site.conf"))
	path := write(t, "nginx.conf", "pid "+folder+"/pid;\nevents {}\nhttp {\naccess_log off;\n"+config+"}\n")
	run(t, nginx, "-t", "-q", "-e", "stderr", "-p", folder, "-c", path)
}

func TestTheImagesProgramsNeedNoC(t *testing.T) {
	built := regexp.MustCompile(`COPY --from=build ((?:/out/\w+ )+)/usr/local/bin/`).FindStringSubmatch(read(t, "docker/Dockerfile"))
	if built == nil {
		t.Fatal("the image has no programs")
	}
	for _, path := range strings.Fields(built[1]) {
		list := exec.Command("go", "list", "-deps", "weir/cmd/"+filepath.Base(path))
		list.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := list.CombinedOutput(); err != nil { // without cgo, a package that needs C has no files
			t.Errorf("%s: %v\n%s", path, err, said)
		}
	}
}

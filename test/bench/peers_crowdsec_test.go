package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/test/port"
)

// crowdSec has CrowdSec replay the log with parsers and a leaky bucket for each limit. It runs in a folder of its own,
// with its local API (to which it sends alerts) on a free port and without the central one.
func crowdSec(limits []limit, parsers func(b *testing.B, root string) map[string]string) func(b *testing.B, folder, log string) (reading, map[string]bool) {
	return func(b *testing.B, folder, log string) (reading, map[string]bool) {
		root := debian(b, "crowdsec", "usr/bin/crowdsec")
		layOutCrowdSec(b, root, folder, limits, parsers(b, root))
		config := filepath.Join(folder, "config.yaml")
		if said, err := exec.Command(filepath.Join(root, "usr/bin/cscli"), "-c", config, "machines", "add", "bench", "-p", crowdSecPassword, "-f", os.DevNull).CombinedOutput(); err != nil {
			b.Fatalf("cscli: %v\n%s", err, said)
		}
		took, _, logged := read(b, child(folder, filepath.Join(root, "usr/bin/crowdsec"), "-c", config, "-no-capi", "-dsn", "file://"+log, "-type", "nginx"))
		blocked := map[string]bool{}
		for _, performed := range alert.FindAllStringSubmatch(logged, -1) {
			blocked[performed[1]] = true
		}
		return took, blocked
	}
}

var alert = regexp.MustCompile(`Ip (\S+) performed 'weir/`)

const crowdSecPassword = "only-for-this-run"

// crowdSecConfig has placeholders for the folder and the address of the local API.
const crowdSecConfig = `
common: {daemonize: false, log_media: stdout, log_level: info, working_dir: .}
config_paths: {config_dir: %[1]s/, data_dir: %[1]s/data/, simulation_path: %[1]s/simulation.yaml, hub_dir: %[1]s/hub/, index_path: %[1]s/hub/.index.json}
crowdsec_service: {acquisition_path: %[1]s/acquis.yaml, parser_routines: 2, buckets_routines: 1, output_routines: 1}
db_config: {type: sqlite, db_path: %[1]s/data/crowdsec.db, flush: {max_items: 1000000, max_age: 7d}}
api: {client: {credentials_path: %[1]s/client.yaml}, server: {listen_uri: %[2]q, profiles_path: %[1]s/profiles.yaml}}
prometheus: {enabled: false}
`

// crowdSecScenario has placeholders for a limit's name, its hits, and the seconds in which one leaks. The bucket
// overflows at the hit after its capacity.
const crowdSecScenario = `
type: leaky
name: weir/%[1]s
description: the limit of %[2]d
filter: "evt.Meta.log_type == 'http_access-log'"
groupby: evt.Meta.source_ip
capacity: %[2]d
leakspeed: %[3]gs
cache_size: 1
labels: {remediation: true}
`

// debianParsers are those of Debian's package that know the log.
func debianParsers(b *testing.B, root string) map[string]string {
	b.Helper()
	parsers := map[string]string{}
	for _, parser := range []string{"s00-raw/crowdsecurity/syslog-logs.yaml", "s01-parse/crowdsecurity/nginx-logs.yaml", dateParser} {
		text, err := os.ReadFile(filepath.Join(root, "usr/share/crowdsec/hub/parsers", parser))
		if err != nil {
			b.Skipf("crowdsec is not measured: its parsers are missing: %v", err)
		}
		parsers[strings.Replace(parser, "crowdsecurity/", "", 1)] = string(text)
	}
	return parsers
}

const dateParser = "s02-enrich/crowdsecurity/dateparse-enrich.yaml"

// tunedParsers take only what a limit by address needs from a line, the address and the time, and try nothing else.
func tunedParsers(b *testing.B, root string) map[string]string {
	b.Helper()
	date, err := os.ReadFile(filepath.Join(root, "usr/share/crowdsec/hub/parsers", dateParser))
	if err != nil {
		b.Skipf("crowdsec is not measured: its parsers are missing: %v", err)
	}
	return map[string]string{"s01-parse/line.yaml": lineParser, "s02-enrich/date.yaml": string(date)}
}

const lineParser = `
name: weir/line
filter: "true"
onsuccess: next_stage
pattern_syntax: {ADDRESS: '[0-9a-fA-F.:]+', BRACKETED: '[^]]+'}
grok: {pattern: '^%{ADDRESS:address} [^ ]+ [^ ]+ .%{BRACKETED:time}', apply_on: Line.Raw}
statics:
  - {meta: log_type, value: http_access-log}
  - {meta: source_ip, expression: evt.Parsed.address}
  - {target: evt.StrTime, expression: evt.Parsed.time}
`

func layOutCrowdSec(b *testing.B, root, folder string, limits []limit, parsers map[string]string) {
	b.Helper()
	address := port.Reserve(b, "127.0.0.1")
	files := map[string]string{
		"config.yaml":     fmt.Sprintf(crowdSecConfig, folder, address),
		"client.yaml":     fmt.Sprintf("url: http://%s\nlogin: bench\npassword: %s\n", address, crowdSecPassword),
		"acquis.yaml":     "",
		"simulation.yaml": "simulation: false\n",
		"profiles.yaml":   "name: all\nfilters: ['Alert.Remediation == true']\ndecisions: [{type: ban, duration: 4h}]\non_success: break\n",
		"hub/.index.json": `{"collections": {}, "parsers": {}, "postoverflows": {}, "scenarios": {}}`,
		"data/empty":      "",
	}
	for i, l := range limits {
		name := fmt.Sprintf("limit-%d", i+1)
		files["scenarios/"+name+".yaml"] = fmt.Sprintf(crowdSecScenario, name, l.hits, float64(l.millis)/1000/float64(l.hits))
	}
	for name, text := range parsers {
		files["parsers/"+name] = text
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(folder, "patterns"), os.DirFS(filepath.Join(root, "etc/crowdsec/patterns"))); err != nil {
		b.Skipf("crowdsec is not measured: its patterns are missing: %v", err)
	}
}

package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/config"
	"weir/internal/yamlfile"
)

const someRules = `
rules:
  - name: per-ip
    key: ip
    limits: [10/min]
`

// write puts files and rules.yaml into a new folder, and returns the folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	if _, ok := files["rules.yaml"]; !ok {
		files["rules.yaml"] = someRules
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// load reads a configuration that must have no faults.
func load(t *testing.T, text string, o config.Options) *config.Config {
	t.Helper()
	o.File = filepath.Join(write(t, map[string]string{"weir.yaml": text}), "weir.yaml")
	c, _, err := config.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// faults returns the faults of a configuration, without the folder's name.
func faults(t *testing.T, text string, o config.Options) string {
	t.Helper()
	folder := write(t, map[string]string{"weir.yaml": text, "prefixes.txt": "10.0.0.0/8\nnonsense\n"})
	o.File = filepath.Join(folder, "weir.yaml")
	_, _, err := config.Load(o)
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), folder+"/", "")
}

func TestMissingKeysHaveDefaults(t *testing.T) {
	c := load(t, "", config.Options{Environ: []string{"STATE_DIRECTORY=/run/state:/other"}})
	if c.Data != "/run/state" || c.Mode != config.Enforce || len(c.Kafka.Brokers) != 0 || c.Kafka.Events.Partitions != 1 {
		t.Errorf("got %+v", c)
	}
	if c.Enforcer.Socket != "/run/state/weir.sock" {
		t.Errorf("the socket is %s, and not under data", c.Enforcer.Socket)
	}
	if len(c.RuleSet.Rules) != 1 {
		t.Error("rules.yaml beside the file was not read")
	}
}

func TestRulesThatNobodyNeedsAreNotRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	for path, text := range map[string]string{file: "data: data\n", filepath.Join(filepath.Dir(file), "rules.yaml"): "rules: [{name: r, key: ip, limits: [10/mn]}]\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := config.Load(config.Options{File: file}); err == nil {
		t.Error("faulty rules are taken")
	}
	c, _, err := config.Load(config.Options{File: file, NoRules: true})
	if err != nil || c.RuleSet != nil || c.Data != filepath.Join(filepath.Dir(file), "data") {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestWithoutAnyFileAllIsDefault(t *testing.T) {
	t.Chdir(t.TempDir())
	c, warnings, err := config.Load(config.Options{Environ: []string{"HOME=/home/alice", "WEIR_MODE=shadow"}})
	if err != nil || len(warnings) != 0 || c.File != "" || c.RuleSet != nil || c.Mode != config.Shadow {
		t.Errorf("got %+v, %v, %v", c, warnings, err)
	}
}

func TestTheFileInTheWorkingDirectoryIsFound(t *testing.T) {
	t.Chdir(write(t, map[string]string{"weir.yaml": "mode: shadow"}))
	c, _, err := config.Load(config.Options{})
	if err != nil || c.File != "weir.yaml" || c.Mode != config.Shadow {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestTheMoreParticularOneWins(t *testing.T) {
	o := config.Options{
		Environ: []string{"WEIR_AGGREGATOR_HOT_KEYS=200", "WEIR_LOG_LEVEL=debug", "WEIR_TIME_LATE=", "WEIR_COLLECTOR_SOURCES_0_FORMAT=main", "WEIR_COLLECTOR_SOURCES_0_LATE=1m",
			"WEIR_ENFORCER_PORT=tcp://10.1.2.3:80"},
		Set: []string{"aggregator.hot_keys=300", "collector.sources.0.late=30m", "kafka.brokers=[a:9092, b:9092]", "collector.listen=[::1]:7401"},
	}
	c := load(t, `
aggregator: {hot_keys: 100}
log: {level: warn}
time: {late: 5m}
collector: {sources: [{file: access.log}]}
`, o)
	if c.Aggregator.HotKeys != 300 || c.Log.Level != "debug" || time.Duration(c.Time.Late) != 5*time.Minute {
		t.Errorf("got %d, %s, %s", c.Aggregator.HotKeys, c.Log.Level, c.Time.Late)
	}
	if c.Collector.Sources[0].Format != "main" {
		t.Errorf("the first source is read as %s", c.Collector.Sources[0].Format)
	}
	if c.Collector.Listen != "[::1]:7401" {
		t.Errorf("got %s", c.Collector.Listen)
	}
	if time.Duration(c.Collector.Sources[0].Late) != 30*time.Minute || len(c.Kafka.Brokers) != 2 {
		t.Errorf("got %+v, %+v", c.Collector.Sources[0], c.Kafka.Brokers)
	}
}

func TestSettingsThatAreWrongSayWhereTheyCameFrom(t *testing.T) {
	got := faults(t, "mode: enforce", config.Options{
		Environ: []string{"WEIR_KAFKA_HITS_PARTITIONS=many"},
		Set:     []string{"mode=shade", "mode", "log.lewel=info"},
	})
	for _, want := range []string{
		`WEIR_KAFKA_HITS_PARTITIONS: "many" found where a number is expected`,
		`--set mode: "shade" is not known here; write one of enforce, shadow`,
		`--set mode: a setting is a key, = and a value; write --set aggregator.hot_keys=10000`,
		`unknown key lewel; did you mean level?`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwithout\n%s", got, want)
		}
	}
}

func TestPathsAreRelativeToTheFile(t *testing.T) {
	o := config.Options{File: filepath.Join(write(t, map[string]string{
		"proxies.txt": "192.0.2.0/24\n",
		"weir.yaml": `
data: state
client: {trusted_proxies: [127.0.0.0/8, {file: proxies.txt}]}
kafka: {brokers: [a:9092], tls: {ca: ca.pem}}
collector: {sources: [{file: [logs/*.log, /var/log/access.log]}, {file: "-"}]}
enforcer: {keys: keys.yaml}
`}), "weir.yaml")}
	c, _, err := config.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(o.File)
	for got, want := range map[string]string{
		c.Data:                                folder + "/state",
		c.Enforcer.Socket:                     folder + "/state/weir.sock",
		c.Kafka.TLS.CA:                        folder + "/ca.pem",
		c.Enforcer.Keys:                       folder + "/keys.yaml",
		c.Client.TrustedProxies.Files[0].Name: folder + "/proxies.txt",
		c.Collector.Sources[0].File[0]:        folder + "/logs/*.log",
		c.Collector.Sources[0].File[1]:        "/var/log/access.log",
		c.Collector.Sources[1].File[0]:        "-",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestVariablesAreReplaced(t *testing.T) {
	c := load(t, `kafka: {prefix: "${WHERE}."}`, config.Options{Environ: []string{"WHERE=berlin"}})
	if c.Kafka.Prefix != "berlin." {
		t.Errorf("got %s", c.Kafka.Prefix)
	}
	if got := faults(t, `kafka: {prefix: "${WHERE}."}`, config.Options{}); !strings.Contains(got, "weir.yaml:1:17: the environment variable WHERE is not set") {
		t.Errorf("got %s", got)
	}
}

func TestSourcesHaveDefaultsAndNames(t *testing.T) {
	c := load(t, `
kafka: {brokers: "a:9092"}
collector:
  sources:
    - {file: a.log, name: file-1}
    - {file: b.log}
    - {kafka: [logs], start: 25h}
    - {syslog: "unix:///run/weir/syslog.sock", format: combined, zone: Europe/Berlin}
    - {syslog: "unixstream:///run/weir/stream.sock", format: combined}
`, config.Options{})
	sources := c.Collector.Sources
	var names []string
	for _, s := range sources {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "file-1 file-2 kafka-1 syslog-1 syslog-2" {
		t.Errorf("got the names %s", got)
	}
	if s := sources[0]; s.Format != "auto" || s.Envelope != "auto" || !s.Start.Earliest {
		t.Errorf("got %+v", s)
	}
	if sources[2].Start.Before != 25*time.Hour || sources[3].Zone.String() != "Europe/Berlin" {
		t.Errorf("got %+v", sources[2:])
	}
}

func faultsOf(err error) (faults yamlfile.Faults) {
	errors.As(err, &faults)
	return faults
}

func TestAVariableThatIsNearlyASettingIsWarnedOf(t *testing.T) {
	environ := []string{"WEIR_AGGREGATOR_HOTKEYS=10", "WEIR_ENFORCER_SERVICE_PORT_HTTP=80", "WEIR_PORT=tcp://10.1.2.3:80", "WEIR_ENFORCER_PORT=tcp://10.1.2.3:80", "WEIR_URL=http://x", "WEIR_KEY_FILE=f"}
	_, warnings, err := config.Read(nil, config.Options{Environ: environ})
	want := "WEIR_AGGREGATOR_HOTKEYS: no setting has this name; did you mean WEIR_AGGREGATOR_HOT_KEYS?"
	if err != nil || warnings.Error() != want {
		t.Errorf("got %v, %v", warnings, err)
	}
}

func TestTheEmbeddedBrokerHasFewerPartitions(t *testing.T) {
	const source = "collector: {sources: [{file: a.log}]}\nrules: [{name: a, key: ip, limits: [1/s]}]\n"
	for _, c := range []struct {
		kafka        string
		environ      []string
		hits, events int
	}{
		{"", nil, 2, 1},
		{"kafka: {hits: {retention: 1h}}\n", nil, 2, 1},
		{"kafka: {hits: {partitions: 16}, events: {partitions: 4}}\n", nil, 16, 4},
		{"", []string{"WEIR_KAFKA_HITS_PARTITIONS=5"}, 5, 1},
		{"kafka: {brokers: [a:9092]}\n", nil, 16, 4},
	} {
		got, _, err := config.Read([]byte(source+c.kafka), config.Options{Environ: c.environ})
		if err != nil {
			t.Fatal(err)
		}
		if got.Kafka.Hits.Partitions != c.hits || got.Kafka.Events.Partitions != c.events {
			t.Errorf("%q, %v: %d and %d partitions, want %d and %d", c.kafka, c.environ, got.Kafka.Hits.Partitions, got.Kafka.Events.Partitions, c.hits, c.events)
		}
	}
}

// Patterns that other programs know, and that match fewer files here, are warned of.
func TestForeignPatternsAreWarnedOf(t *testing.T) {
	for pattern, want := range map[string]string{
		"/var/www/**/access.log": "** in /var/www/**/access.log stands for exactly one folder", "{access,other}.log": "{…} in {access,other}.log stands for itself",
		"/var/www/*/access.log": "", "access.log": "",
	} {
		c, warnings, err := config.Read([]byte(`collector: {sources: [{file: "`+pattern+`"}]}`), config.Options{File: "weir.yaml", NoRules: true})
		if err != nil || len(c.Collector.Sources) != 1 {
			t.Fatal(err)
		}
		if want == "" && len(warnings) > 0 || want != "" && (len(warnings) != 1 || !strings.Contains(warnings[0].What, want)) {
			t.Errorf("%s: %v", pattern, warnings)
		}
	}
}

// A condition on records that never holds is warned of, for such a source counts nothing.
func TestAnOnlyThatNeverHoldsIsWarnedOf(t *testing.T) {
	for only, want := range map[string]string{
		`status == 404`:                        `weir.yaml:1:43: status == 404 never holds: the fields of a record are texts; write a text, such as status == "404", or int(status) >= 400`,
		`a == "b" or log.status in [404, 500]`: `log.status in [404, 500] never holds`,
		`status in 400..499`:                   `status in 400..499 never holds`,
		`true == upstream`:                     `true == upstream never holds`,
		`ip == "10.0.0.0/8"`:                   `ip == "10.0.0.0/8" never holds: no address is a network; compare the beginning of the text: ip startsWith "10."`,
		`inNetwork(ip, "10.0.0.0/8")`:          `inNetwork(ip, "10.0.0.0/8") never holds: there is no such function`,
		`int(status) >= 400`:                   "",
		`len(app) > 3`:                         "",
		`status != 404`:                        "",
		`a in ["404"] and lower(b) == "c"`:     "",
	} {
		_, warnings, err := config.Read([]byte(`collector: {sources: [{file: a.log, only: '`+only+`'}]}`), config.Options{File: "weir.yaml", NoRules: true})
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && len(warnings) > 0 || want != "" && (len(warnings) != 1 || !strings.Contains(warnings[0].String(), want)) {
			t.Errorf("%s: %v", only, warnings)
		}
	}
}

// A lease that is longer than attempts can be settled is warned of: a request that ends after that is not free before the
// lease ends.
func TestLongLeasesAreWarnedOf(t *testing.T) {
	const rules = `rules: [{name: jobs, key: ip, limits: [20 at once], lease: 11m, inline: true}]`
	for text, want := range map[string]string{
		"":                      "attempts can be settled for 10m, and rule jobs has a lease of 11m",
		"inline: {settle: 11m}": "",
	} {
		_, warnings, err := config.Read([]byte(rules+"\n"+text), config.Options{File: "weir.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && len(warnings) > 0 || want != "" && (len(warnings) != 1 || !strings.Contains(warnings[0].What, want)) {
			t.Errorf("%q: %v", text, warnings)
		}
	}
}

// A rule cannot wait for requests that are too late to count, and that is warned of.
func TestLatesThatAreTooLongAreWarnedOf(t *testing.T) {
	const rules = `rules: [{name: most, key: ip, distinct: path, limits: [5000/hour], late: 1h}, {name: few, key: ip, distinct: path, limits: [500/hour]},
  {name: errors, key: ip, share: {of: status == 404, over: 50%, least: 20, within: 10m, late: 25m}}, {name: usual, key: ip, share: {of: status == 404, over: 50%, least: 20, within: 1h}}]`
	for text, want := range map[string][]string{
		"":                  {"rule most has late: 1h, and requests that are more than 20m late, twice time.late, do not count", "rule errors has late: 25m, "},
		"time: {late: 15m}": {"rule most has late: 1h, and requests that are more than 30m late, twice time.late, do not count; write late: 30m at most, or time: {late: 30m}"},
		"time: {late: 30m}": nil,
	} {
		_, warnings, err := config.Read([]byte(rules+"\n"+text), config.Options{File: "weir.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		ok := len(warnings) == len(want)
		for i := range min(len(want), len(warnings)) {
			ok = ok && strings.Contains(warnings[i].String(), want[i])
		}
		if !ok {
			t.Errorf("%q: %v, want %q", text, warnings, want)
		}
	}
}

// Logs that are read together are no further apart than the rules wait for late requests.
func TestHowFarLogsMayBeApart(t *testing.T) {
	const share = "{name: errors, key: ip, share: {of: status == 404, over: 50%, least: 20, within: 10m"
	for text, want := range map[string]time.Duration{
		"rules: [" + share + "}}]":                                10 * time.Minute,
		"rules: [" + share + ", late: 0s}}]":                      10 * time.Minute,
		"rules: [" + share + ", late: 1m}}]":                      30 * time.Second,
		"rules: [" + share + ", late: 100ms}}]":                   time.Second,
		"{rules: [" + share + ", late: 1h}}], time: {late: 20m}}": 20 * time.Minute,
		"rules: [" + share + ", late: 5m}}, {name: many, key: ip, distinct: path, limits: [5000/hour], late: 4m}, {name: few, key: ip, limits: [5/min]}]": 2 * time.Minute,
	} {
		c, _, err := config.Read([]byte(text), config.Options{File: "weir.yaml"})
		if err != nil || c.ApartAtMost() != want {
			t.Errorf("%s: %v, %v, want %v", text, c.ApartAtMost(), err, want)
		}
	}
}

// A field that no source can have is warned of, and no other: records of JSON and logs that are not read yet may have any.
func TestFieldsOfNoSourceAreWarnedOf(t *testing.T) {
	const (
		nginx = `collector: {sources: [{file: a.log, format: '$remote_addr [$time_local] "$request" $status $http_x_api_key'}]}`
		two   = `collector: {sources: [{file: a.log, format: combined}, {file: b.log, format: json}]}`
	)
	for _, c := range []struct{ sources, rule, want string }{
		{nginx, "key: client_ip", `weir.yaml:2:24: no source has the field client_ip; did you mean ip? the sources have host, http_x_api_key, ip, method, path, query, status`},
		{nginx, "key: X-API-Key", `weir.yaml:2:24: no source has the field X-API-Key; did you mean http_x_api_key? the sources have`},
		{nginx, "key: asn", `weir.yaml:2:24: no source has the field asn; the sources have`},
		{nginx, "key: user, match: status in 200..299", `weir.yaml:2:24: no source has the field user; the sources have`},
		{nginx, `key: ip, match: 'fields.tenant == "a"'`, `weir.yaml:2:16: no source has the field tenant; the sources have`},
		{nginx, `key: ip, count: served, match: 'fields.http_x_api_key != "" and raw_path == path'`, ""},
		{nginx, `key: tenant, inline: true`, ""}, // enforcers have it from a header
		{two, "key: tenant", ""},
		{two, "key: client_ip", `weir.yaml:2:24: client_ip is read as a further field of that name; did you mean ip?`},
		{`collector: {sources: [{file: a.log, fields: {client_ip: peer}}]}`, "key: client_ip", ""},
		{`collector: {sources: [{file: a.log}]}`, "key: tenant", ""},
		{`collector: {sources: [{kafka: weir.attempts, format: attempts}]}`, "key: tenant", ""},
		{`mode: enforce`, "key: tenant", ""},
	} {
		text := c.sources + "\nrules: [{name: a, " + c.rule + ", limits: [10/min], mode: shadow}]\nkafka: {brokers: 'a:1'}\n"
		_, warnings, err := config.Read([]byte(text), config.Options{File: "weir.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range warnings {
			if text := w.String(); strings.Contains(text, "has the field") || strings.Contains(text, "is read as") {
				got = append(got, text)
			}
		}
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
			t.Errorf("%s, %s: %q", c.sources, c.rule, got)
		}
	}
}

// A rule with a queue needs a Redis to count in.
func TestQueuesNeedRedis(t *testing.T) {
	const rules = `rules: [{name: jobs, key: ip, queue: {redis_stream: jobs, at_most: 10}, inline: true, on_error: refuse}]`
	for text, want := range map[string]string{
		"": "rule jobs has a queue in Redis", `inline: {store: {postgres: "postgres://a/b"}}`: "rule jobs has a queue in Redis",
		`inline: {store: {redis: "redis://a:1"}}`: "",
	} {
		_, _, err := config.Read([]byte(rules+"\n"+text), config.Options{File: "weir.yaml"})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

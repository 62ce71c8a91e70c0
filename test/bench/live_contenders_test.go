package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
	"weir/internal/store/redis/redistest"
	"weir/test/port"
)

func liveOneProcess(b *testing.B, folder, log string) *live {
	return startLive(b, folder, log, "", "weir")
}

func liveApart(b *testing.B, folder, log string) *live {
	cluster := kafkatest.Real(b, kafkatest.Options{Measured: true, MemoryMiB: 1024})
	redis := redistest.Start(b, "--appendonly", "yes")
	l := startLive(b, folder, log, fmt.Sprintf("kafka: {brokers: [%s], hits: {partitions: %d}}\nstore: {redis: \"redis://%s/0\"}\n",
		strings.Join(cluster.Addresses(), ", "), riverPartitions, redis.Addr), "collector", "aggregator", "enforcer")
	l.kafka, l.redis = cluster, redis
	return l
}

// startLive starts programs of Weir. The folder named by WEIR_LIVE_PROGRAMS, if any, has them: so that two versions can
// be compared in one run.
func startLive(b *testing.B, folder, log, more string, programs ...string) *live {
	enforcer := port.Reserve(b, "127.0.0.1")
	config := fmt.Sprintf(`
data: data
rules: [{name: per-ip, key: ip, limits: [10/min, 100/hour, 1000/day], block: {for: 1h}}]
collector: {listen: "", sources: [{name: site, file: [%q], format: combined}]}
aggregator: {listen: ""}
enforcer: {listen: %q, admin: ""}
%s`, log, enforcer, more)
	if err := os.WriteFile(filepath.Join(folder, "weir.yaml"), []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}

	from := os.Getenv("WEIR_LIVE_PROGRAMS")
	if from == "" {
		from = folder
		for _, program := range programs {
			if said, err := exec.Command("go", "build", "-o", filepath.Join(folder, program), "weir/cmd/"+program).CombinedOutput(); err != nil {
				b.Fatalf("%v\n%s", err, said)
			}
		}
	}

	l := &live{watch: func(ctx context.Context, found func(string)) {
		watchList(ctx, "http://"+enforcer+"/v1/blocklist", found)
	}}
	for _, program := range programs {
		command := child(folder, filepath.Join(from, program))
		if program == "weir" {
			command.Args = append(command.Args, "run")
		}
		command.Args = append(command.Args, "--config", filepath.Join(folder, "weir.yaml"))
		l.add(b, command)
	}
	return l
}

var blockedKey = regexp.MustCompile(`"key":"([^"]+)"`)

// watchList follows the changes of an enforcer's list, once it answers.
func watchList(ctx context.Context, url string, found func(string)) {
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return
		}
		request.Header.Set("Accept", "text/event-stream")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if key := blockedKey.FindStringSubmatch(lines.Text()); key != nil {
				found(key[1])
			}
		}
		answer.Body.Close()
	}
}

// watchOutput follows the output of the first process, and finds the clients in it.
func (l *live) watchOutput(client *regexp.Regexp) func(context.Context, func(string)) {
	return func(ctx context.Context, found func(string)) {
		file, err := os.Open(l.processes[0].log)
		if err != nil {
			return
		}
		defer file.Close()
		lines, rest := bufio.NewReader(file), ""
		for ctx.Err() == nil {
			text, err := lines.ReadString('\n')
			rest += text
			if err == io.EOF {
				time.Sleep(time.Millisecond)
				continue
			}
			if client := client.FindStringSubmatch(rest); client != nil {
				found(client[1])
			}
			rest = ""
		}
	}
}

// liveFail2ban starts fail2ban's server with one jail, set up as fail2ban-tuned in BenchmarkPeers, on notifications of the
// kernel.
func liveFail2ban(b *testing.B, folder, log string) *live {
	limit := threeLimits[0]
	root := debian(b, "fail2ban", "usr/bin/fail2ban-server")
	notify := debian(b, "python3-pyinotify", "usr/lib/python3/dist-packages/pyinotify.py")
	for name, text := range map[string]string{
		"fail2ban.conf": fmt.Sprintf("[DEFAULT]\n[Definition]\nloglevel = NOTICE\nlogtarget = STDOUT\nsyslogsocket = auto\nsocket = %s/sock\npidfile = %s/pid\ndbfile = None\ndbmaxmatches = 0\ndbpurgeage = 1d\n",
			folder, folder),
		"jail.conf": fmt.Sprintf("[limit]\nenabled = true\nfilter = line\nlogpath = %s\nbackend = pyinotify\nusedns = no\nmaxretry = %d\nfindtime = %d\nbantime = 3600\nmaxmatches = 0\nignoreself = false\n",
			log, limit.hits+1, limit.millis/1000),
		"filter.d/line.conf": "[Definition]\nfailregex = ^<ADDR> \ndatepattern = ^\\S+ \\S+ \\S+ \\[(%%d/%%b/%%Y:%%H:%%M:%%S %%z)\\]\n",
	} {
		write(b, filepath.Join(folder, "fail2ban", name), text)
	}

	command := child(folder, "python3", filepath.Join(root, "usr/bin/fail2ban-server"), "-f", "-c", filepath.Join(folder, "fail2ban"), "start")
	packages := filepath.Join(root, "usr/lib/python3/dist-packages") + ":" + filepath.Join(notify, "usr/lib/python3/dist-packages")
	command.Env = append(os.Environ(), "PYTHONPATH="+packages, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1")
	l := &live{}
	l.add(b, command)
	l.watch = l.watchOutput(regexp.MustCompile(`Ban (\S+)`))
	return l
}

// liveCrowdSec starts CrowdSec, set up as crowdsec-tuned in BenchmarkPeers.
func liveCrowdSec(b *testing.B, folder, log string) *live {
	root := debian(b, "crowdsec", "usr/bin/crowdsec")
	folder = filepath.Join(folder, "crowdsec")
	layOutCrowdSec(b, root, folder, threeLimits[:1], tunedParsers(b, root))
	write(b, filepath.Join(folder, "acquis.yaml"), fmt.Sprintf("filenames: [%s]\nlabels: {type: nginx}\n", log))
	config := filepath.Join(folder, "config.yaml")
	if said, err := exec.Command(filepath.Join(root, "usr/bin/cscli"), "-c", config, "machines", "add", "bench", "-p", crowdSecPassword, "-f", os.DevNull).CombinedOutput(); err != nil {
		b.Fatalf("cscli: %v\n%s", err, said)
	}
	l := &live{}
	l.add(b, child(folder, filepath.Join(root, "usr/bin/crowdsec"), "-c", config, "-no-capi"))
	l.watch = l.watchOutput(alert)
	return l
}

func write(b *testing.B, path, text string) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}

package listeners

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// deployedShipper is a file of deployments/shippers with other places, written to a folder.
func deployedShipper(t *testing.T, folder, name string, places ...string) (path string) {
	t.Helper()
	text, err := os.ReadFile("../../../deployments/shippers/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(places); i += 2 {
		if !strings.Contains(string(text), places[i]) {
			t.Fatalf("%s has no %s", name, places[i])
		}
	}
	path = filepath.Join(folder, name)
	if err := os.WriteFile(path, []byte(strings.NewReplacer(places...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// runs runs a program until it is killed, or the end of the test.
func runs(t *testing.T, program string, arguments ...string) (kill func()) {
	t.Helper()
	command := exec.Command(program, arguments...)
	command.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir(), "XDG_DATA_HOME="+t.TempDir()) // Caddy's
	command.Stdout, command.Stderr = t.Output(), t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	command.WaitDelay = 10 * time.Second // its children have our pipe
	t.Cleanup(func() { command.Process.Signal(syscall.SIGTERM); command.Wait() })
	return func() { command.Process.Kill(); command.Wait() }
}

// rsyslog forwards a file to us over TCP, and sends no line again after it was killed.
func TestDeployedRsyslogForwards(t *testing.T) {
	rsyslog := real.Program(t, "rsyslogd", "rsyslog")
	b := newSyslogBench(t, "tcp")
	b.start()
	b.Log("access.log", 200)
	work := t.TempDir()
	_, ours, _ := strings.Cut(b.address(), "://127.0.0.1:")
	path := deployedShipper(t, work, "rsyslog-forward.conf", "/var/spool/rsyslog", work, "/var/log/nginx/access.log", b.Path("access.log"), `port="5514"`, fmt.Sprintf("port=%q", ours))
	kill := runs(t, rsyslog, "-n", "-i", filepath.Join(work, "pid"), "-f", path)
	b.sink.Await(t, b.Want)
	kill()
	runs(t, rsyslog, "-n", "-i", filepath.Join(work, "pid2"), "-f", path)
	b.Log("access.log", 100)
	b.sink.Await(t, b.Want)
}

// A site's requests come to us from the site itself.
func TestDeployedSitesSendTheirLogs(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, work, site, ours string){
		"apache": func(t *testing.T, work, site, ours string) {
			apache := real.Program(t, "apache2", "apache2-bin")
			snippet := deployedShipper(t, work, "apache.conf", "--port 5514", "--port "+ours)
			modules, loads := filepath.Join(filepath.Dir(filepath.Dir(apache)), "lib/apache2/modules"), ""
			for _, module := range []string{"mpm_event", "authz_core"} {
				loads += fmt.Sprintf("LoadModule %s_module %s/mod_%s.so\n", module, modules, module)
			}
			config := filepath.Join(work, "main.conf")
			text := fmt.Sprintf("ServerName shop.example\nListen %s\nPidFile %[2]s/pid\nErrorLog %[2]s/error.log\nDefaultRuntimeDir %[2]s\nDocumentRoot %[2]s\n%sInclude %s\n", site, work, loads, snippet)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			runs(t, apache, "-f", config, "-D", "FOREGROUND")
		},
		"caddy": func(t *testing.T, work, site, ours string) {
			caddy := real.Program(t, "caddy", "caddy")
			_, port, _ := net.SplitHostPort(site)
			path := deployedShipper(t, work, "Caddyfile", "tcp/127.0.0.1:5514", "tcp/127.0.0.1:"+ours, ":80 {", "{\n\tadmin off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n}\n:"+port+" {")
			runs(t, caddy, "run", "--config", path, "--adapter", "caddyfile")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSyslogBench(t, "tcp")
			b.config.Sources[0].Format = "auto"
			b.start()
			_, ours, _ := strings.Cut(b.address(), "://127.0.0.1:")
			site := port.Reserve(t, "127.0.0.1")
			begin(t, t.TempDir(), site, ours)
			wait.Until(t, "the site answers", func() bool {
				c, err := net.Dial("tcp", site)
				if err == nil {
					c.Close()
				}
				return err == nil
			})
			for i := range 60 {
				answer, err := http.Get(fmt.Sprintf("http://%s/%d?long=%s", site, i, strings.Repeat("x", 3000)))
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
			}
			b.Want["per-ip 127.0.0.1"] = 60
			b.sink.Await(t, b.Want)
			if n := b.uncounted("format") + b.uncounted("address"); n != 0 {
				t.Errorf("%v lines could not be read", n)
			}
		})
	}
}

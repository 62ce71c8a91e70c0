package guides

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/test/page"
)

// reasons cause each reason of docs/guides/no-one-is-blocked.md, with commands that use these functions.
const reasons = `
requests() { # COUNT CLIENT [WHEN]
	local at line; at=$(date -u -d "${3:-now}" +%d/%b/%Y:%H:%M:%S)
	for line in $(seq "$1"); do echo "$2 - - [$at +0000] \"GET / HTTP/1.1\" 200 10 \"-\" \"curl\""; done >>/var/log/nginx/access.log
}
rules() { printf 'rules:\n%s\n' "$1" >/etc/weir/rules.yaml; }
began() { # [SETTING…]
	systemctl stop weir
	rm -rf /var/lib/weir /var/log/nginx/access.log
	rm -f /var/log/weir.log
	printf '%s\n' 'mode: enforce' 'rules: rules.yaml' 'collector: {sources: [{file: /var/log/nginx/access.log}]}' "$@" >/etc/weir/weir.yaml
	rules '  - {name: per-client, key: ip, limits: [300/min]}'
	:
}
blocked() {
	requests 310 203.0.113.7
	systemctl start weir
	until weir list 203.0.113.7 >/dev/null 2>&1; do sleep 0.1; done
}
export -f requests rules began blocked
`

func TestNoOneIsBlocked(t *testing.T) {
	const path = "docs/guides/no-one-is-blocked.md"
	m := newMachine(t)
	m.must(reasons + "weir=/opt/weir; install -m 755 /opt/weir /usr/local/bin/; mkdir -p /etc/weir")
	m.must("useradd --system --home-dir /var/lib/weir --shell /usr/sbin/nologin weir; install -m 644 deployments/systemd/weir.service -t /etc/systemd/system/")
	rows, tried := tableRows(t, path), 0
	for _, reason := range []struct {
		number, heading string
		block           int    // of the heading's commands
		shown           string // in the first cell of a row, or empty where the page shows the output below the commands
		setup           string
		exit            int
	}{
		{"1.", "Is the client on the list?", 0, "", "began; sed -i s/enforce/shadow/ /etc/weir/weir.yaml; blocked", 0},
		{"1.", "Is the client on the list?", 0, "per-client … (shadow: not refused)", "", 0},
		{"2.", "Is the client on the list?", 0, "pause per-client …", "began; blocked; weir pause per-client --for 1h --why 'wrong limit'", 0},
		{"2.", "Is the client on the list?", 0, "allow …", "began; blocked; weir allow 203.0.113.7 --for 1h --why 'our own client'", 0},
		{"Weir has not blocked", "Is the client on the list?", 0, "weir: no entry on the list applies to …", "began; requests 1 203.0.113.7; systemctl start weir", 3},
		{"3.", "Does the edge ask?", 0, "", "began; blocked", 0},
		{"3.", "Does the edge ask?", 1, "", "", 0},
		{"4.", "Does the edge ask?", 2, "", `ip addr add 10.0.0.5/32 dev lo; began 'enforcer: {listen: "10.0.0.5:7421", keys: keys.yaml}'
			weir keys add --file /etc/weir/keys.yaml --name edge --role read >/dev/null; chmod 644 /etc/weir/keys.yaml; blocked
			curl -s -H 'X-Forwarded-For: 203.0.113.7' http://10.0.0.5:7421/v1/check`, 0},
		{"5.", "Does Weir read the log?", 0, "Nothing runs.", "began", 3},
		{"6.", "Does Weir read the log?", 0, "file-1 … open /var/log/nginx/access.log: permission denied; let weir read them: …", "began; requests 1 203.0.113.7; chmod 600 /var/log/nginx/access.log; systemctl start weir", 0},
		{"7.", "Does Weir read the log?", 0, "file-1 … 310 of 310 requests not counted: 310 not in the format", "began; requests 310 203.0.113.7; sed -i 's/ - - .*/ GET/' /var/log/nginx/access.log; systemctl start weir", 0},
		{"8.", "Does Weir read the log?", 0, "file-1 … 310 of 310 requests not counted: 310 ahead of the clock", "began; requests 310 203.0.113.7 '2 hours'; systemctl start weir", 0},
		{"8.", "Does Weir read the log?", 0, "file-1 … lag 0 bytes, read up to 2026-03-03T06:00:00Z", "began; requests 310 203.0.113.7 '2 hours ago'; systemctl start weir", 0},
		{"9.", "Does a rule count the requests?", 0, "", `began; rules '  - {name: sign-in, match: path == "/signin", key: ip, limits: [20/min]}
  - {name: per-user, match: status != 401, key: user, limits: [20/min]}'; sed -i '1i users: checked' /etc/weir/rules.yaml
			requests 310 203.0.113.7; systemctl start weir`, 0},
		{"10.", "Does a rule count the requests?", 1, "", "began; requests 150 203.0.113.7; systemctl start weir", 0},
	} {
		ok := t.Run(reason.number+" "+reason.shown, func(t *testing.T) {
			m := m.with(t)
			if reason.setup != "" {
				m.must(reason.setup)
			}
			commands, shown := commandsUnder(t, path, reason.heading, reason.block)
			if reason.shown != "" {
				tried++
				if !strings.Contains(rows[reason.shown], "| "+reason.number) {
					t.Errorf("the page has no row of %q for %s", reason.shown, reason.number)
				}
				shown = "…\n" + reason.shown + "\n…\n"
			}
			m.pasteBlock(path, fmt.Sprintf("%s# exit code %d\n", commands, reason.exit), shown)
		})
		if !ok {
			return // the next reason may build upon this one
		}
	}
	if tried != len(rows) {
		t.Errorf("the page has %d outputs in its tables, and %d were tried", len(rows), tried)
	}
}

// tableRows are the rows of a page's tables by the outputs in their first cells.
func tableRows(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if row, ok := strings.CutPrefix(line, "| `"); ok {
			cell, rest, _ := strings.Cut("`"+row, " | ")
			for i, output := range strings.Split(cell, "`") {
				if i%2 == 1 {
					rows[output] = "| " + rest
				}
			}
		}
	}
	return rows
}

// commandsUnder are the commands of one block under a heading, and the output below it.
func commandsUnder(t *testing.T, path, heading string, n int) (commands, shown string) {
	t.Helper()
	blocks := page.Read(t, filepath.Join(root, path))
	for i, b := range blocks {
		if b.Heading != heading || b.Language != "sh" {
			continue
		}
		if n--; n >= 0 {
			continue
		}
		if i+1 < len(blocks) && blocks[i+1].Heading == heading && blocks[i+1].Language == "text" {
			shown = blocks[i+1].Text
		}
		return b.Text, shown
	}
	t.Fatalf("%s has too few commands under %q", path, heading)
	return "", ""
}

func TestThreeInTheMorning(t *testing.T) {
	m := newMachine(t)
	m.must(reasons + "install -m 755 /opt/weir /usr/local/bin/; mkdir -p /etc/weir")
	m.must("useradd --system --home-dir /var/lib/weir --shell /usr/sbin/nologin weir; install -m 644 deployments/systemd/weir.service -t /etc/systemd/system/")
	m.must("began; requests 290 198.51.100.9; blocked")
	m.paste("docs/guides/three-in-the-morning.md")
}

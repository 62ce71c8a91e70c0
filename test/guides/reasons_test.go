package guides

import (
	"fmt"
	"testing"
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
	m := newMachine(t)
	m.must(reasons + "weir=/opt/weir; install -m 755 /opt/weir /usr/local/bin/; mkdir -p /etc/weir")
	m.must("useradd --system --home-dir /var/lib/weir --shell /usr/sbin/nologin weir; install -m 644 deployments/systemd/weir.service -t /etc/systemd/system/")
	for i, reason := range []struct{ heading, setup string }{
		{"1. Weir is in shadow mode", "began; sed -i s/enforce/shadow/ /etc/weir/weir.yaml; blocked"},
		{"2. An allow or a pause lets the client through", "began; blocked; weir pause per-client --for 1h --why 'wrong limit'"},
		{"3. The edge does not ask", "began; blocked"},
		{"4. The edge is no trusted proxy", `ip addr add 10.0.0.5/32 dev lo; began 'enforcer: {listen: "10.0.0.5:7421", keys: keys.yaml}'
			weir keys add --file /etc/weir/keys.yaml --name edge --role read >/dev/null; chmod 644 /etc/weir/keys.yaml; blocked
			curl -s -H 'X-Forwarded-For: 203.0.113.7' http://10.0.0.5:7421/v1/check`},
		{"5. Weir does not run", "began"},
		{"6. The log cannot be read", "began; requests 1 203.0.113.7; chmod 600 /var/log/nginx/access.log; systemctl start weir"},
		{"7. The lines of the log are not understood", "began; requests 310 203.0.113.7; sed -i 's/ - - .*/ GET/' /var/log/nginx/access.log; systemctl start weir"},
		{"8. The times of the requests are wrong", "began; requests 310 203.0.113.7 '2 hours'; systemctl start weir"},
		{"Or the log is old", "began; requests 310 203.0.113.7 '2 hours ago'; systemctl start weir"},
		{"9. No rule counts the requests", `began; rules '  - {name: sign-in, match: path == "/signin", key: ip, limits: [20/min]}
  - {name: per-user, match: status != 401, key: user, limits: [20/min]}'; sed -i '1i users: checked' /etc/weir/rules.yaml
			requests 310 203.0.113.7; systemctl start weir`},
		{"10. The limit is not reached", "began; requests 150 203.0.113.7; systemctl start weir"},
	} {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			m := m.with(t)
			m.must(reason.setup)
			m.paste("docs/guides/no-one-is-blocked.md", reason.heading)
		})
	}
}

func TestThreeInTheMorning(t *testing.T) {
	m := newMachine(t)
	m.must(reasons + "install -m 755 /opt/weir /usr/local/bin/; mkdir -p /etc/weir")
	m.must("useradd --system --home-dir /var/lib/weir --shell /usr/sbin/nologin weir; install -m 644 deployments/systemd/weir.service -t /etc/systemd/system/")
	m.must("began; requests 290 198.51.100.9; blocked")
	m.paste("docs/guides/three-in-the-morning.md")
}

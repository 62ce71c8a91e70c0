package config

import (
	"strings"
	"testing"

	"weir/internal/yamlfile"
)

func TestAgents(t *testing.T) {
	for _, test := range []struct{ haproxy, want string }{
		{"{socket: /run/haproxy/admin.sock, map: /etc/haproxy/weir.map}", ""},
		{"{socket: 127.0.0.1:9999, map: weir.map}", ""},
		{"{socket: haproxy:https, map: weir.map}", "is not a port"},
		{"{socket: admin.sock}", "only one of socket and map is given"},
		{"{map: weir.map}", "only one of socket and map is given"},
		{"{socket: admin.sock, map: weir map}", "takes no spaces"},
		{"{socket: admin.sock, map: weir.map, value: why}", "is not known here"},
	} {
		o := Options{File: "/etc/weir/weir.yaml", Environ: []string{"STATE_DIRECTORY=/state"}, Siblings: []yamlfile.Inner{{Name: "rules.yaml"}}}
		c, _, err := Read([]byte("enforcer: {haproxy: "+test.haproxy+"}"), o)
		if test.want != "" {
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v", test.haproxy, err)
			}
			continue
		}
		if err != nil || !c.Enforcer.HAProxy.On() {
			t.Errorf("%s: %v", test.haproxy, err)
		}
	}
}

// Paths are relative to the file, and a host is no path.
func TestAgentsPaths(t *testing.T) {
	o := Options{File: "/etc/weir/weir.yaml", Environ: []string{"STATE_DIRECTORY=/state"}, Siblings: []yamlfile.Inner{{Name: "rules.yaml"}}}
	for given, want := range map[string]string{"127.0.0.1:9999": "127.0.0.1:9999", "admin.sock": "/etc/weir/admin.sock", "/run/a:b/admin.sock": "/run/a:b/admin.sock"} {
		c, _, err := Read([]byte("enforcer: {haproxy: {map: weir.map, socket: \""+given+"\"}}"), o)
		if err != nil {
			t.Fatal(err)
		}
		if h := c.Enforcer.HAProxy; h.Socket != want || h.Map != "/etc/weir/weir.map" {
			t.Errorf("%s: %+v", given, h)
		}
	}
}

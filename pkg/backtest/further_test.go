package backtest

import (
	"fmt"
	"strings"
	"testing"
)

// A client that sends very many headers, which Caddy logs, does not hide a field that rules ask for: a collector has it.
func TestManyHeadersHideNoField(t *testing.T) {
	var headers, lines strings.Builder
	for i := range 100 {
		fmt.Fprintf(&headers, `"H%d":["v"],`, i)
	}
	for i := range 6 {
		fmt.Fprintf(&lines, `{"ts":%d,"request":{"client_ip":"203.0.113.7","method":"GET","uri":"/","headers":{%s"X":["v"]}},"status":200,"tenant":"shop"}`+"\n",
			1767225600+i, headers.String())
	}
	c := Config{
		Rules:  parseRules(t, `rules: [{name: a, key: tenant, limits: [5/min]}, {name: b, match: 'fields.tenant == "shop"', key: ip, limits: [5/min]}]`),
		Inputs: []Input{fromText("caddy", lines.String())}, Format: "caddy",
	}
	for _, of := range runConfig(t, c).Rules {
		if len(of.Blocked) != 1 {
			t.Errorf("%s: %d keys blocked of %d requests", of.Rule, len(of.Blocked), of.Requests)
		}
	}
}

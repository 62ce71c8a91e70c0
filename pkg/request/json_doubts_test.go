package request

import (
	"os"
	"strings"
	"testing"
)

// Where two members of JSON may have the client's address and are not the same, the choice names the one that is taken.
func TestDoubtAboutTheClientInJSON(t *testing.T) {
	const rest = `"time":"2026-01-01T00:00:00Z","method":"GET","path":"/x","status":200}`
	const ecs = `"@timestamp":"2026-01-01T00:00:00Z","http":{"request":{"method":"GET"}}}`
	const nginx = `"time_local":"17/Apr/2018:06:25:06 +0000","request":"GET / HTTP/1.1","status":"200"}`
	for _, c := range []struct{ record, taken, other string }{
		{`{"ip":"10.0.0.1","client_ip":"203.0.113.7",` + rest, "ip", "client_ip"},
		{`{"client_ip":"203.0.113.7","ip":"10.0.0.1",` + rest, "ip", "client_ip"},
		{`{"client_ip":"203.0.113.7","remote_ip":"10.0.0.1",` + rest, "client_ip", "remote_ip"},
		{`{"remote_ip":"10.0.0.1","x_real_ip":"203.0.113.7",` + rest, "remote_ip", "x_real_ip"},
		{`{"remote_ip":"10.0.0.1","cf":{"Connecting-IP":"203.0.113.7"},` + rest, "remote_ip", "cf.Connecting-IP"},
		{`{"source":{"ip":"10.0.0.1"},"client":{"ip":"203.0.113.7"},` + ecs, "source.ip", "client.ip"},
		{`{"client.address":"203.0.113.7","network.peer.address":"10.0.0.1",` + ecs, "client.address", "network.peer.address"},
		{`{"remote_addr":"10.0.0.1","real_ip":"203.0.113.7",` + nginx, "remote_addr", "real_ip"},
		{`{"clientip":"10.0.0.1","verb":"GET","request":"/","x_real_ip":"203.0.113.7","timestamp":"17/Apr/2018:06:25:06 +0000"}`, "clientip", "x_real_ip"},

		{`{"ip":"203.0.113.7",` + rest, "", ""},
		{`{"ip":"203.0.113.7","client_ip":"203.0.113.7",` + rest, "", ""},
		{`{"ip":"203.0.113.7","client_ip":"-","remote_ip":null,"x_real_ip":"unknown",` + rest, "", ""},
		{`{"ip":"203.0.113.7","server_ip":"10.0.0.1","host":{"ip":"10.0.0.2"},"upstream":"10.0.0.3",` + rest, "", ""},
		{`{"remote_addr":"203.0.113.7","realip_remote_addr":"10.0.0.1","server_addr":"10.0.0.2","http_x_forwarded_for":"10.0.0.3",` + nginx, "", ""},
		{`{"source.address":"203.0.113.7","source.ip":"203.0.113.7",` + ecs, "", ""},
		// Clients write headers, and where a program logs what they send, names.
		{`{"remote_addr":"203.0.113.7","http_x_real_ip":"9.9.9.9",` + nginx, "", ""},
		{`{"ip":"203.0.113.7","headers":{"X-Client-IP":"9.9.9.9"},` + rest, "", ""},
		{`{"ip":"203.0.113.7","query":{"\u001b[31mclientip":"9.9.9.9","$(id)clientip":"9.9.9.9"},` + rest, "", ""},
		// Their servers name the client.
		{`{"ts":1.5,"request":{"client_ip":"203.0.113.7","remote_ip":"10.0.0.1","method":"GET","uri":"/"},"status":200}`, "", ""},
		{`{"ClientAddr":"10.0.0.1:51234","ClientHost":"203.0.113.7","RequestMethod":"GET","RequestPath":"/","StartUTC":"2026-01-01T00:00:00Z"}`, "", ""},
		{`203.0.113.7` + combinedRest, "", ""},
	} {
		for envelope, record := range wrapped(c.record) {
			choice, err := Detect([]string{record, record}, Options{})
			if err != nil || choice.Envelope != envelope {
				t.Fatalf("%s: %s, %v", record, choice, err)
			}
			want := ""
			if c.taken != "" {
				want = c.taken + " is taken for the client's address, and " + c.other + " has another address in 2 of 2 requests: "
			}
			if got := choice.Doubt(); !strings.HasPrefix(got, want) || (got == "") != (want == "") ||
				strings.Contains(choice.String(), "; the client is "+c.taken+", not "+c.other) != (want != "") {
				t.Errorf("%s: %s; %q, want %q", record, choice, got, want)
			}

			// A name that is given is not doubted.
			for _, named := range []string{c.taken, c.other} {
				if choice, err := Detect([]string{record}, Options{Fields: map[string]string{"ip": named}}); named != "" && (err != nil || choice.Doubt() != "") {
					t.Errorf("%s as ip: %s, %q, %v", named, choice, choice.Doubt(), err)
				}
			}
		}
	}
}

// The order in docs/collecting.md is the one of the shapes.
func TestOrderOfClientsInDocs(t *testing.T) {
	doc, err := os.ReadFile("../../docs/collecting.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, shape := range jsonShapes {
		paths := strings.Fields(shape.paths[roleIP])
		row := "| `" + shape.name + "` | `" + strings.Join(paths, "`, `") + "` |"
		if len(paths) > 1 && !strings.Contains(string(doc), row) {
			t.Errorf("docs/collecting.md has no row %s", row)
		}
	}
}

// Where no member is taken for the client, the choice names one that may have it.
func TestDoubtWithoutAClientInJSON(t *testing.T) {
	const rest = `"time":"2026-01-01T00:00:00Z","method":"GET","path":"/x","status":200}`
	for _, c := range []struct {
		record, named, other string
	}{
		{`{"clientIp":"203.0.113.7",` + rest, "", "clientIp"},
		{`{"clientIp":"203.0.113.7",` + rest, "clientip", "clientIp"}, // as misspelt by the user
		{`{"req":{"remoteAddress":"203.0.113.7"},` + rest, "", "req.remoteAddress"},
		{`{"ip":"-","remoteIp":"203.0.113.7",` + rest, "", "remoteIp"},
		{`{"client":"203.0.113.7",` + rest, "", "client"},
		{`{"server_ip":"203.0.113.7",` + rest, "", ""},
		{"{" + rest, "", ""},
	} {
		o := Options{}
		if c.named != "" {
			o.Fields = map[string]string{"ip": c.named}
		}
		choice, err := Detect([]string{c.record, c.record}, o)
		want := "no client is read from 2 of 2 requests, and " + c.other + " has an address in them: "
		if got := choice.Doubt(); err != nil || strings.HasPrefix(got, want) != (c.other != "") || (got == "") != (c.other == "") {
			t.Errorf("%s: %s, %q, %v", c.record, choice, got, err)
		}
	}
}

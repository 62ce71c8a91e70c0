package listeners

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// envoyLogs is Envoy with an access log that it sends as OTLP, as in docs/sending.md.
const envoyLogs = `
static_resources:
  listeners:
    - address: {socket_address: {address: 127.0.0.1, port_value: %[1]s}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: site
                access_log:
                  - name: envoy.access_loggers.open_telemetry
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig
                      grpc_service: {envoy_grpc: {cluster_name: weir}}
                      log_name: access
                      attributes:
                        values:
                          - {key: start_time, value: {string_value: "%%START_TIME%%"}}
                          - {key: duration, value: {string_value: "%%DURATION%%"}}
                          - {key: downstream_remote_address, value: {string_value: "%%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%%"}}
                          - {key: method, value: {string_value: "%%REQ(:METHOD)%%"}}
                          - {key: authority, value: {string_value: "%%REQ(:AUTHORITY)%%"}}
                          - {key: path, value: {string_value: "%%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%%"}}
                          - {key: response_code, value: {string_value: "%%RESPONSE_CODE%%"}}
                          - {key: bytes_sent, value: {string_value: "%%BYTES_SENT%%"}}
                          - {key: user_agent, value: {string_value: "%%REQ(USER-AGENT)%%"}}
                route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 200}}]}]}
                http_filters: [{name: envoy.filters.http.router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
  clusters:
    - name: weir
      type: STATIC
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: {http2_protocol_options: {}}
      load_assignment: {cluster_name: weir, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %[2]s}}}}]}]}
`

// Envoy sends its access log as OTLP over gRPC.
func TestOTLPFromEnvoy(t *testing.T) {
	envoy := real.Edge(t, "envoy")
	b := newOTLPBench(t)
	b.config.Sources[0].Format = "auto"
	b.start()
	site := port.Reserve(t, "127.0.0.1")
	_, sitePort, _ := net.SplitHostPort(site)
	_, ours, _ := net.SplitHostPort(b.address())
	path := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, envoyLogs, sitePort, ours), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(envoy, "-c", path, "--log-level", "warn", "--concurrency", "1", "--use-dynamic-base-id")
	command.Stdout, command.Stderr = t.Output(), t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { command.Process.Kill(); command.Wait() }()

	wait.Until(t, "envoy answers", func() bool {
		c, err := net.Dial("tcp", site)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	const requests = 50
	for i := range requests {
		answer, err := b.client.Get(fmt.Sprintf("http://%s/%d?q=\"x\"", site, i))
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatal(answer, err)
		}
		answer.Body.Close()
	}
	b.Want["per-ip 127.0.0.1"] = requests
	b.sink.Await(t, b.Want)
	if status := b.source().Status(); status.Requests != requests || !strings.HasPrefix(status.Format, "envoy-json in otlp: reads ") {
		t.Errorf("%d requests, %s, uncounted %v", status.Requests, status.Format, status.Uncounted)
	}
}

package request

import "errors"

// A forgeablePreset is a format of a server that writes client text as it is, so that a line does not show who sent it.
// It is refused, and the error names what to log instead. Only Choose makes its parser, to recognize the format.
type forgeablePreset struct {
	name   string
	layout func(Options) (layout, error)
	remedy error
}

var forgeablePresets = []forgeablePreset{
	// A name in the request's target may contain a newline (GET http://a%0A…@x/), and the next line is the client's
	// own.
	{"traefik-clf", layoutTraefik, errors.New("a client can write lines of its own into Traefik's format common, with any address and user: " +
		"log JSON (accessLog: {format: json}) and use the format traefik-json")},
	// Other headers follow X-Forwarded-For, whose last address is the client's.
	{"envoy", layoutEnvoy, errors.New("Envoy escapes nothing in its text log, so a client can write another's address into it or keep its own out of it: " +
		"log JSON (json_format, as in deployments/edge/envoy.yaml) and use the format json")},
}

// make refuses the format, except for detection.
func (p forgeablePreset) make(o Options) (Parser, error) {
	if !o.forgeable {
		return nil, p.remedy
	}
	return scanned(p.layout)(o)
}

const (
	traefik = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" ` +
		`$request_count "$router" "$server_url" ${request_time_ms}ms`
	envoy = `[$time_iso8601] "$request" $status $response_flags $request_length $body_bytes_sent $duration $upstream_service_time ` +
		`"$http_x_forwarded_for" "$http_user_agent" "$http_x_request_id" "$host" "$upstream_host"`
)

func layoutTraefik(o Options) (layout, error) {
	l, err := nginxLayout(traefik, o)
	l.escape = escapeNone
	return l, err
}

func layoutEnvoy(o Options) (layout, error) { return envoyLayout(envoy, o) }

// envoyLayout is one of Envoy's text formats, written with the variables of nginx. Envoy refuses targets with a space,
// so the end of the request can be found.
func envoyLayout(format string, o Options) (layout, error) {
	l, err := nginxLayout(format, o)
	l.escape = escapeNone
	for _, v := range variablesOf(l.tokens) {
		switch v.name {
		case "request":
			v.ending = endWords
		case "host": // :authority
			v.name = "http_host"
		}
	}
	return l, err
}

package request

import (
	"net/textproto"
	"slices"
	"strings"
)

// A role is the meaning of a JSON record's value in the request.
type role uint8

const (
	roleTime role = iota
	roleIP
	roleUser
	roleMethod
	roleHost
	roleRequest // a complete request line: GET /path?query HTTP/1.1
	roleURI     // the target of a request line: /path?query, http://host/path?query
	rolePath
	roleQuery
	roleStatus
	roleBytes
	roleAgent
	roleReferrer
	roleForwarded
	roleCount
)

// roleNames are the words for roles in Options.Fields.
var roleNames = [roleCount]string{"time", "ip", "user", "method", "host", "request", "uri", "path", "query", "status",
	"bytes", "agent", "referrer", "forwarded"}

// A jsonShape is the layout of one writer of JSON. Paths stand in order of preference, and the first that has a value
// is used. A time with + is a day and the time of day; a time with # may be a Unix time (timeUnix finds the unit), as a
// number or in quotes. A path with a " after it may have quotes around its value, which are dropped (Logstash's pattern
// QS keeps them). In a path {header} is Options.Header as nginx names it (x_forwarded_for), {Header} as HTTP writes it,
// {head-er} that in lower case.
type jsonShape struct {
	name  string
	needs string // groups of paths; each group must have a value: "ts request.uri|request.method"
	paths [roleCount]string
}

// jsonDurations are the durations of the shapes whose time is that of the request's beginning.
var jsonDurations = map[string]jsonDuration{
	"traefik-json": {path: "Duration", unit: inNanos},
	"envoy-json":   {path: "duration", unit: inMillis},
	"gcp-json":     {path: "httpRequest.latency", suffix: "s", ended: "receiveTimestamp", unit: inSeconds},
}

// A jsonDuration is where a request's duration stands. The request ended before the time at the path ended, if that is
// not empty.
type jsonDuration struct {
	path, suffix, ended string
	unit                durationUnit
}

// caddyJSON is the shape of a server written in Go, in whose request lines a # is part of the path.
const caddyJSON = "caddy"

// nginxJSON is the shape of a server whose other lines, its errors, may have JSON that a client wrote.
const nginxJSON = "nginx-json"

// cloudFrontJSON is the shape whose values are percent-encoded once more than they were sent.
const cloudFrontJSON = "cloudfront-json"

// serverShapes are the shapes in which one server gives each member its name, so that the first path to the client is
// the right one.
var serverShapes = []string{caddyJSON, "traefik-json", "envoy-json", "cloudflare-json", "gcp-json", cloudFrontJSON}

// jsonShapes in the order in which they are tried on a record. The last fits every record.
var jsonShapes = []jsonShape{
	{caddyJSON, "ts request.uri|request.method", [roleCount]string{
		roleTime: "ts#", roleIP: "request.client_ip request.remote_ip request.remote_addr", roleUser: "user_id",
		roleMethod: "request.method", roleHost: "request.host", roleURI: "request.uri",
		roleStatus: "status", roleBytes: "size",
		roleAgent: "request.headers.User-Agent.0", roleReferrer: "request.headers.Referer.0",
		roleForwarded: "request.headers.{Header}",
	}},
	{"traefik-json", "StartUTC|StartLocal RequestMethod|RequestPath", [roleCount]string{
		roleTime: "StartUTC StartLocal", roleIP: "ClientHost ClientAddr", roleUser: "ClientUsername",
		roleMethod: "RequestMethod", roleHost: "RequestHost RequestAddr", roleURI: "RequestPath",
		roleStatus: "DownstreamStatus OriginStatus", roleBytes: "DownstreamContentSize OriginContentSize",
		roleAgent: "request_User-Agent", roleReferrer: "request_Referer", roleForwarded: "request_{Header}",
	}},
	{"envoy-json", "start_time response_code|response_flags", [roleCount]string{
		roleTime: "start_time#", roleIP: "downstream_remote_address downstream_direct_remote_address",
		roleUser: "user", roleMethod: "method", roleHost: "authority :authority",
		roleURI:    "path x-envoy-original-path x-envoy-origin-path :path",
		roleStatus: "response_code", roleBytes: "bytes_sent",
		roleAgent: "user_agent user-agent", roleReferrer: "referer referrer", roleForwarded: "{header} {head-er}",
	}},
	{"ecs", "http.request.method|http.response.status_code|url.original|url.path|http.method|http.status_code|http.target",
		[roleCount]string{
			// Logstash keeps the time of the line as timestamp; @timestamp is then the time at which it read the line. Of
			// a request, event.end is the end; the other two are whichever time its writer took.
			roleTime: "event.end# timestamp# @timestamp#",
			roleIP: "source.ip client.ip source.address client.address http.client_ip " +
				"network.peer.address net.sock.peer.addr net.peer.ip",
			roleUser:   "user.name client.user.name source.user.name user.id enduser.id",
			roleMethod: "http.request.method http.request.method_original http.method",
			roleHost:   "url.domain server.address http.host http.server_name net.host.name",
			roleURI:    "url.original url.full http.target http.url", rolePath: "url.path", roleQuery: "url.query",
			roleStatus: "http.response.status_code http.status_code",
			roleBytes: "http.response.body.bytes http.response.bytes http.response.body.size http.response.size " +
				"http.response_content_length",
			roleAgent:     "user_agent.original http.user_agent",
			roleReferrer:  "http.request.referrer http.request.header.referer",
			roleForwarded: "http.request.header.{head-er} http.request.header.{header} http.request.headers.{head-er}",
		}},
	{"cloudflare-json", "ClientIP ClientRequestMethod|ClientRequestURI|ClientRequestPath|EdgeResponseStatus", [roleCount]string{
		roleTime: "EdgeEndTimestamp# EdgeStartTimestamp#", roleIP: "ClientIP", roleMethod: "ClientRequestMethod",
		roleHost: "ClientRequestHost", roleURI: "ClientRequestURI", rolePath: "ClientRequestPath",
		roleStatus: "EdgeResponseStatus", roleBytes: "EdgeResponseBytes",
		roleAgent: "ClientRequestUserAgent", roleReferrer: "ClientRequestReferer",
	}},
	{"gcp-json", "httpRequest.remoteIp|httpRequest.requestMethod|httpRequest.requestUrl timestamp|receiveTimestamp", [roleCount]string{
		roleTime: "timestamp receiveTimestamp", roleIP: "httpRequest.remoteIp", roleMethod: "httpRequest.requestMethod",
		roleURI: "httpRequest.requestUrl", roleStatus: "httpRequest.status", roleBytes: "httpRequest.responseSize",
		roleAgent: "httpRequest.userAgent", roleReferrer: "httpRequest.referer",
	}},
	// Standard logs use the names of their columns, real-time logs some of these with dashes.
	{cloudFrontJSON, "c-ip cs-method|cs-uri-stem|sc-status", [roleCount]string{
		roleTime: "timestamp(ms)# timestamp# date+time", roleIP: "c-ip", roleMethod: "cs-method",
		roleHost: "x-host-header cs(Host) cs-host", rolePath: "cs-uri-stem", roleQuery: "cs-uri-query",
		roleStatus: "sc-status", roleBytes: "sc-bytes", roleAgent: "cs(User-Agent) cs-user-agent",
		roleReferrer: "cs(Referer) cs-referer", roleForwarded: "{head-er}",
	}},
	{"logstash-json", "clientip verb|request|rawrequest", [roleCount]string{
		roleTime: "timestamp# @timestamp#", roleIP: "clientip", roleUser: "auth", roleMethod: "verb",
		roleHost: "vhost", roleRequest: "rawrequest", roleURI: "request", roleStatus: "response", roleBytes: "bytes",
		roleAgent: `agent"`, roleReferrer: `referrer"`, roleForwarded: "{header}",
	}},
	{nginxJSON, "remote_addr request|request_uri|uri|path|request_method|method", [roleCount]string{
		roleTime: "time_iso8601 time_local msec# time# timestamp# @timestamp# date#",
		roleIP:   "remote_addr", roleUser: "remote_user user",
		roleMethod: "request_method method", roleHost: "http_host vhost host server_name",
		roleRequest: "request", roleURI: "request_uri", rolePath: "uri path", roleQuery: "args query_string request_query",
		roleStatus: "status", roleBytes: "body_bytes_sent body_bytes_size bytes_sent bytes",
		roleAgent: "http_user_agent user_agent agent", roleReferrer: "http_referer http_referrer referrer referer",
		roleForwarded: "http_{header} {header}",
	}},
	// The shapes below use host for the client, but only if no other field is there.
	{"json", "ip|client_ip|remote_ip", ownWords},
	{"fluentbit-json", "remote|host method path code", [roleCount]string{
		roleTime: "time# @timestamp# date# timestamp#", roleIP: "remote host", roleUser: "user", roleMethod: "method",
		roleURI: "path", roleStatus: "code", roleBytes: "size", roleAgent: "agent", roleReferrer: "referer",
		roleForwarded: "http_{header} {header}",
	}},
	{"vector-json", "client request timestamp", [roleCount]string{ // parse_nginx_log
		roleTime: "timestamp", roleIP: "client", roleUser: "user", roleRequest: "request", roleStatus: "status",
		roleBytes: "size", roleAgent: "agent", roleReferrer: "referer", roleForwarded: "http_{header}",
	}},
	{"vector-json", "client_host elb_status_code|request_url timestamp", [roleCount]string{ // parse_aws_alb_log
		roleTime: "timestamp", roleIP: "client_host", roleMethod: "request_method", roleURI: "request_url",
		roleStatus: "elb_status_code", roleBytes: "sent_bytes", roleAgent: "user_agent",
	}},
	{"vector-json", "host timestamp protocol path|message status", [roleCount]string{ // parse_apache_log, parse_common_log
		roleTime: "timestamp", roleIP: "host", roleUser: "user", roleMethod: "method", roleURI: "path",
		roleStatus: "status", roleBytes: "size", roleAgent: "agent", roleReferrer: "referrer",
	}},
	{"json", "", ownWords},
}

// ownWords are the names of Request's fields and their most common synonyms.
var ownWords = [roleCount]string{
	roleTime: "time# timestamp# ts# @timestamp# date#", roleIP: "ip client_ip remote_ip remote_addr",
	roleUser: "user username user_id", roleMethod: "method request_method", roleHost: "host",
	roleRequest: "request", roleURI: "uri url request_uri", rolePath: "path", roleQuery: "query",
	roleStatus: "status status_code", roleBytes: "bytes bytes_sent size", roleAgent: "agent user_agent",
	roleReferrer: "referrer referer", roleForwarded: "forwarded {header}",
}

// jsonPresets are the formats named after shapes, which read that shape only, and json, which reads each record by
// the first shape that fits.
func jsonPresets() []preset {
	var names []string
	for _, shape := range jsonShapes {
		if shape.name != "json" && !slices.Contains(names, shape.name) {
			names = append(names, shape.name)
		}
	}
	var presets []preset
	for _, name := range append(names, "json") {
		presets = append(presets, jsonPreset(name))
	}
	return presets
}

func jsonPreset(name string) preset {
	return preset{name: name, parser: func(o Options) (Parser, error) { return newJSONParser(name, o), nil }}
}

// path replaces the header in a path by the configured one.
func (o Options) path(path string) string {
	if strings.IndexByte(path, '{') < 0 {
		return path
	}
	dashed := strings.ReplaceAll(o.header(), "_", "-")
	return strings.NewReplacer("{header}", o.header(), "{head-er}", dashed,
		"{Header}", textproto.CanonicalMIMEHeaderKey(dashed)).Replace(path)
}

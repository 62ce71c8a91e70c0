package request

import (
	"fmt"
	"strings"
)

// A preset is a format that is known by name.
type preset struct {
	name   string
	parser func(Options) (Parser, error)
	loose  bool // reads lines of many formats: Detect uses it only when no other preset reads the sample
}

var presets = append([]preset{
	{name: "combined", parser: apache(apacheCombined)},
	{name: "common", parser: apache(apacheCommon)},
	{name: "vhost_combined", parser: withTail("%v:%p " + apacheCombined)},
	{name: "host_combined", parser: withTail("%v " + apacheCombined)},
	{name: "lighttpd", parser: apache(lighttpd)},
	{name: "main", parser: nginx(nginxMain)},
	{name: "weir", parser: weirParser},
	{name: "ingress-nginx", parser: nginx(nginxIngress)},
	{name: "istio", parser: scanned(layoutIstio)},
	{name: "haproxy", parser: haproxyParser},
	{name: "alb", parser: scanned(layoutALB)},
	{name: "elb", parser: scanned(layoutELB)},
	{name: "s3", parser: s3Parser},
	{name: "npm", parser: npmParser},
	{name: "npmplus", parser: scanned(layoutNPMplus)},
	{name: "squid", parser: scanned(layoutSquid)},
	{name: "cloudfront", parser: w3c(columnsCloudFront, dialectCloudFront)},
	{name: "iis", parser: w3c(columnsIIS, dialectIIS)},
	{name: "attempts", parser: newAttemptParser},
	{name: "combined-plus", parser: withTail(apacheCombined), loose: true},
	{name: "common-plus", parser: withTail(apacheCommon + " "), loose: true},
}, jsonPresets()...)

// rivals are formats whose lines combined or host_combined may read too, with another client. They are never used to
// read a log: they exist so that Detect asks instead of guessing.
var rivals = []preset{
	{name: forwardedFirst, parser: scanned(layoutForwardedFirst)},
	{name: "%h %{X-Forwarded-For}i %l %u %t …", parser: scanned(layoutForwardedSecond)},
	{name: "$remote_addr:$remote_port $http_x_forwarded_for - $remote_user …", parser: scanned(layoutPortAndForwarded)},
}

// forwardedFirst is the rival that has the header for the client in the client's place.
const forwardedFirst = "%{X-Forwarded-For}i %l %u %t …"

// layoutForwardedFirst reads only lines in which the header is a list of addresses: no server writes one for the peer.
func layoutForwardedFirst(o Options) (layout, error) {
	header := strings.ReplaceAll(o.header(), "_", "-")
	l, err := apacheLayout("%{"+header+"}i"+strings.TrimPrefix(apacheCommon, "%h")+" ", o)
	l.tail = true
	for _, v := range variablesOf(l.tokens) {
		if v.slot == slotForwarded {
			v.set = setForwardedList
		}
	}
	return l, err
}

func layoutForwardedSecond(o Options) (layout, error) {
	header := strings.ReplaceAll(o.header(), "_", "-")
	l, err := apacheLayout("%h %{"+header+"}i"+strings.TrimPrefix(apacheCombined, "%h"), o)
	l.tail = true
	for _, v := range variablesOf(l.tokens) {
		if v.name == "remote_host" {
			v.set = setBareAddress
		}
	}
	return l, err
}

func layoutPortAndForwarded(o Options) (layout, error) {
	l, err := nginxLayout("$remote_addr:$remote_port $http_"+o.header()+strings.TrimPrefix(nginxCombined, "$remote_addr"), o)
	l.tail = true
	return l, err
}

// Presets are the names of all formats that NewParser knows.
func Presets() []string {
	names := make([]string, len(presets))
	for i, p := range presets {
		names[i] = p.name
	}
	return names
}

const (
	apacheCommon = `%h %l %u %t "%r" %>s %b`
	// Also the format of nginx, whose second field is always a dash.
	apacheCombined = `%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`

	// The host stands where combined has the identity, which is practically unused.
	lighttpd = `%h %V %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`

	nginxCombined = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`
	nginxMain     = nginxCombined + ` "$http_x_forwarded_for"`
	nginxIngress  = nginxCombined + ` $request_length $request_time [$proxy_upstream_name] ` +
		`[$proxy_alternative_upstream_name] $upstream_addr $upstream_response_length $upstream_response_time $upstream_status $req_id`

	// Captured headers, if there are any, stand before the request; the additional fields of httpslog stand behind it.
	haproxyHead = `$client [$accept_date] $frontend $backend/$server $timers $status $bytes_sent `
	haproxy     = haproxyHead + `$captured_request_cookie $captured_response_cookie $termination_state $connections $queues $captures"$request"`

	// The time is that of the response, the order in which lines are written.
	alb = `$type $time_iso8601 $elb $client $target $request_processing_time $target_processing_time ` +
		`$response_processing_time $status $target_status_code $received_bytes $bytes_sent "$request" "$http_user_agent`
	albOptional = `" $ssl_cipher $ssl_protocol $target_group_arn "$trace_id" "$domain_name" "$chosen_cert_arn" ` +
		`$matched_rule_priority $request_creation_time "$actions_executed" "$redirect_url" "$error_reason" "$target_port_list" ` +
		`"$target_status_code_list" "$classification" "$classification_reason" $conn_trace_id `
)

func nginx(format string) func(Options) (Parser, error) {
	return func(o Options) (Parser, error) { return compiled(nginxLayout, format, o) }
}

func apache(format string) func(Options) (Parser, error) {
	return func(o Options) (Parser, error) { return compiled(apacheLayout, format, o) }
}

// withTail is an Apache LogFormat whose lines may go on: with a time, a name, headers. Apache and nginx escape the
// quotes in client text, so that nothing in the tail, or before it, moves a field of the format.
func withTail(format string) func(Options) (Parser, error) {
	return scanned(func(o Options) (layout, error) {
		l, err := apacheLayout(format, o)
		l.tail = true
		return l, err
	})
}

func scanned(layoutOf func(Options) (layout, error)) func(Options) (Parser, error) {
	return func(o Options) (Parser, error) {
		l, err := layoutOf(o)
		if err != nil {
			return nil, err
		}
		return compile(l, o)
	}
}

func w3c(names string, d dialect) func(Options) (Parser, error) {
	return func(o Options) (Parser, error) {
		c, err := newColumns(names, d, o)
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", fieldsDirective, names, err)
		}
		return c, nil
	}
}

func layoutALB(o Options) (layout, error) {
	l, err := nginxLayout(alb, o)
	if err != nil {
		return l, err
	}
	l.nameOwn()
	optional, err := nginxLayout(albOptional, o)
	l.optional = optional.tokens
	return l, err
}

// nameOwn defines our own variables: $client is the client's address with its port, $accept_date HAProxy's time, which
// has a fraction and no zone, and $bytes_sent a number that may have a plus sign.
func (l layout) nameOwn() {
	for _, v := range variablesOf(l.tokens) {
		switch v.name {
		case "client":
			v.slot, v.set = slotIP, setAddressPort
		case "accept_date":
			v.slot, v.set, v.beginning = slotTime, setTimeCLF, true
		case "timers":
			v.took = setHAProxyTimers
		case "bytes_sent":
			v.set = setBytesSoFar
		}
	}
}

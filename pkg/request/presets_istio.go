package request

import "strings"

// Istio makes Envoy write more than Envoy's default: the peer's address, behind all text from clients.
//
// Envoy escapes nothing, so headers cannot be separated once one contains a quote. But a client cannot move the fields
// before the first header, since Envoy refuses targets with spaces. It cannot move the fields behind the last quote
// either: addresses and names of Istio's own, and the name of TLS, which Envoy checks (since 1.28.7, 1.29.9, 1.30.6 and
// 1.31.2). The peer is therefore the client, and X-Forwarded-For is never read. Of the headers only those within
// Envoy's own quotes are read.
const istioHead = `[$time_iso8601] "$request" $status $response_flags $response_code_details $connection_termination_details ` +
	`"$upstream_transport_failure_reason" $request_length $bytes_sent $duration $upstream_service_time "`

const (
	istioQuotes = 9 // of five fields, except the first, which istioHead ends with
	istioWords  = 6 // behind them
	istioPeer   = 3 // the peer's position among them
)

func layoutIstio(o Options) (layout, error) {
	o.Fields = nil
	l, err := nginxLayout(istioHead, o)
	l.escape, l.settled, l.tail = escapeNone, true, true
	l.rest = &variable{name: moreField, text: "the rest of the line", slot: slotIP, always: true, set: setIstioEnd}
	for _, v := range variablesOf(l.tokens) {
		switch v.name {
		case "time_iso8601":
			v.beginning = true
		case "request":
			v.ending = endWords
		case "duration":
			v.took = tookIn(inMillis)
		}
	}
	return l, err
}

// setIstioEnd reads the text after the quote before the first header.
func setIstioEnd(_ *step, r *Request, text string) *Unread {
	// Read from the end: clients write the headers between the quotes, and can put quotes into them, but nothing behind
	// the last one.
	last := strings.LastIndexByte(text, '"')
	if last < 0 || !strings.HasPrefix(text[last+1:], " ") {
		return errFormat
	}

	var words [istioWords]string
	rest, more := text[last+2:], true
	for i := range words {
		if !more {
			return errFormat
		}
		words[i], rest, more = strings.Cut(rest, " ")
	}

	if more {
		return errFormat
	}
	var ok bool
	if r.IP, ok = parseAddressPort(words[istioPeer]); !ok {
		return errAddress
	}

	setIstioHeaders(r, text[:last+1])
	r.add("upstream_cluster", words[0])
	r.add("requested_server_name", words[4])
	r.add("route_name", words[5])
	return nil
}

// setIstioHeaders reads the headers and the server asked, if no header contains a quote.
func setIstioHeaders(r *Request, text string) {
	if strings.Count(text, `"`) != istioQuotes {
		return
	}
	var fields [5]string
	for i := range fields {
		fields[i], text, _ = strings.Cut(text, `"`)
		text = strings.TrimPrefix(text, ` "`)
	}
	r.Agent = known(fields[1])
	r.add("http_x_request_id", fields[2])
	r.Host = hostOnly(known(fields[3]))
	r.add("upstream_host", fields[4])
}

package request

import "strings"

const (
	// The format of the older ELB, from which ALB's is derived: no type, no field behind the protocol of TLS.
	elb = `$time_iso8601 $elb $client $backend $request_processing_time $backend_processing_time $response_processing_time ` +
		`$status $backend_status_code $received_bytes $bytes_sent "$request" "$http_user_agent`
	elbOptional = `" $ssl_cipher $ssl_protocol `

	s3Head     = `$bucket_owner $bucket [$time_local] $remote_addr $remote_user $request_id $operation $key "`
	s3         = s3Head + `$request" $status $error_code $bytes_sent $object_size $total_time $turn_around_time "$http_referer" "$http_user_agent`
	s3Optional = `" $version_id $host_id $signature_version $cipher_suite $authentication_type $host $tls_version ` +
		`$access_point_arn $acl_required `

	// Nginx Proxy Manager writes the first for hosts that it proxies to, and the second for redirections and dead
	// hosts.
	npmProxy = `[$time_local] $upstream_cache_status $upstream_status $status - $request_method $scheme $host "$request_uri" ` +
		`[Client $remote_addr] [Length $body_bytes_sent] [Gzip $gzip_ratio] [Sent-to $server] "$http_user_agent" "$http_referer"`
	npmStandard = `[$time_local] $status - $request_method $scheme $host "$request_uri" ` +
		`[Client $remote_addr] [Length $body_bytes_sent] [Gzip $gzip_ratio] "$http_user_agent" "$http_referer"`

	// The last two headers have no quotes, so they are one field.
	npmplus = `[$time_local] $host $remote_addr $request_seconds "$request" $status $body_bytes_sent $bytes_sent $referer_and_agent`

	squid = `$msec $elapsed $remote_addr $result/$status $bytes_sent $method_and_url $remote_user $hierarchy $mime_type`
)

func layoutELB(o Options) (layout, error) {
	l, err := nginxLayout(elb, o)
	if err != nil {
		return l, err
	}
	l.nameOwn()
	for _, v := range variablesOf(l.tokens) {
		switch v.name {
		case "time_iso8601":
			v.beginning = true
		case "request_processing_time", "backend_processing_time", "response_processing_time":
			v.took = tookIn(inSeconds)
		}
	}
	optional, err := nginxLayout(elbOptional, o)
	l.optional = optional.tokens
	return l, err
}

func layoutNPMplus(o Options) (layout, error) {
	l, err := nginxLayout(npmplus, o)
	for _, v := range variablesOf(l.tokens) {
		switch v.name {
		case "request_seconds":
			v.name, v.set, v.always = "request_time", setSeconds, true
		case "referer_and_agent":
			v.set, v.always = setReferrerAndAgent, true
		}
	}
	return l, err
}

// layoutSquid: Squid writes names percent-encoded, and removes spaces from URLs unless uri_whitespace is allow.
func layoutSquid(o Options) (layout, error) {
	l, err := nginxLayout(squid, o)
	for _, v := range variablesOf(l.tokens) {
		switch v.name {
		case "elapsed":
			v.ending, v.set = endPadded, setPadded
		case "method_and_url":
			v.slot, v.set, v.ending = slotRequestLine, setRequestLine, endPair
		}
	}
	return l, err
}

func layoutS3(o Options) (layout, error) {
	l, err := nginxLayout(s3, o)
	if err != nil {
		return l, err
	}
	optional, err := nginxLayout(s3Optional, o)
	l.escape, l.settled, l.optional = escapeNone, true, optional.tokens // by s3Lines
	for _, v := range variablesOf(l.tokens) {
		switch v.name {
		case "time_local":
			v.beginning = true
		case "bytes_sent":
			v.set = setBytesCLF
		case "total_time":
			v.took = tookIn(inMillis)
		}
	}
	return l, err
}

func layoutS3Head(o Options) (layout, error) {
	o.Fields = nil
	l, err := nginxLayout(s3Head, o)
	l.escape, l.settled = escapeNone, true
	l.tokens = append(l.tokens, token{variable: &variable{name: moreField, text: "the rest of the line", set: setNothing}})
	return l, err
}

// setSeconds accepts a number with a fraction, and nothing else.
func setSeconds(s *step, r *Request, text string) *Unread {
	integer := skipDigits(text, 0)
	if fraction := strings.TrimPrefix(text[integer:], "."); integer == 0 || skipDigits(fraction, 0) < len(fraction) {
		return errFormat
	}
	return setFurther(s, r, text)
}

// setReferrerAndAgent reads two headers with a space between. Both are the client's text, so a wrong boundary between
// them does no harm.
func setReferrerAndAgent(_ *step, r *Request, text string) *Unread {
	referrer, agent, _ := strings.Cut(text, " ")
	r.Referrer, r.Agent = known(referrer), known(agent)
	return nil
}

// setPadded reads a field that is aligned to the right.
func setPadded(s *step, r *Request, text string) *Unread {
	return setFurther(s, r, strings.TrimLeft(text, " "))
}

// twoParsers are the two ways to read the lines of a format.
type twoParsers struct{ first, second Parser }

func (p *twoParsers) Want(names []string) {
	p.first.Want(names)
	p.second.Want(names)
}

func (p *twoParsers) forget() {
	forget(p.first)
	forget(p.second)
}

// An either reads lines of two formats.
type either struct{ twoParsers }

func npmParser(o Options) (Parser, error) {
	first, err := nginx(npmProxy)(o)
	if err != nil {
		return nil, err
	}
	o.Fields = o.fieldsIn(npmStandard)
	second, err := nginx(npmStandard)(o)
	return &either{twoParsers{first, second}}, err
}

// fieldsIn are the fields that an nginx format has variables for.
func (o Options) fieldsIn(format string) map[string]string {
	fields := map[string]string{}
	for ours, theirs := range o.Fields {
		if strings.Contains(format, "$"+strings.TrimPrefix(theirs, "$")) {
			fields[ours] = theirs
		}
	}
	return fields
}

// Parse returns the first format's error when neither reads the line.
func (p *either) Parse(line string, r *Request) error {
	err := p.first.Parse(line, r)
	if err == nil || err == ErrNoRequest || p.second.Parse(line, r) != nil {
		return err
	}
	return nil
}

// s3Quotes is the number of quotes in a line of S3, around the request and two headers.
const s3Quotes = 6

// An s3Lines parser reads S3's log, whose escaping of quotes is not documented. In a line with more quotes than S3
// itself writes, nothing behind the first one is trusted: only time, client and requester are known.
type s3Lines struct{ twoParsers } // of all of a line, and of its head

func s3Parser(o Options) (Parser, error) {
	all, err := scanned(layoutS3)(o)
	if err != nil {
		return nil, err
	}
	head, err := scanned(layoutS3Head)(o)
	return &s3Lines{twoParsers{all, head}}, err
}

func (p *s3Lines) Parse(line string, r *Request) error {
	if strings.Count(line, `"`) <= s3Quotes {
		return p.first.Parse(line, r)
	}
	return p.second.Parse(line, r)
}

func setNothing(*step, *Request, string) *Unread { return nil }

package request

import (
	"cmp"
	"fmt"
	"strings"
)

// nginxVariables are the variables of nginx that fill more than a further field of their own name.
var nginxVariables = map[string]variable{
	"time_local":   {slot: slotTime, set: setTimeCLF, ending: endCLF},
	"time_iso8601": {slot: slotTime, set: setTimeISO},
	"msec":         {slot: slotTime, set: setTimeUnix, rank: rankSent},

	"remote_addr":               {slot: slotIP, set: setAddress, rank: rankSent},
	"proxy_protocol_addr":       {slot: slotIP, set: setAddress, rank: rankRewritten},
	"realip_remote_addr":        {slot: slotIP, set: setAddress, rank: rankServer},
	"remote_user":               {slot: slotUser, set: setUser},
	"weir_user":                 {slot: slotUser, set: setUser, rank: rankSent}, // deployments/edge/nginx.conf: the user that nginx has checked
	"http_user_agent":           {slot: slotAgent, set: setAgent},
	"http_referer":              {slot: slotReferrer, set: setReferrer},
	"proxy_add_x_forwarded_for": {slot: slotForwarded, set: setForwarded, rank: rankServer},

	"request":        {slot: slotRequestLine, set: setRequestLine},
	"request_method": {slot: slotMethod, set: setMethod, rank: rankSent},
	"request_uri":    {slot: slotPath, set: setTarget, rank: rankSent},
	"uri":            {slot: slotPath, set: setDecodedTarget, rank: rankRewritten},
	"document_uri":   {slot: slotPath, set: setDecodedTarget, rank: rankServer},
	"args":           {slot: slotQuery, set: setQuery},
	"query_string":   {slot: slotQuery, set: setQuery},

	"host":            {slot: slotHost, set: setHost, rank: rankSent, ending: endHost},
	"http_host":       {slot: slotHost, set: setHost, rank: rankRequestLine, ending: endHost},
	"ssl_server_name": {slot: slotHost, set: setHost, rank: rankRewritten},
	"server_name":     {slot: slotHost, set: setHost, rank: rankServer, ending: endHost},

	"status":          {slot: slotStatus, set: setStatus},
	"body_bytes_sent": {slot: slotBytes, set: setBytes, rank: rankSent},
	"bytes_sent":      {slot: slotBytes, set: setBytes, rank: rankServer},

	// Weir's own header on refused requests, as it stands in responses.
	"sent_http_x_weir":     {name: refusedField, set: setFurther},
	"upstream_http_x_weir": {name: refusedField, set: setFurther, ending: endList},
}

const refusedField = "weir"

// nginxLayout reads a log_format: the directive, its quoted strings, or the bare format.
func nginxLayout(format string, o Options) (layout, error) {
	text, mode, err := nginxText(format)
	if err != nil {
		return layout{}, err
	}

	l := layout{}
	if l.escape, err = nginxEscape(mode); err != nil {
		return layout{}, err
	}

	for text != "" {
		dollar := strings.IndexByte(text, '$')
		if dollar < 0 {
			dollar = len(text)
		}

		// Empty literals are fine: joinLiterals drops them.
		l.tokens = append(l.tokens, token{literal: text[:dollar]})
		if text = text[dollar:]; text == "" {
			break
		}

		name, rest, ok := nginxName(text[1:])
		if !ok {
			return layout{}, fmt.Errorf("no variable's name follows the $ in %.20q", text)
		}

		l.tokens = append(l.tokens, token{variable: nginxVariable(name, o)})
		text = rest
	}

	if l.escape == escapeHash {
		readsHAProxyRequests(l)
	}

	return l, nil
}

func nginxEscape(mode string) (escape, error) {
	switch mode {
	case "", "default", "json":
		return escapeBackslash, nil
	case "none":
		return escapeNone, nil
	case "haproxy": // for a log-format of HAProxy that is written with nginx's variables
		return escapeHash, nil
	}
	return 0, fmt.Errorf("escape=%s: nginx has default, json and none, and haproxy stands for HAProxy's way", mode)
}

// nginxText returns the format and the value of escape=.
func nginxText(format string) (text, mode string, err error) {
	parameters, directive := cutDirective(format, "log_format")
	if rest, ok := strings.CutPrefix(parameters, "escape="); ok {
		mode, parameters, directive = cutSpace(rest)
	}
	if !directive && !isQuotedOnce(parameters) && !strings.HasPrefix(parameters, "'") {
		return unescapedConfig(strings.TrimRight(parameters, "\r\n")), mode, nil
	}
	text, err = joinQuoted(strings.TrimSuffix(strings.TrimRight(parameters, configSpace), ";"))
	return text, mode, err
}

// cutDirective removes the directive and the name that it gives to the format.
func cutDirective(s, directive string) (rest string, found bool) {
	first, rest, found := cutSpace(s)
	if !found || first != directive {
		return s, false
	}
	_, rest, _ = cutSpace(rest)
	return rest, true
}

// nginxName reads name or {name}.
func nginxName(s string) (name, rest string, ok bool) {
	braced := strings.HasPrefix(s, "{")
	s = strings.TrimPrefix(s, "{")
	end := 0
	for end < len(s) && (s[end] == '_' || s[end]-'0' <= 9 || s[end]|0x20-'a' < 26) {
		end++
	}
	name, rest = s[:end], s[end:]
	if braced {
		rest, ok = strings.CutPrefix(rest, "}")
		return name, rest, ok && name != ""
	}
	return name, rest, name != ""
}

func nginxVariable(name string, o Options) *variable {
	v, ok := nginxVariables[name]
	if !ok {
		v = variable{set: setFurther}
	}
	if header, isHeader := strings.CutPrefix(name, "http_"); isHeader && header == o.header() {
		v = variable{slot: slotForwarded, set: setForwarded, rank: rankSent}
	}
	v.name = cmp.Or(v.name, name)

	// nginx writes a value for each server that it asked, with commas and colons between them.
	if strings.HasPrefix(name, "upstream_") {
		v.ending = endList
	}

	v.text = "$" + name
	return &v
}

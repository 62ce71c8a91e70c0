package request

import "strings"

// A weirLines parser reads the log that deployments/edge has nginx and HAProxy write. HAProxy names itself where nginx
// has a dash, because it escapes characters in its own way: path#FF is a path and a byte there, and in nginx's log a
// path and a fragment.
type weirLines struct{ twoParsers } // nginx's and HAProxy's

const (
	haproxyMark     = " haproxy "
	haproxyCombined = `$remote_addr` + haproxyMark + `$remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`
	weirField       = ` weir="$weir"`
)

func weirParser(o Options) (Parser, error) {
	ofNginx, err := nginx(nginxCombined + weirField)(o)
	if err != nil {
		return nil, err
	}
	ofHAProxy, err := scanned(layoutWeirHAProxy)(o)
	return &weirLines{twoParsers{ofNginx, ofHAProxy}}, err
}

func layoutWeirHAProxy(o Options) (layout, error) {
	l, err := nginxLayout(haproxyCombined+weirField, o)
	l.escape = escapeHash
	readsHAProxyRequests(l)
	for _, v := range variablesOf(l.tokens) {
		if v.slot == slotUser {
			v.set = setEncodedUser
		}
	}
	return l, err
}

// setEncodedUser reads a user that HAProxy's url_enc wrote: no other byte of a name stands in the line as it is.
func setEncodedUser(s *step, r *Request, text string) *Unread {
	return setUser(s, r, escapePercent.undo(text))
}

func (p *weirLines) Parse(line string, r *Request) error {
	if space := strings.IndexByte(line, ' '); space >= 0 && strings.HasPrefix(line[space:], haproxyMark) {
		return p.second.Parse(line, r)
	}
	return p.first.Parse(line, r)
}

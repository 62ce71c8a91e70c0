package config

import (
	"mime"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"strings"

	"weir/internal/yamlfile"
	"weir/pkg/notify"
)

// A Webhook gets JSON.
type Webhook struct {
	// URL is where to post; URLFile contains it where it is a secret.
	URL     string `yaml:"url"`
	URLFile string `yaml:"url_file"`
	// AuthorizationFile contains the value of the header Authorization: Bearer TOKEN. Default: none.
	AuthorizationFile string `yaml:"authorization_file"`
	// CA is the file of the roots that sign the server's certificate. Default: the system's roots.
	CA string `yaml:"ca"`
	// Template makes the body, as text/template. Default: the documented JSON.
	Template string `yaml:"template"`
	// ContentType is that of the template's result. Default: application/json.
	ContentType string `yaml:"content_type"`

	parsed *notify.Template
}

// Parsed returns the template; nil without one.
func (w *Webhook) Parsed() *notify.Template { return w.parsed }

// FromYAML sets the defaults and checks that there is one URL and that the template makes a body.
func (w *Webhook) FromYAML(v yamlfile.Value) {
	*w = Webhook{ContentType: "application/json"}
	type plain Webhook
	if !v.Decode((*plain)(w)) {
		return
	}
	if (w.URL == "") == (w.URLFile == "") {
		v.Faultf("write url, or url_file, a file that contains it", "a webhook has one URL")
	}
	checkURL(v.Key("url"), w.URL)
	warnOfClear(v.Key("url"), w.URL, w.AuthorizationFile != "")
	_, _, err := mime.ParseMediaType(w.ContentType)
	if err != nil {
		v.Key("content_type").Faultf("write it as text/plain", "%q is not a content type", w.ContentType)
	}
	if w.Template == "" || err != nil {
		return
	}
	if w.parsed, err = notify.ParseTemplate(w.Template, w.ContentType); err != nil {
		v.Key("template").Fault(err)
	}
}

// A Chat is an incoming webhook of Slack or Mattermost.
type Chat struct {
	// URLFile contains the URL, which is a secret.
	URLFile string `yaml:"url_file"`
	// CA is the file of the roots that sign the server's certificate. Default: the system's roots.
	CA string `yaml:"ca"`
}

// Validate checks that there is a URL.
func (c *Chat) Validate(v yamlfile.Value) {
	if c.URLFile == "" {
		v.Faultf("write url_file, a file that contains the URL of the incoming webhook", "there is no URL")
	}
}

// PagerDuty is a service of PagerDuty.
type PagerDuty struct {
	// RoutingKeyFile contains the integration key of Events API v2.
	RoutingKeyFile string `yaml:"routing_key_file"`
	// URL is where events are posted. Default: https://events.pagerduty.com/v2/enqueue.
	URL string `yaml:"url"`
	// CA is the file of the roots that sign the server's certificate. Default: the system's roots.
	CA string `yaml:"ca"`
}

// FromYAML sets the URL and checks that there is a key.
func (p *PagerDuty) FromYAML(v yamlfile.Value) {
	*p = PagerDuty{URL: notify.PagerDutyURL}
	type plain PagerDuty
	if v.Decode((*plain)(p)); p.RoutingKeyFile == "" {
		v.Faultf("write routing_key_file, a file that contains the integration key of Events API v2", "there is no key")
	}
	checkURL(v.Key("url"), p.URL)
	warnOfClear(v.Key("url"), p.URL, true)
}

// An Alertmanager is Prometheus's.
type Alertmanager struct {
	// URL is the server's, without /api/v2/alerts.
	URL string `yaml:"url"`
	// AuthorizationFile contains the value of the header Authorization. Default: none.
	AuthorizationFile string `yaml:"authorization_file"`
	// CA is the file of the roots that sign the server's certificate. Default: the system's roots.
	CA string `yaml:"ca"`
}

// Validate checks the URL.
func (a *Alertmanager) Validate(v yamlfile.Value) {
	if a.URL == "" {
		v.Faultf("write url: http://alertmanager:9093", "there is no URL")
	}
	checkURL(v.Key("url"), a.URL)
	warnOfClear(v.Key("url"), a.URL, a.AuthorizationFile != "")
}

// Mail is sent by SMTP.
type Mail struct {
	// Server is the host and port of the mail server: mail.example.com:587.
	Server string `yaml:"server"`
	// From is the sender: Weir <weir@example.com>.
	From string `yaml:"from"`
	// To are the recipients.
	To Texts `yaml:"to"`
	// User is the name to log in with. Default: no login.
	User string `yaml:"user"`
	// PasswordFile contains only the password.
	PasswordFile string `yaml:"password_file"`
	// TLS is starttls, offered, implicit or never. Default: implicit at port 465, offered at a loopback address, else
	// starttls.
	TLS string `yaml:"tls"`
	// CA is the file of the roots that sign the server's certificate. Default: the system's roots.
	CA string `yaml:"ca"`
}

var mailTLS = map[string]notify.MailTLS{"starttls": notify.MailStartTLS, "offered": notify.MailOffered, "implicit": notify.MailImplicit, "never": notify.MailClear}

// Validate checks the server and the addresses.
func (m *Mail) Validate(v yamlfile.Value) {
	if err := checkHostPort(m.Server, "587"); err != nil {
		v.Key("server").Fault(err)
	}
	if _, err := mail.ParseAddress(m.From); err != nil {
		v.Key("from").Faultf("write it as Weir <weir@example.com>", "%q is not an address", m.From)
	}
	if len(m.To) == 0 {
		v.Faultf("write to: [security@example.com]", "there are no recipients")
	}
	for i, address := range m.To {
		if _, err := mail.ParseAddress(address); err != nil {
			nth(v.Key("to"), i).Faultf("write it as security@example.com", "%q is not an address", address)
		}
	}
	if (m.User == "") != (m.PasswordFile == "") {
		v.Faultf("give both or neither", "only one of user and password_file is given")
	}
	if _, known := mailTLS[m.TLS]; !known && m.TLS != "" {
		v.Key("tls").Faultf("write starttls, offered, implicit or never", "%q is not a way to encrypt mail", m.TLS)
	}
	if clear := m.Encryption(); m.User != "" && (clear == notify.MailClear || clear == notify.MailOffered) && !loopbackHost(m.Server) {
		v.Key("tls").Faultf("write tls: starttls, or leave it out", "the password would be sent without encryption")
	}
}

// Encryption is how the connection is encrypted.
func (m *Mail) Encryption() notify.MailTLS {
	_, port, _ := net.SplitHostPort(m.Server)
	switch {
	case m.TLS != "":
		return mailTLS[m.TLS]
	case port == "465":
		return notify.MailImplicit
	case loopbackHost(m.Server):
		return notify.MailOffered
	}
	return notify.MailStartTLS
}

// loopbackHost reports whether a host:port is this machine.
func loopbackHost(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// checkURL checks a URL that is not empty. Messages do not show it: it may contain a secret.
func checkURL(v yamlfile.Value, text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http":
		v.Faultf("write it as https://host/path", "this is not a URL")
	case u.User != nil:
		v.Faultf("write Basic and the encoded user and password into a file, and name it in authorization_file", "the URL contains a user or password, which everyone who reads this file would see")
	}
}

func warnOfClear(v yamlfile.Value, text string, secret bool) {
	if u, err := url.Parse(text); err == nil && secret && u.Scheme == "http" && !loopbackHost(u.Host) {
		v.Warnf("write https://", "a secret is sent without encryption")
	}
}

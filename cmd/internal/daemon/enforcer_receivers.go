package daemon

import (
	"time"

	"weir/cmd/internal/config"
	"weir/internal/telemetry"
	"weir/pkg/notify"
)

// Receivers returns the receivers that a configuration describes.
func Receivers(c *config.Config) []notify.Receiver {
	var all []notify.Receiver
	for i := range c.Notify {
		r := &c.Notify[i]
		all = append(all, notify.Receiver{
			Name: r.Name, Rules: r.Rules, Events: r.Events, Modes: r.ModesOf(), Orders: r.OrdersOf(), Severity: string(r.Severity), PerMinute: r.PerMinute,
			Group: time.Duration(r.Group), Stale: time.Duration(r.Stale), GiveUp: time.Duration(r.GiveUp), Timeout: time.Duration(r.Timeout), To: targetOf(r),
		})
	}
	return all
}

// targetOf returns where a receiver's messages go.
func targetOf(r *config.Receiver) notify.Target {
	agent := "weir/" + telemetry.Version()
	switch {
	case r.Webhook != nil:
		w := r.Webhook
		return &notify.Webhook{Server: notify.Server{URL: w.URL, URLFile: w.URLFile, AuthorizationFile: w.AuthorizationFile, CA: w.CA, UserAgent: agent},
			Template: w.Parsed(), ContentType: w.ContentType}
	case r.Slack != nil:
		return &notify.Chat{Server: notify.Server{URLFile: r.Slack.URLFile, CA: r.Slack.CA, UserAgent: agent}}
	case r.Mattermost != nil:
		return &notify.Chat{Server: notify.Server{URLFile: r.Mattermost.URLFile, CA: r.Mattermost.CA, UserAgent: agent}, Mattermost: true}
	case r.PagerDuty != nil:
		return &notify.PagerDuty{Server: notify.Server{URL: r.PagerDuty.URL, CA: r.PagerDuty.CA, UserAgent: agent}, RoutingKeyFile: r.PagerDuty.RoutingKeyFile}
	case r.Alertmanager != nil:
		return &notify.Alertmanager{Server: notify.Server{URL: r.Alertmanager.URL, AuthorizationFile: r.Alertmanager.AuthorizationFile, CA: r.Alertmanager.CA, UserAgent: agent}}
	}
	m := r.Mail
	return &notify.Mail{Server: m.Server, From: m.From, To: m.To, User: m.User, PasswordFile: m.PasswordFile, TLS: m.Encryption(), CA: m.CA, UserAgent: agent}
}

// openNotifier makes the notifier of an enforcer that has the topics; nil when no one is to be notified.
func (r *RunningEnforcer) openNotifier() *notify.Notifier {
	p, c := r.process, r.process.Config
	if len(c.Notify) == 0 {
		return nil
	}
	if r.client == nil {
		p.Logger.Warn("this enforcer has no topics, and so sends no notifications: an enforcer with kafka.brokers does")
		return nil
	}
	return notify.New(notify.Config{Log: r.client, Topic: EventsTopic(c).Name, Group: c.NotifyGroup(), Receivers: Receivers(c), Logger: p.Logger, Metrics: p.Metrics})
}

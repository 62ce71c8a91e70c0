package redis

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// parseURL reads the URLs of go-redis, and also several hosts, and the name of a master that Sentinels watch.
func parseURL(text string) (*goredis.UniversalOptions, error) {
	single, others := splitHosts(text)
	u, err := url.Parse(single)
	if err != nil {
		return nil, fmt.Errorf("the URL of Redis: %w", hidden(err))
	}

	query := u.Query()
	master := query.Get("master")

	// go-redis refuses parameters that it does not know.
	query.Del("master")
	u.RawQuery = query.Encode()
	o, err := goredis.ParseURL(u.String())
	if err != nil {
		return nil, fmt.Errorf("the URL of Redis: %w", hidden(err))
	}
	if len(others) > 0 && master == "" && o.DB != 0 {
		return nil, fmt.Errorf("the URL of Redis: a Cluster has no database %d, only 0", o.DB)
	}

	return &goredis.UniversalOptions{
		Addrs: append([]string{o.Addr}, others...), DB: o.DB, MasterName: master,
		Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
	}, nil
}

// splitHosts returns the URL with only the first host, and the other hosts, because net/url does not parse a list.
func splitHosts(text string) (single string, others []string) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme == "unix" {
		return text, nil
	}

	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}

	// Behind the last @, because a password may have one.
	begin := strings.LastIndex(rest[:end], "@") + 1
	hosts := strings.Split(rest[begin:end], ",")
	for n, host := range hosts {
		if !strings.Contains(host, ":") {
			hosts[n] = host + ":6379"
		}
	}

	return scheme + "://" + rest[:begin] + hosts[0] + rest[end:], hosts[1:]
}

// hidden keeps the problem of a URL but not the URL itself, which may contain a password.
func hidden(err error) error {
	if wrong := (*url.Error)(nil); errors.As(err, &wrong) {
		return wrong.Err
	}
	return err
}

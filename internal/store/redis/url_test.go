package redis

import (
	"slices"
	"strings"
	"testing"
)

func TestURLs(t *testing.T) {
	for url, want := range map[string]struct {
		addrs      string
		db         int
		user, pass string
		master     string
		tls        bool
	}{
		"redis://localhost":                           {addrs: "localhost:6379"},
		"redis://localhost:7000/3":                    {addrs: "localhost:7000", db: 3},
		"rediss://weir:s%40cret@redis.example:6380/0": {addrs: "redis.example:6380", user: "weir", pass: "s@cret", tls: true},
		"redis://a:1,b:2,c":                           {addrs: "a:1 b:2 c:6379"},
		"rediss://u:p@a:1,b:2":                        {addrs: "a:1 b:2", user: "u", pass: "p", tls: true},
		"redis://s1:26379,s2:26379/1?master=weir":     {addrs: "s1:26379 s2:26379", db: 1, master: "weir"},
		"redis://s1:26379?master=weir":                {addrs: "s1:26379", master: "weir"},
		"redis://[::1]:6379":                          {addrs: "[::1]:6379"},
	} {
		o, err := parseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if !slices.Equal(o.Addrs, strings.Fields(want.addrs)) || o.DB != want.db || o.Username != want.user ||
			o.Password != want.pass || o.MasterName != want.master || (o.TLSConfig != nil) != want.tls {
			t.Errorf("%s: %+v", url, o)
		}
	}
}

func TestURLsThatAreRefused(t *testing.T) {
	for _, url := range []string{"", "localhost:6379", "http://u:s3cret@localhost", "redis://u:s3cret@a:1,b:2/3", "redis://u:s3cret@host:port", "redis://u:s3cret@host/x", "redis://u:s3cret@h%zz/"} {
		o, err := parseURL(url)
		if err == nil {
			t.Errorf("%q is taken: %+v", url, o)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the password is told: %v", err)
		}
	}
}

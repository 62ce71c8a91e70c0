package config

import (
	"fmt"
	"net/url"
	"strings"

	"weir/internal/yamlfile"
)

// Store configures the store of windows that are not in memory.
type Store struct {
	// Redis is the server's URL, redis://host:6379/0 or rediss:// with TLS; several hosts with commas between them
	// are a Cluster; with ?master=NAME they are Sentinels. Default: none, and the store is on the disk, under the data folder.
	Redis string `yaml:"redis"`
	// User is our name. Default: Redis's default user.
	User string `yaml:"user"`
	// PasswordFile contains only the password. Default: no password.
	PasswordFile string `yaml:"password_file"`
}

// FromYAML reads the word disk, or a map.
func (s *Store) FromYAML(v yamlfile.Value) {
	if text, ok := v.Scalar(); ok {
		if text != "disk" {
			v.Faultf("write disk, or {redis: \"redis://host:6379/0\"}", "the store %q is not known", text)
		}
		*s = Store{}
		return
	}

	// redis has no methods, or Decode would call FromYAML again.
	type redis Store
	if !v.Decode((*redis)(s)) {
		return
	}
	if s.Redis == "" {
		v.Faultf("write disk, or {redis: \"redis://host:6379/0\"}", "the store names no Redis")
		return
	}

	if err := checkRedis(s.Redis); err != nil {
		v.Key("redis").Fault(err)
	} else if s.PasswordFile != "" && strings.HasPrefix(s.Redis, "redis://") {
		warnOfPassword(v.Key("redis"), s.Redis, "redis://", "write rediss:// if the server has it")
	}
}

// checkRedis returns what is wrong with a Redis URL. The standard library does not read several hosts.
func checkRedis(text string) error {
	if at := strings.LastIndex(text, "@"); at >= 0 { // checked first, so that no other message shows the password
		after, _, _ := strings.Cut(text[at+1:], "?")
		return fmt.Errorf("the URL contains a user or password, which logs would show; write redis://%s and set user and password_file next to it", after)
	}
	text, query, _ := strings.Cut(text, "?") // no message shows the query: it may have a password
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || (scheme != "redis" && scheme != "rediss") {
		return fmt.Errorf("%q is not the address of a Redis; write it as redis://host:6379/0, or rediss:// for TLS", text)
	}

	values, err := url.ParseQuery(query)
	for name := range values {
		if name != "master" {
			err = fmt.Errorf("unknown %s", name)
		}
	}

	if err != nil {
		return fmt.Errorf("%q has an unknown query; only ?master=NAME is possible, and a password in password_file next to it", text)
	}
	hosts, database, _ := strings.Cut(rest, "/")
	if strings.Trim(database, "0123456789") != "" || len(database) > 5 {
		return fmt.Errorf("%q is not the number of a database; write it as redis://host:6379/0", database)
	}

	for host := range strings.SplitSeq(hosts, ",") {
		if err := checkHostPort(host, "6379"); err != nil {
			return err
		}
	}

	return nil
}

package config

import (
	"strings"

	"weir/internal/yamlfile"
)

// A RedisStream configures a source that reads streams of a Redis.
type RedisStream struct {
	// URL is the server's, in the forms of store.redis.
	URL string `yaml:"url"`
	// Keys are those of the streams. Each is a log of its own.
	Keys Texts `yaml:"keys"`
	// Field is the field of an entry that contains the line. Default: the only field of an entry; an entry with several is
	// read as a JSON object.
	Field string `yaml:"field"`
	// User is our name. Default: Redis's default user.
	User string `yaml:"user"`
	// PasswordFile contains only the password. Default: no password.
	PasswordFile string `yaml:"password_file"`
}

func (s *RedisStream) given() bool { return s.URL != "" || len(s.Keys) > 0 }

// Validate checks the URL and the keys.
func (s *RedisStream) Validate(v yamlfile.Value) {
	const example = `{url: "redis://host:6379/0", keys: [logs]}`
	switch {
	case v.Key("url").Faulty() || v.Key("keys").Faulty():
	case s.URL == "":
		v.Faultf("write redis_stream: "+example, "the source names no Redis")
	case len(s.Keys) == 0:
		v.Faultf("write redis_stream: "+example, "the source names no stream")
	default:
		if err := checkRedis(s.URL); err != nil {
			v.Key("url").Fault(err)
		} else if s.PasswordFile != "" && strings.HasPrefix(s.URL, "redis://") {
			warnOfPassword(v.Key("url"), s.URL, "redis://", "write rediss:// if the server has it")
		}
	}
	if s.User != "" && s.PasswordFile == "" {
		v.Key("user").Faultf("add password_file, a file that contains the password", "user %s has no password", s.User)
	}
}

// checkRedisStream checks the source's settings for TLS.
func (s *Source) checkRedisStream(v yamlfile.Value) {
	if s.TLS.On && strings.HasPrefix(s.RedisStream.URL, "redis://") {
		v.Key("tls").Faultf("write url: \"rediss://…\"", "tls is given, but redis:// is not encrypted")
	}
}

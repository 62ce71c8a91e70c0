package config

import (
	"strings"

	"weir/internal/yamlfile"
	"weir/pkg/inline/mysql"
	"weir/pkg/inline/postgres"
)

// An InlineStore is where enforcers count inline rules together: a Redis, PostgreSQL or MySQL. Without any it is the
// memory of each.
type InlineStore struct {
	// Redis is the server's URL, in the forms of store.redis. Default: none.
	Redis string `yaml:"redis"`
	// Layout is packed, or sorted_set: then Redis also has a sorted set of what each key has counted. Default: packed.
	Layout string `yaml:"layout"`
	// Postgres is the database's URL, postgres://host:5432/database, with parameters as sslmode=verify-full. Default: none.
	Postgres string `yaml:"postgres"`
	// MySQL is the data source name of a database in MariaDB or MySQL, tcp(host:3306)/database, with parameters as
	// tls=true. Default: none.
	MySQL string `yaml:"mysql"`
	// User is our name. Default: the server's, or that of the environment.
	User string `yaml:"user"`
	// PasswordFile contains only the password. Default: no password.
	PasswordFile string `yaml:"password_file"`
	// Connections is how many connections to PostgreSQL or MySQL are open at most. Default: 16.
	Connections int `yaml:"connections"`
	// Create makes the tables in PostgreSQL or MySQL if they are missing. Default: true.
	Create bool `yaml:"create"`
	// Isolation is that of transactions in PostgreSQL: read committed or serializable. Default: read committed.
	Isolation string `yaml:"isolation"`
}

func defaultInlineStore() InlineStore {
	return InlineStore{Connections: 16, Create: true, Isolation: readCommitted, Layout: packed}
}

const (
	readCommitted = "read committed"
	serializable  = "serializable"

	packed    = "packed"
	sortedSet = "sorted_set"

	mostConnections = 1000
)

// Serializable reports whether transactions in PostgreSQL are serializable.
func (s *InlineStore) Serializable() bool { return s.Isolation == serializable }

// SortedSets reports whether Redis also has a sorted set of what each key has counted.
func (s *InlineStore) SortedSets() bool { return s.Layout == sortedSet }

// Name is where the store is, without secrets; empty for memory.
func (s *InlineStore) Name() string { return s.Redis + s.Postgres + s.MySQL }

const writeInlineStore = `write memory, {redis: "redis://host:6379/0"}, {postgres: "postgres://host:5432/database"}, or {mysql: "tcp(host:3306)/database"}`

// FromYAML reads the word memory, or a map.
func (s *InlineStore) FromYAML(v yamlfile.Value) {
	*s = defaultInlineStore()
	if text, ok := v.Scalar(); ok {
		if text != "memory" {
			v.Faultf(writeInlineStore, "the store %q is not known", text)
		}
		return
	}

	type plain InlineStore // without methods, or Decode would call FromYAML again
	if !v.Decode((*plain)(s)) {
		return
	}
	named := 0
	for _, one := range []struct {
		key, address string
		check        func(string) error
	}{{"redis", s.Redis, checkRedis}, {"postgres", s.Postgres, postgres.CheckURL}, {"mysql", s.MySQL, mysql.CheckDSN}} {
		if one.address == "" {
			continue
		}
		if named++; named > 1 {
			v.Key(one.key).Faultf("name one", "the store of inline rules is in two places")
		} else if err := one.check(one.address); err != nil {
			v.Key(one.key).Fault(err)
		} else if s.PasswordFile != "" {
			s.warnOfPassword(v.Key(one.key))
		}
	}
	if named == 0 {
		v.Faultf(writeInlineStore, "the store of inline rules names no Redis, PostgreSQL or MySQL")
	}
	if place := v.Key("connections"); !place.Faulty() && (s.Connections < 1 || s.Connections > mostConnections) {
		place.Faultf("write 1 to 1000", "%d connections are not possible", s.Connections)
	}
	switch place := v.Key("layout"); {
	case place.Faulty() || s.Layout == packed:
	case s.Layout != sortedSet:
		place.Faultf("write packed, or sorted_set", "the layout %q is not known", s.Layout)
	case s.Redis == "":
		place.Faultf("remove it", "only a store in Redis has sorted sets")
	}
	if place := v.Key("isolation"); !place.Faulty() && s.Isolation != readCommitted && s.Isolation != serializable {
		place.Faultf("write read committed, or serializable", "the isolation %q is not known", s.Isolation)
	}
}

// warnOfPassword warns of a password that is sent to another machine without TLS.
func (s *InlineStore) warnOfPassword(v yamlfile.Value) {
	if strings.HasPrefix(s.Redis, "redis://") {
		warnOfPassword(v, s.Redis, "redis://", "write rediss:// if the server has it")
	}
	if host := postgres.Plain(s.Postgres); s.Postgres != "" && host != "" && !loopbackHost(host) {
		v.Warnf("write sslmode=verify-full if the server has TLS", "the secret may be sent to %s without encryption", host)
	}
	if host := mysql.Plain(s.MySQL); s.MySQL != "" && host != "" && !loopbackHost(host) {
		v.Warnf("write tls=true if the server has TLS", "the secret may be sent to %s without encryption", host)
	}
}

package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/duration"
	"weir/internal/nearest"
	"weir/internal/yamlfile"
)

// Kafka's bounds of a session, unless its operator has chosen others.
const (
	shortestSession = duration.Duration(6 * time.Second)
	longestSession  = duration.Duration(30 * time.Minute)
)

// Kafka is the broker between the parts.
type Kafka struct {
	// Brokers are the first brokers to connect to, [host:9092, …], or embedded: no Kafka, weir run keeps its topics in
	// its store. Default: embedded.
	Brokers Brokers `yaml:"brokers"`
	// TLS encrypts the connections: true for the system's roots, or {ca, cert, key}. Default: false.
	TLS ClientTLS `yaml:"tls"`
	// SASL is our user. Default: no user.
	SASL SASL `yaml:"sasl"`
	// Prefix stands before the names of topics and groups; a second installation on the same brokers is a second
	// prefix. Default: weir.
	Prefix string `yaml:"prefix"`
	// Session is how long a process may send no heartbeat until its partitions go to others. Default: 9s.
	Session duration.Duration `yaml:"session"`
	// Create makes missing topics; false only checks them and reports the ones that an administrator has to create.
	// Default: true.
	Create bool `yaml:"create"`
	// Hits is the topic of hits. Default: 16 partitions, without brokers 2; 48h.
	Hits Topic `yaml:"hits"`
	// Blocklist is the compacted topic of the list; it has one partition.
	Blocklist BlocklistTopic `yaml:"blocklist"`
	// Events is the topic of every change of the list, never compacted. Default: 4 partitions, without
	// brokers 1; 30d.
	Events Topic `yaml:"events"`
	// Evidence is the topic of the last requests that counted for entries. Default: 4 partitions, without brokers 1; 7d.
	Evidence Topic `yaml:"evidence"`
	// Attempts is the topic of attempts at inline rules, if inline.history keeps them. Default: 4 partitions, without
	// brokers 1; inline.history.
	Attempts Topic `yaml:"attempts"`
}

// Validate checks the prefix, and warns of settings for connections where there are none, and of a secret in clear.
func (k *Kafka) Validate(v yamlfile.Value) {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if strings.Trim(k.Prefix, letters) != "" || len(k.Prefix) > 100 {
		v.Key("prefix").Faultf("use at most 100 letters, digits, dots, dashes and underscores", "the prefix %q cannot begin a topic's name", k.Prefix)
	}
	if k.Session < shortestSession || k.Session > longestSession {
		v.Key("session").Faultf("use 6s to 30m", "a session of %v is not what Kafka allows", k.Session)
	}
	if len(k.Brokers) > 0 {
		k.SASL.warnOfClear(v, k.Brokers, k.TLS.On)
		return
	}
	for _, key := range []string{"tls", "sasl", "session"} {
		if v.Has(key) && (key != "tls" || k.TLS.On) {
			v.Key(key).Warnf("name the brokers, or leave it out", "%s is not used without kafka.brokers", key)
		}
	}
}

// fewerInProcess lowers the default number of partitions for a single process, where each has a cost and none is needed
// for another machine.
func (k *Kafka) fewerInProcess(v yamlfile.Value) {
	if len(k.Brokers) > 0 {
		return
	}
	if !v.Key("hits").Has("partitions") {
		k.Hits.Partitions = 2
	}
	if !v.Key("events").Has("partitions") {
		k.Events.Partitions = 1
	}
	if !v.Key("evidence").Has("partitions") {
		k.Evidence.Partitions = 1
	}
	if !v.Key("attempts").Has("partitions") {
		k.Attempts.Partitions = 1
	}
}

// Brokers are addresses host:port; empty means no Kafka.
type Brokers []string

// FromYAML reads the word embedded, one address, or a list.
func (b *Brokers) FromYAML(v yamlfile.Value) {
	if text, ok := v.Scalar(); ok && text == "embedded" {
		*b = nil
		return
	}

	addresses := scalarOrList(v)
	*b = nil
	for _, element := range addresses {
		address := element.Text()
		if strings.Contains(address, "@") { // checked first, so that no other message shows the password
			element.Faultf("write only host:9092, and set sasl with user and password_file", "the address contains a user or password, which logs would show")
			continue
		}
		if err := checkHostPort(address, "9092"); err != nil {
			element.Fault(err)
			continue
		}
		*b = append(*b, address)
	}
}

// scalarOrList returns a list's elements, or a single value as a list of one.
func scalarOrList(v yamlfile.Value) []yamlfile.Value {
	if _, ok := v.Scalar(); ok {
		return []yamlfile.Value{v}
	}
	elements, ok := v.List()
	if !ok || len(elements) == 0 {
		v.Faultf("write one, or [one, another]", "%s where a value or a list is expected", v.Found())
	}
	return elements
}

// checkHostPort returns what is wrong with an address to connect to. usual is the port that messages suggest.
func checkHostPort(address, usual string) error {
	host, port, err := net.SplitHostPort(address)
	switch {
	case err != nil && !strings.Contains(address, ":"):
		return fmt.Errorf("%q has no port; write %s:%s", address, address, usual)
	case err != nil:
		return fmt.Errorf("%q is not a host and port; write it as host:%s, an IPv6 address in brackets", address, usual)
	case host == "":
		return fmt.Errorf("%q names no host; write it as host:%s", address, usual)
	}
	return checkPort(port)
}

func checkPort(port string) error {
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return fmt.Errorf("%q is not a port; write a number from 1 to 65535", port)
	}
	return nil
}

// A Topic contains the settings of a topic.
type Topic struct {
	// Partitions is the number of partitions. It cannot change later.
	Partitions int `yaml:"partitions"`
	// Retention is how long records are kept.
	Retention duration.Duration `yaml:"retention"`
	// Replication is how many brokers keep each record. Default: 0, the broker's own default.
	Replication int `yaml:"replication"`
}

// Validate checks that the numbers are possible.
func (t *Topic) Validate(v yamlfile.Value) {
	if place := v.Key("partitions"); !place.Faulty() && (t.Partitions < 1 || t.Partitions > 10_000) {
		place.Faultf("write a number from 1 to 10000", "%d partitions are not possible", t.Partitions)
	}
	if place := v.Key("retention"); !place.Faulty() && t.Retention < minutes(1) {
		place.Faultf("write 1m or more", "a retention of %s is too short", t.Retention)
	}
	checkReplication(v, t.Replication)
}

// A BlocklistTopic contains the settings of the blocklist's topic.
type BlocklistTopic struct {
	// Replication is how many brokers keep each record. Default: 0, the broker's own default.
	Replication int `yaml:"replication"`
}

// Validate checks that the number is possible.
func (t *BlocklistTopic) Validate(v yamlfile.Value) { checkReplication(v, t.Replication) }

func checkReplication(v yamlfile.Value, n int) {
	if n < 0 || n > 100 {
		v.Key("replication").Faultf("write how many brokers keep each record, or 0 for the broker's default", "a replication of %d is not possible", n)
	}
}

// ClientTLS configures our connections to servers.
type ClientTLS struct {
	// On is true when connections are encrypted.
	On bool
	// CA is the file of the roots that sign the servers' certificates. Default: the system's roots.
	CA string `yaml:"ca"`
	// Cert is the file of the certificate that we show. Default: none.
	Cert string `yaml:"cert"`
	// Key is the file of the certificate's key.
	Key string `yaml:"key"`
}

// FromYAML reads true, false or a map of files.
func (t *ClientTLS) FromYAML(v yamlfile.Value) {
	if _, ok := v.Scalar(); ok {
		v.Decode(&t.On)
		return
	}
	type files ClientTLS
	t.On = v.Decode((*files)(t))
	if (t.Cert == "") != (t.Key == "") {
		v.Faultf("give both or neither", "only one of cert and key is given")
	}
}

// SASL is a user and a password for the brokers, or a token.
type SASL struct {
	// Mechanism is plain, scram-sha-256, scram-sha-512 or oauthbearer. Default: none, and then no user is named.
	Mechanism string `yaml:"mechanism"`
	// User is our name.
	User string `yaml:"user"`
	// PasswordFile contains only the password; the line break at its end is not a part of it.
	PasswordFile string `yaml:"password_file"`
	// TokenFile contains only the token of oauthbearer, instead of a user and a password.
	TokenFile string `yaml:"token_file"`
}

// Validate checks that nothing is missing.
func (s *SASL) Validate(v yamlfile.Value) {
	mechanisms := []string{"plain", "scram-sha-256", "scram-sha-512", "oauthbearer"}
	if *s == (SASL{}) {
		return
	}

	if s.Mechanism == "oauthbearer" {
		s.validateToken(v)
		return
	}
	if s.TokenFile != "" {
		v.Key("token_file").Faultf("write mechanism: oauthbearer, or remove token_file", "only oauthbearer has a token")
	}
	if !slices.Contains(mechanisms, s.Mechanism) {
		v.Key("mechanism").Faultf(nearest.Suggest(s.Mechanism, mechanisms, "write one of "), "the mechanism %q is not known", s.Mechanism)
	}
	if s.User == "" {
		v.Key("user").Faultf("add user", "SASL names no user")
	}
	if s.PasswordFile == "" {
		v.Key("password_file").Faultf("add password_file, a file that contains the password", "SASL has no password")
	}
}

// warnOfClear warns of a password or a token that everyone on the way to the brokers of a section can read.
func (s *SASL) warnOfClear(section yamlfile.Value, brokers Brokers, encrypted bool) {
	readable := s.Mechanism == "plain" || s.Mechanism == "oauthbearer"
	remote := slices.ContainsFunc(brokers, func(broker string) bool { return !loopbackHost(broker) })
	if readable && remote && !encrypted {
		section.Key("sasl").Warnf("write tls: true", "%s sends its secret to the brokers without encryption", s.Mechanism)
	}
}

func (s *SASL) validateToken(v yamlfile.Value) {
	if s.TokenFile == "" {
		v.Key("token_file").Faultf("add token_file, a file that contains the token", "SASL has no token")
	}
	if s.User != "" || s.PasswordFile != "" {
		v.Faultf("remove user and password_file", "the token of oauthbearer names the user")
	}
}

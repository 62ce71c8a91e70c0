package kafka_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/test/wait"
)

// wrong is a configuration that cannot work, and the expected error.
type wrong struct {
	config kafka.Config
	kind   error
	says   string
}

func passwordFile(t *testing.T, password string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// webServer answers each connection as nginx does, and returns its address.
func webServer(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\nServer: nginx\r\nConnection: close\r\n\r\n<html>400 Bad Request</html>\r\n"))
			conn.Close()
		}
	}()
	return listener.Addr().String()
}

// TestTruth: errors that kafka-go calls "topic not found" have a true cause, in every kind of call.
func TestTruth(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Shared(t)
	good, bad := passwordFile(t, kafkatest.Password), passwordFile(t, "guessed")
	ours := &kafka.TLS{CA: cluster.Certificates.Authority}
	login := func(mechanism, user, file string) *kafka.SASL {
		return &kafka.SASL{Mechanism: mechanism, User: user, PasswordFile: file}
	}
	at := cluster.Listener
	cases := map[string]wrong{
		"a web server":              {kafka.Config{Brokers: []string{webServer(t)}}, topic.ErrUnreachable, `is no broker of Kafka: it answers "HTTP/1.1 400"; look at kafka.brokers`},
		"wrong password, PLAIN":     {kafka.Config{Brokers: at("SASL"), SASL: login("plain", kafkatest.User, bad)}, topic.ErrLogin, `the brokers refuse user "weir": wrong password, or no such user for plain`},
		"wrong password, SCRAM-256": {kafka.Config{Brokers: at("SASL"), SASL: login("scram-sha-256", kafkatest.User, bad)}, topic.ErrLogin, `the brokers refuse user "weir": wrong password, or no such user for scram-sha-256`},
		"wrong password, SCRAM-512": {kafka.Config{Brokers: at("SASLTLS"), TLS: ours, SASL: login("SCRAM-SHA-512", kafkatest.User, bad)}, topic.ErrLogin, `the brokers refuse user "weir": wrong password, or no such user for SCRAM-SHA-512`},
		"wrong user":                {kafka.Config{Brokers: at("SASL"), SASL: login("scram-sha-512", "wier", good)}, topic.ErrLogin, `the brokers refuse user "wier": wrong password, or no such user for scram-sha-512`},
		"a token that is none":      {kafka.Config{Brokers: at("SASL"), SASL: &kafka.SASL{Mechanism: "oauthbearer", TokenFile: bad}}, topic.ErrLogin, "the brokers refuse the token in " + bad + ": it may be wrong or expired"},
		"a token that expired":      {kafka.Config{Brokers: at("SASLTLS"), TLS: ours, SASL: &kafka.SASL{Mechanism: "oauthbearer", TokenFile: passwordFile(t, kafkatest.Token(-time.Hour))}}, topic.ErrLogin, "it may be wrong or expired"},
		"no login":                  {kafka.Config{Brokers: at("SASL")}, topic.ErrUnreachable, "closed the connection at the first request; it may want a login (kafka.sasl)"},
		"a login too many":          {kafka.Config{Brokers: at("PLAINTEXT"), SASL: login("plain", kafkatest.User, good)}, topic.ErrLogin, "the brokers want no login on this port: remove kafka.sasl, or use their port for it"},
		"no TLS":                    {kafka.Config{Brokers: at("TLS")}, topic.ErrTLS, "broker " + at("TLS")[0] + " speaks TLS: set kafka.tls"},
		"no TLS, with a login":      {kafka.Config{Brokers: at("SASLTLS"), SASL: login("plain", kafkatest.User, good)}, topic.ErrTLS, "broker " + at("SASLTLS")[0] + " speaks TLS: set kafka.tls"},
		"TLS too many":              {kafka.Config{Brokers: at("PLAINTEXT"), TLS: ours}, topic.ErrTLS, "does not speak TLS: remove kafka.tls, or use its port for TLS"},
		"a stranger's certificate":  {kafka.Config{Brokers: at("TLS"), TLS: &kafka.TLS{CA: cluster.Certificates.Stranger}}, topic.ErrTLS, "the certificate of broker " + at("TLS")[0] + " is not accepted: x509: certificate signed by unknown authority"},
		"no certificate of ours":    {kafka.Config{Brokers: at("MUTUAL"), TLS: ours}, topic.ErrTLS, "wants a client's certificate: set kafka.tls.cert and kafka.tls.key"},
		"away":                      {kafka.Config{Brokers: []string{"127.0.0.1:1"}}, topic.ErrUnreachable, "broker 127.0.0.1:1 cannot be reached: connection refused"},
		"a name that nobody has":    {kafka.Config{Brokers: []string{"kafka.invalid:9092"}}, topic.ErrUnreachable, "broker kafka.invalid:9092 cannot be reached: "},
		"no such topic":             {kafka.Config{Brokers: at("PLAINTEXT")}, topic.ErrNoTopic, "the topic does not exist"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { everyCallTells(t, c) })
	}
	t.Run("and these work", func(t *testing.T) {
		mutual := &kafka.TLS{CA: cluster.Certificates.Authority, Cert: cluster.Certificates.Client, Key: cluster.Certificates.ClientKey}
		for _, config := range []kafka.Config{
			{Brokers: at("TLS"), TLS: ours}, {Brokers: at("MUTUAL"), TLS: mutual},
			{Brokers: at("SASL"), SASL: login("plain", kafkatest.User, good)},
			{Brokers: at("SASL"), SASL: login("scram-sha-256", kafkatest.User, good)},
			{Brokers: at("SASLTLS"), TLS: ours, SASL: login("scram-sha-512", kafkatest.User, good)},
			{Brokers: at("SASLTLS"), TLS: ours, SASL: &kafka.SASL{Mechanism: "oauthbearer", TokenFile: passwordFile(t, kafkatest.Token(time.Hour))}},
		} {
			config.Create = true
			wholeCircle(t, config)
		}
	})
}

// everyCallTells makes each kind of call and looks for the cause in its error, or in the log.
func everyCallTells(t *testing.T, c wrong) {
	var log lines
	c.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	client := kafkatest.Client(t, c.config)
	ctx := within(t, time.Minute)
	returned := map[string]error{}
	if c.kind != topic.ErrNoTopic {
		_, returned["Cluster"] = client.Cluster(ctx)
		returned["EnsureTopics"] = client.EnsureTopics(ctx, topic.Topic{Name: "absent", Partitions: 1})
	}
	_, returned["Offsets"] = client.Offsets(ctx, "absent")
	_, returned["Fetch"] = client.NewReader("absent", 0, 0).Fetch(ctx)
	for call, err := range returned {
		if err == nil || !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || errors.Is(err, topic.ErrPermanent) {
			t.Errorf("%s says %q", call, err)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s says more than a line", call)
		}
	}
	producer := client.OpenProducer(topic.AppenderConfig{Topic: "absent", Partitions: 1})
	producer.Send(ctx, topic.Message{})
	joining, leave := context.WithCancel(ctx)
	left := make(chan error)
	go func() {
		left <- client.RunGroup(joining, topic.Group{Name: "g", Topics: map[string]int{"absent": 0}}, nil)
	}()
	unquoted := strings.ReplaceAll(c.says, `"`, `\"`)
	wait.Until(t, "the log to say why nothing is produced", log.has("operation=produce", unquoted))
	wait.Until(t, "the log to say why the group is not joined", log.has("operation=group", unquoted))
	leave()
	if err := <-left; err != nil {
		t.Errorf("RunGroup says %q", err)
	}
	impatient, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	producer.Close(impatient)
}

// wholeCircle produces, reads, and joins a group.
func wholeCircle(t *testing.T, config kafka.Config) {
	t.Helper()
	client := kafkatest.Client(t, config)
	name := newTopic(t, client, 1)
	producer := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: 1})
	send(t, producer, topic.Message{Value: []byte("once round")})
	if err := producer.Close(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if records := readAll(t, client, name, 0, 0); len(records) != 1 {
		t.Fatalf("%d records", len(records))
	}
	ctx, leave := context.WithCancel(within(t, time.Minute))
	err := client.RunGroup(ctx, topic.Group{Name: name, Topics: map[string]int{name: 1}}, func(ctx context.Context, claim *topic.Claim) error {
		defer leave()
		return claim.Commit(ctx, topic.Commit{Offset: 1})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The embedded broker's implementation returns the same errors, as far as it can be made to.
func TestTruthOnFake(t *testing.T) {
	certificates, err := kafkatest.NewCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(certificates.Client, certificates.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	_, config := fake(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}), kfake.EnableSASL(),
		kfake.Superuser("SCRAM-SHA-512", "weir", "right"))
	right := &kafka.SASL{Mechanism: "SCRAM-SHA-512", User: "weir", PasswordFile: passwordFile(t, "right")}
	guessed := &kafka.SASL{Mechanism: "SCRAM-SHA-512", User: "weir", PasswordFile: passwordFile(t, "guessed")}
	ours := &kafka.TLS{CA: certificates.Authority}
	for name, c := range map[string]wrong{
		"wrong password":      {kafka.Config{TLS: ours, SASL: guessed}, topic.ErrUnreachable, `closed the connection during the login; it may refuse user "weir"`},
		"no TLS":              {kafka.Config{SASL: right}, topic.ErrUnreachable, "closed the connection without an answer; it may want TLS (kafka.tls)"},
		"unknown mechanism":   {kafka.Config{TLS: ours, SASL: &kafka.SASL{Mechanism: "plain", User: "weir", PasswordFile: right.PasswordFile}}, topic.ErrUnreachable, "closed the connection during the login"},
		"stranger's":          {kafka.Config{TLS: &kafka.TLS{CA: certificates.Stranger}, SASL: right}, topic.ErrTLS, "is not accepted"},
		"all right, no topic": {kafka.Config{TLS: ours, SASL: right}, topic.ErrNoTopic, "the topic does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Brokers = config.Brokers
			everyCallTells(t, c)
		})
	}
}

func TestConfigReportsAllErrors(t *testing.T) {
	_, err := kafka.Open(kafka.Config{
		Brokers: []string{"no-port", ":9092"},
		TLS:     &kafka.TLS{CA: "/nowhere/ca.pem"},
		SASL:    &kafka.SASL{Mechanism: "gssapi", User: "weir", PasswordFile: passwordFile(t, "x")},
	})
	for _, want := range []string{`kafka.brokers: "no-port" is not host:port`, `kafka.brokers: ":9092" is not host:port`, "kafka.tls: ca: ", "kafka.sasl: mechanism: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	const section = "collector.sources.0"
	for want, login := range map[string]*kafka.SASL{
		section + ".sasl: password_file: open /nowhere/p: ": {Mechanism: "plain", User: "weir", PasswordFile: "/nowhere/p"},
		section + ".sasl: user: no user is named":           {Mechanism: "plain"},
		section + ".sasl: token_file: open /nowhere/t: ":    {Mechanism: "oauthbearer", TokenFile: "/nowhere/t"},
	} {
		if _, err := kafka.Open(kafka.Config{Brokers: []string{"k:9092"}, Section: section, SASL: login}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if _, err := kafka.Open(kafka.Config{}); err == nil || !strings.Contains(err.Error(), "brokers: none are named") {
		t.Errorf("no brokers: %v", err)
	}
	if got := (kafka.Config{Prefix: "weir."}).Name("hits"); got != "weir.hits" {
		t.Errorf("Name is %s", got)
	}
}

// A corrected password is used without a restart.
func TestPasswordIsReadAgain(t *testing.T) {
	_, config := fake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "weir", "right"))
	file := passwordFile(t, "wrong")
	config.SASL = &kafka.SASL{Mechanism: "plain", User: "weir", PasswordFile: file}
	client := kafkatest.Client(t, config)
	if _, err := client.Cluster(t.Context()); err == nil {
		t.Fatalf("with a wrong password: %v", err)
	}
	if err := os.WriteFile(file, []byte("right"), 0o600); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the new password to be used", func() bool {
		cluster, err := client.Cluster(t.Context())
		return err == nil && fmt.Sprint(cluster.Brokers) == fmt.Sprint(config.Brokers)
	})
}

// Brokers end a connection with its token. Records are still written and read, with the token that the file has then.
func TestTokensThatExpire(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.Shared(t).Listener("SASL")
	file := passwordFile(t, kafkatest.Token(time.Hour))
	client := kafkatest.Client(t, kafka.Config{Brokers: brokers, Create: true, SASL: &kafka.SASL{Mechanism: "oauthbearer", TokenFile: file}})
	name := newTopic(t, client, 1)
	client.Close()
	valid := func(d time.Duration) {
		if err := os.WriteFile(file, []byte(kafkatest.Token(d)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	valid(5 * time.Second)
	client = kafkatest.Client(t, kafka.Config{Brokers: brokers, SASL: &kafka.SASL{Mechanism: "oauthbearer", TokenFile: file}})
	producer := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: 1})
	reader := client.NewReader(name, 0, 0)
	read, sent := 0, 0
	fetch := func() {
		send(t, producer, topic.Message{Value: []byte("one")})
		sent++
		wait.Until(t, "it is read", func() bool {
			records, err := reader.Fetch(within(t, time.Minute))
			if err != nil {
				t.Log(err)
			}
			read += len(records)
			return read == sent
		})
	}
	fetch()
	valid(time.Hour)
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
		fetch()
	}
	if err := producer.Close(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
}

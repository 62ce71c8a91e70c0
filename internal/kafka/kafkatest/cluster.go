package kafkatest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"weir/internal/kafka"
	"weir/internal/replace"
)

// User and Password are valid on the listeners with SASL, with PLAIN and both kinds of SCRAM.
const User, Password = "weir", "a weir's secret"

// Token is one for User that the listeners with SASL accept from now on for a while, with OAUTHBEARER. They check no
// signature.
func Token(valid time.Duration) string {
	part := base64.RawURLEncoding.EncodeToString
	now := time.Now()
	return part([]byte(`{"alg":"none"}`)) + "." + part(fmt.Appendf(nil, `{"sub":%q,"iat":%d,"exp":%d}`, User, now.Unix(), now.Add(valid).Unix())) + "."
}

// Options describe the cluster to start.
type Options struct {
	Brokers   int               // 1 (also when 0) or 3
	Secure    bool              // also listen with TLS, with TLS and client certificates, with SASL, and with both
	Guarded   bool              // User has no right but those that Permit gives; of a secure one
	Settings  map[string]string // of the brokers, in addition to ours
	MemoryMiB int               // heap of each broker; 0 is 512, with three brokers 384
	Measured  bool              // compile Kafka as well as Java can: twice the CPU until it is open, half afterwards
}

// A Cluster is a running Apache Kafka on free loopback ports, its data in a temporary folder.
type Cluster struct {
	Certificates Certificates // of a secure one

	options Options
	folder  string
	jars    string
	id      string
	brokers []*broker
	ports   []port // of all
}

type broker struct {
	properties string          // path of its file
	ports      map[string]port // by the listener's name
	running    *process        // nil when it is stopped
}

// listeners are those of a secure broker, by name, with their protocols.
var listeners = map[string]string{"TLS": "SSL", "MUTUAL": "SSL", "SASL": "SASL_PLAINTEXT", "SASLTLS": "SASL_SSL"}

// Start obtains Kafka, formats its folders, starts the brokers and waits until they know one another.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	jars, err := Obtain(ctx)
	if err != nil {
		return nil, err
	}

	folder, err := os.MkdirTemp("", "weir-kafka-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for Kafka: %w", err)
	}

	o.Brokers = max(o.Brokers, 1)
	c := &Cluster{options: o, folder: folder, jars: jars, id: newClusterID()}
	if err := c.start(ctx); err != nil {
		c.Stop()
		return nil, err
	}

	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if c.options.Secure {
		certificates, err := NewCertificates(c.folder)
		if err != nil {
			return err
		}
		c.Certificates = certificates
	}

	// All ports first: every broker's properties name the controllers of all.
	if err := c.layOut(); err != nil {
		return err
	}
	for i := range c.brokers {
		if err := c.format(ctx, i); err != nil {
			return err
		}
	}

	for i := range c.brokers {
		if err := c.StartBroker(i); err != nil {
			return err
		}
	}

	return c.Ready(ctx)
}

// Addresses are those of the brokers' listeners without TLS and SASL.
func (c *Cluster) Addresses() []string { return c.Listener("PLAINTEXT") }

// Listener returns the brokers' addresses for the listener of that name: PLAINTEXT, and on a secure cluster TLS, MUTUAL
// (it requires a client's certificate), SASL and SASLTLS.
func (c *Cluster) Listener(name string) []string {
	var addresses []string
	for _, b := range c.brokers {
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", b.ports[name].number))
	}
	return addresses
}

// PID returns the process id of a broker.
func (c *Cluster) PID(broker int) int { return c.brokers[broker].running.pid }

// Kill ends a broker like a loss of power (SIGKILL), and waits for its end.
func (c *Cluster) Kill(broker int) { c.end(broker, syscall.SIGKILL) }

// StopBroker makes a broker hand over its partitions and end (SIGTERM).
func (c *Cluster) StopBroker(broker int) { c.end(broker, syscall.SIGTERM) }

func (c *Cluster) end(broker int, signal syscall.Signal) {
	if running := c.brokers[broker].running; running != nil {
		running.end(signal, 20*time.Second)
		c.brokers[broker].running = nil
	}
}

// Pause suspends a broker (SIGSTOP).
func (c *Cluster) Pause(broker int) error { return syscall.Kill(c.PID(broker), syscall.SIGSTOP) }

// Resume continues a broker that Pause suspended.
func (c *Cluster) Resume(broker int) error { return syscall.Kill(c.PID(broker), syscall.SIGCONT) }

// startsFast are the options of a JVM that runs for a short time: it does not optimize, and does not verify classes, which
// takes a quarter of the processor time of a start.
var startsFast = []string{"-XX:TieredStopAtLevel=1", "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"}

// StartBroker starts a broker that was killed or stopped, with its data and ports. It does not wait: Ready does.
func (c *Cluster) StartBroker(broker int) error {
	b := c.brokers[broker]
	memory := c.options.MemoryMiB
	if memory == 0 {
		memory = 512
		if len(c.brokers) > 1 {
			memory = 384
		}
	}

	// Tests start brokers often and for short, so the JVM has a small heap, unless something is measured.
	arguments := []string{fmt.Sprintf("-Xmx%dm", memory), "-XX:+UseSerialGC"}
	if c.options.Measured {
		arguments = append(arguments, KeepCompilers)
	} else {
		arguments = append(arguments, startsFast...)
	}

	arguments = append(arguments, c.classes()...)
	running, err := startProcess(filepath.Join(c.folder, fmt.Sprintf("broker-%d.out", broker)), "java",
		append(arguments, "kafka.Kafka", b.properties)...)
	if err != nil {
		return fmt.Errorf("starting broker %d: %w", broker, err)
	}

	b.running = running
	return nil
}

func (c *Cluster) classes() []string {
	return []string{"-Dlog4j2.configurationFile=" + c.logging(), "-cp", filepath.Join(c.jars, "*")}
}

// Stop kills all brokers and removes their data.
func (c *Cluster) Stop() {
	for i := range c.brokers {
		c.Kill(i)
	}
	for _, p := range c.ports {
		p.release()
	}
	os.RemoveAll(c.folder)
}

// Ready waits until all running brokers are known and every partition answers.
func (c *Cluster) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	client, err := kafka.Open(kafka.Config{Brokers: c.Addresses()})
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		err := c.ready(ctx, client)
		if err == nil || errors.Is(err, errBrokerEnded) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for Kafka: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

var errBrokerEnded = errors.New("a broker ended by itself")

func (c *Cluster) ready(ctx context.Context, client *kafka.Client) error {
	var want int
	for i, b := range c.brokers {
		if b.running == nil {
			continue
		}
		want++
		if b.running.ended() {
			return fmt.Errorf("%w: broker %d logged %s", errBrokerEnded, i, c.lastWords(i))
		}
	}

	cluster, err := client.Cluster(ctx)
	if err != nil {
		return err
	}
	if len(cluster.Brokers) < want {
		return fmt.Errorf("%d of %d brokers are there", len(cluster.Brokers), want)
	}

	// A broker that was killed leaves partitions without a leader for a moment.
	for _, topic := range cluster.Topics {
		if _, err := client.Offsets(ctx, topic); err != nil {
			return err
		}
	}

	return nil
}

func (c *Cluster) lastWords(broker int) string {
	output, _ := os.ReadFile(filepath.Join(c.folder, fmt.Sprintf("broker-%d.out", broker)))
	lines := bytes.Split(bytes.TrimSpace(output), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-5):], []byte(" | ")))
}

// layOut reserves ports for all brokers and writes their properties.
func (c *Cluster) layOut() error {
	names := []string{"PLAINTEXT", "CONTROLLER"}
	if c.options.Secure {
		names = append(names, slices.Sorted(maps.Keys(listeners))...)
	}

	var voters []string
	for i := range c.options.Brokers {
		ports := map[string]port{}
		for _, name := range names {
			reserved, err := reservePort()
			if err != nil {
				return err
			}
			ports[name], c.ports = reserved, append(c.ports, reserved)
		}
		c.brokers = append(c.brokers, &broker{ports: ports, properties: filepath.Join(c.folder, fmt.Sprintf("broker-%d.properties", i))})
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", i, ports["CONTROLLER"].number))
	}

	if err := os.WriteFile(c.logging(), []byte(logging), 0o644); err != nil {
		return fmt.Errorf("writing Kafka's logging: %w", err)
	}
	for i, b := range c.brokers {
		if err := os.WriteFile(b.properties, c.properties(i, strings.Join(voters, ",")), 0o644); err != nil {
			return fmt.Errorf("writing Kafka's properties: %w", err)
		}
	}

	return nil
}

func (c *Cluster) logging() string { return filepath.Join(c.folder, "log4j2.xml") }

const logging = `<Configuration><Appenders><Console name="out"><PatternLayout pattern="%d %p %c{1}: %m%n"/></Console></Appenders>
<Loggers><Root level="warn"><AppenderRef ref="out"/></Root></Loggers></Configuration>
`

// properties returns the configuration file of broker i. The broker is small and quick: few threads, a cleaner that
// runs often, and a dead broker's partitions move after 3 s.
func (c *Cluster) properties(i int, voters string) []byte {
	b := c.brokers[i]
	replicas := fmt.Sprint(len(c.brokers))
	all := map[string]string{
		"process.roles":                            "broker,controller",
		"node.id":                                  fmt.Sprint(i),
		"controller.quorum.voters":                 voters,
		"controller.listener.names":                "CONTROLLER",
		"inter.broker.listener.name":               "PLAINTEXT",
		"log.dirs":                                 filepath.Join(c.folder, fmt.Sprintf("data-%d", i)),
		"default.replication.factor":               replicas,
		"min.insync.replicas":                      fmt.Sprint((len(c.brokers) + 1) / 2),
		"offsets.topic.replication.factor":         replicas,
		"offsets.topic.num.partitions":             "4",
		"transaction.state.log.replication.factor": replicas,
		"transaction.state.log.min.isr":            "1",
		"group.initial.rebalance.delay.ms":         "0",
		"broker.session.timeout.ms":                "3000",
		"broker.heartbeat.interval.ms":             "500",
		"num.io.threads":                           "2",
		"num.network.threads":                      "2",
		"log.cleaner.backoff.ms":                   "200",
		"log.retention.check.interval.ms":          "500",
		"log.initial.task.delay.ms":                "200",
	}

	protocols := "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
	var addresses []string
	for _, name := range slices.Sorted(maps.Keys(b.ports)) {
		addresses = append(addresses, fmt.Sprintf("%s://127.0.0.1:%d", name, b.ports[name].number))
		if protocol := listeners[name]; protocol != "" {
			protocols += "," + name + ":" + protocol
		}
	}

	all["listeners"] = strings.Join(addresses, ",")
	all["listener.security.protocol.map"] = protocols
	if c.options.Secure {
		maps.Copy(all, c.security())
	}

	if c.options.Guarded {
		maps.Copy(all, guarded)
	}

	// Last, so that a test can change any of them.
	maps.Copy(all, c.options.Settings)
	var file bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&file, "%s=%s\n", name, all[name])
	}

	return file.Bytes()
}

func (c *Cluster) security() map[string]string {
	all := map[string]string{
		"ssl.keystore.type":                    "PEM",
		"ssl.keystore.location":                c.Certificates.brokerKeyPair,
		"ssl.truststore.type":                  "PEM",
		"ssl.truststore.location":              c.Certificates.Authority,
		"listener.name.mutual.ssl.client.auth": "required",
		"sasl.enabled.mechanisms":              "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
	}

	for _, name := range []string{"sasl", "sasltls"} {
		listener := "listener.name." + name + "."
		all[listener+"plain.sasl.jaas.config"] = fmt.Sprintf(
			`org.apache.kafka.common.security.plain.PlainLoginModule required user_%s="%s";`, User, Password)
		all[listener+"oauthbearer.sasl.jaas.config"] = `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`
		all[listener+"oauthbearer.connections.max.reauth.ms"] = "3600000" // a connection ends with its token
		for _, scram := range []string{"scram-sha-256", "scram-sha-512"} {
			all[listener+scram+".sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		}
	}

	return all
}

// format makes the folder of a broker. What Kafka's own tool writes is kept for the next cluster, because the tool takes a
// third as long as the broker's start; only the ids differ. A secure cluster has its users in there too.
func (c *Cluster) format(ctx context.Context, broker int) error {
	folder, kept := filepath.Join(c.folder, fmt.Sprintf("data-%d", broker)), c.jars+".bootstrap"
	if checkpoint, err := os.ReadFile(kept); err == nil && !c.options.Secure {
		properties := fmt.Sprintf("version=1\nnode.id=%d\ncluster.id=%s\ndirectory.id=%s\n", broker, c.id, newClusterID())
		return errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(filepath.Join(folder, checkpointFile), checkpoint, 0o644),
			os.WriteFile(filepath.Join(folder, "meta.properties"), []byte(properties), 0o644))
	}

	arguments := slices.Concat([]string{"-Xmx128m", "-XX:+UseSerialGC"}, startsFast, c.classes())
	arguments = append(arguments, "kafka.tools.StorageTool", "format", "-t", c.id, "-c", c.brokers[broker].properties)
	if c.options.Secure {
		for _, scram := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			arguments = append(arguments, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", scram, User, Password))
		}
	}
	if output, err := exec.CommandContext(ctx, "java", arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("formatting Kafka's folder: %w: %s", err, output)
	}
	if c.options.Secure {
		return nil
	}

	checkpoint, err := os.ReadFile(filepath.Join(folder, checkpointFile))
	if err != nil {
		return fmt.Errorf("reading what formatting wrote: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(kept), "bootstrap-") // several tests may be here at once
	if err != nil {
		return fmt.Errorf("keeping what formatting wrote: %w", err)
	}
	_, err = file.Write(checkpoint)
	return replace.With(file, kept, err)
}

// checkpointFile is the file of a formatted folder that has the versions of Kafka's features, and the first users.
const checkpointFile = "bootstrap.checkpoint"

func newClusterID() string {
	id := make([]byte, 16)
	rand.Read(id)
	id[0] &= 0x7f // an id that began with a dash would read as an option
	return base64.RawURLEncoding.EncodeToString(id)
}

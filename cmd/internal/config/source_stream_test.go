package config_test

import (
	"strings"
	"testing"

	"weir/cmd/internal/config"
)

// Each source of a stream has exactly the given fault, with its place and its remedy.
func TestErrorsOfStreamsHaveTheirPlaces(t *testing.T) {
	for text, want := range map[string]string{
		"collector: {sources: [{redis_stream: {keys: a}}]}":                                                                    `weir.yaml:1:38: the source names no Redis; write redis_stream: {url: "redis://host:6379/0", keys: [logs]}`,
		"collector: {sources: [{redis_stream: {}}]}":                                                                           `weir.yaml:1:38: the source names no Redis; write redis_stream: {url: "redis://host:6379/0", keys: [logs]}`,
		"collector: {sources: [{redis_stream: {url: 'redis://a:1'}}]}":                                                         `weir.yaml:1:38: the source names no stream; write redis_stream: {url: "redis://host:6379/0", keys: [logs]}`,
		"collector: {sources: [{redis_stream: {url: 'redis://u:pw@a:1', keys: a}}]}":                                           `weir.yaml:1:44: the URL contains a user or password, which logs would show; write redis://a:1 and set user and password_file next to it`,
		"collector: {sources: [{redis_stream: {url: 'redis://a:1', keys: a, user: u}}]}":                                       `weir.yaml:1:74: user u has no password; add password_file, a file that contains the password`,
		"collector: {sources: [{redis_stream: {url: 'redis://a:1', keys: a}, tls: true}]}":                                     `weir.yaml:1:74: tls is given, but redis:// is not encrypted; write url: "rediss://…"`,
		"collector: {sources: [{redis_stream: {url: 'rediss://a:1', keys: a}, tls: {clients: c}}]}":                            `weir.yaml:1:85: clients has no meaning for a source of the kind redis_stream; leave it out`,
		"collector: {sources: [{redis_stream: {url: 'redis://a:1', keys: [a, b, a]}}]}":                                        `weir.yaml:1:38: the stream a is named twice; name it once`,
		"collector: {sources: [{redis_stream: {url: 'redis://a:1', keys: a}}, {redis_stream: {url: 'redis://a:1', keys: a}}]}": `weir.yaml:1:85: the source redis_stream-1 reads the stream a too, so its requests would count twice; name it in one source, or give each an only that takes other records`,
		"collector: {sources: [{journald: {}}]}":                                                                               `weir.yaml:1:34: the source would read what all programs of this machine log; write journald: {unit: nginx}, {identifier: nginx}, or {folder: /var/log/journal/remote}`,
		"collector: {sources: [{journald: {unit: 'nginx*'}}]}":                                                                 `weir.yaml:1:41: "nginx*" is not the name of a unit; write the names of units, as systemctl shows them`,
		"collector: {sources: [{journald: {unit: a, match: [A=b, '--file=x']}}]}":                                              `weir.yaml:1:51: "--file=x" is not a condition on a field; write FIELD=value, as CONTAINER_NAME=shop`,
		"collector: {sources: [{journald: {unit: a, fields: message}}]}":                                                       `weir.yaml:1:52: "message" is not the name of a field; write names as journalctl -o verbose shows them: CONTAINER_NAME`,
		"collector: {sources: [{journald: {unit: a}}, {journald: {unit: a.service}}]}":                                         `weir.yaml:1:57: the source journald-1 reads the journal too, so its requests would count twice; name it in one source, or give each an only that takes other records`,
		"collector: {sources: [{journald: {unit: a}, tls: true}]}":                                                             `weir.yaml:1:50: tls has no meaning for a source of the kind journald; leave it out`,
		"collector: {sources: [{amqp: {queue: a}}]}":                                                                           `weir.yaml:1:30: the source names no server; write amqp: {url: "amqp://host:5672", queue: logs}`,
		"collector: {sources: [{amqp: {url: 'amqp://a:1'}}]}":                                                                  `weir.yaml:1:30: the source names no queue; write amqp: {url: "amqp://host:5672", queue: logs}`,
		"collector: {sources: [{amqp: {url: 'amqp://u:pw@a:1', queue: a}}]}":                                                   `weir.yaml:1:36: the URL contains a user or password, which logs would show; set user and password_file next to it`,
		"collector: {sources: [{amqp: {url: 'http://a:1', queue: a}}]}":                                                        `weir.yaml:1:36: "http://a:1" is not the address of a RabbitMQ; write it as amqp://host:5672/vhost, or amqps:// for TLS`,
		"collector: {sources: [{amqp: {url: 'amqps://a', queue: a}}]}":                                                         `weir.yaml:1:36: "a" has no port; write a:5671`,
		"collector: {sources: [{amqp: {url: 'amqp://a:1/v', queue: a, user: u}}]}":                                             `weir.yaml:1:30: only one of user and password_file is given; give both or neither`,
		"collector: {sources: [{amqp: {url: 'amqp://a:1', queue: a}, tls: true}]}":                                             `weir.yaml:1:66: tls is given, but amqp:// is not encrypted; write url: "amqps://…"`,
		"collector: {sources: [{amqp: {url: 'AMQP://a:1', queue: a}, tls: true}]}":                                             `weir.yaml:1:66: tls is given, but amqp:// is not encrypted; write url: "amqps://…"`,
		"collector: {sources: [{amqp: {url: 'amqp://a:1', queue: a}}, {amqp: {url: 'amqp://a:1', queue: a}}]}":                 `weir.yaml:1:69: the source amqp-1 reads the queue a too, so its requests would count twice; name it in one source, or give each an only that takes other records`,
		"collector: {sources: [{s3: logs}]}":                                                                                   `weir.yaml:1:28: "logs" is not a place in S3: write s3://bucket/prefix/`,
		"collector: {sources: [{s3: 's3://a/b', endpoint: 'a:1'}]}":                                                            `weir.yaml:1:50: "a:1" is not the address of a server: write https://host:port`,
		"collector: {sources: [{s3: 's3://a/b', delay: 1s}]}":                                                                  `weir.yaml:1:47: a delay of 1s cannot be; write 1m to 336h; 1h is usual`,
		"collector: {sources: [{s3: 's3://a/b', sqs: logs}]}":                                                                  `weir.yaml:1:45: "logs" is not the URL of a queue: write https://sqs.REGION.amazonaws.com/ACCOUNT/QUEUE`,
		"collector: {sources: [{s3: 's3://a/b', sqs: 'https://sqs.eu-central-1.amazonaws.com/1/q', start: latest}]}":           `weir.yaml:1:98: start has no meaning next to sqs: what the queue has is read; leave it out`,
		"collector: {sources: [{http: '127.0.0.1:1', sqs: 'https://a/b'}]}":                                                    `weir.yaml:1:50: sqs has no meaning for a source of the kind http; leave it out`,
		"collector: {sources: [{http: '127.0.0.1:1', delay: 1h}]}":                                                             `weir.yaml:1:52: delay has no meaning for a source of the kind http; leave it out`,
		"collector: {sources: [{s3: 's3://a/b'}, {s3: 's3://a/b'}]}":                                                           `weir.yaml:1:46: the source s3-1 reads the prefix s3://a/b too, so its requests would count twice; name it in one source, or give each an only that takes other records`,
		"collector: {sources: [{kinesis: {}}]}":                                                                                `weir.yaml:1:33: the source names no stream; write kinesis: {stream: logs, region: eu-central-1}`,
		"collector: {sources: [{kinesis: {stream: 'arn:aws:a'}}]}":                                                             `weir.yaml:1:42: "arn:aws:a" cannot be the name of a stream; write its name, not its ARN`,
		"collector: {sources: [{kinesis: {stream: a, endpoint: 'a:1'}}]}":                                                      `weir.yaml:1:55: "a:1" is not the address of a server: write https://host:port`,
		"collector: {sources: [{kinesis: {stream: a}, region: b}]}":                                                            `weir.yaml:1:54: region has no meaning for a source of the kind kinesis; leave it out`,
		"collector: {sources: [{kinesis: {stream: a}}, {kinesis: {stream: a}}]}":                                               `weir.yaml:1:57: the source kinesis-1 reads the stream a too, so its requests would count twice; name it in one source, or give each an only that takes other records`,
		"collector: {sources: [{hdfs: {path: /a}}]}":                                                                           `weir.yaml:1:30: the source names no server; write hdfs: {url: "http://host:9870", path: /logs/}`,
		"collector: {sources: [{hdfs: {url: 'http://a:1'}}]}":                                                                  `weir.yaml:1:30: the source names no path; write hdfs: {url: "http://host:9870", path: /logs/}`,
		"collector: {sources: [{hdfs: {url: 'http://a:1', path: a}}]}":                                                         `weir.yaml:1:56: "a" is not a path in HDFS: write /logs/ or /logs/**/*.log`,
		"collector: {sources: [{hdfs: {url: 'http://a:1', path: '/a**'}}]}":                                                    `weir.yaml:1:56: "/a**" is not a pattern: ** stands for folders, and * for a part of a name`,
		"collector: {sources: [{hdfs: {url: 'hdfs://a:1', path: /a}}]}":                                                        `weir.yaml:1:36: "hdfs://a:1" is not the URL of a name node; write http://host:9870`,
		"collector: {sources: [{hdfs: {url: 'http://u:pw@a:1', path: /a}}]}":                                                   `weir.yaml:1:36: a URL with a user or password is not taken, because logs and answers would show it; leave both out, and give an API key in its file`,
		"collector: {sources: [{hdfs: {url: 'http://a:1', path: /a}, delay: 1s}]}":                                             `weir.yaml:1:68: a delay of 1s cannot be; write 1m to 336h; 1h is usual`,
		"collector: {sources: [{hdfs: {url: 'http://a:1', path: /a}}, {hdfs: {url: 'http://a:1', path: /a}}]}":                 `weir.yaml:1:69: the source hdfs-1 reads the path /a too, so its requests would count twice; name it in one source, or give each an only that takes other records`,
		"collector: {sources: [{nats: {stream: a}}]}":                                                                          `weir.yaml:1:30: the source names no server; write nats: {url: "nats://host:4222", stream: logs}`,
		"collector: {sources: [{nats: {url: 'nats://a:1'}}]}":                                                                  `weir.yaml:1:30: the source names no stream; write nats: {url: "nats://host:4222", stream: logs}`,
		"collector: {sources: [{nats: {url: 'nats://a:1', stream: 'a.b'}}]}":                                                   `weir.yaml:1:58: "a.b" cannot be the name of a stream; write its name; subject selects messages in it`,
		"collector: {sources: [{nats: {url: 'nats://u:pw@a:1', stream: a}}]}":                                                  `weir.yaml:1:36: the URL contains a user, password or token, which logs would show; set user and password_file, token_file or credentials_file next to it`,
		"collector: {sources: [{nats: {url: 'tls://a:1,b', stream: a}}]}":                                                      `weir.yaml:1:36: "b" is not the address of a NATS server; write it as nats://host:4222, or tls:// for TLS`,
		"collector: {sources: [{nats: {url: 'nats://a', stream: a}}]}":                                                         `weir.yaml:1:36: "a" has no port; write a:4222`,
		"collector: {sources: [{nats: {url: 'nats://a:1', stream: a, user: u}}]}":                                              `weir.yaml:1:30: only one of user and password_file is given; give both or neither`,
		"collector: {sources: [{nats: {url: 'nats://a:1', stream: a, token_file: t, credentials_file: c}}]}":                   `weir.yaml:1:30: the source has several logins; give user and password_file, token_file, or credentials_file`,
		"collector: {sources: [{nats: {url: 'nats://a:1', stream: a}}, {nats: {url: 'nats://a:1', stream: a}}]}":               `weir.yaml:1:70: the source nats-1 reads the stream a too, so its requests would count twice; name it in one source, or give each an only that takes other records`,

		"collector: {sources: [{amqp: {url: 'amqp://a:1', queue: a, acknowledge: true}, start: latest}]}":                                           `weir.yaml:1:87: start has no meaning for a queue whose messages are acknowledged: all that it has are read; leave it out`,
		"collector: {sources: [{amqp: {url: 'amqp://a:1', queue: a}, only: b}, {amqp: {url: 'amqp://a:1', queue: a, acknowledge: true}, only: c}]}": `weir.yaml:1:78: the source amqp-1 reads the queue a too, and takes its messages; name it in one source`,
	} {
		if got := faults(t, text, config.Options{}); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

// Where any program may write the entries that a source reads, it has a warning.
func TestWarningsOfJournals(t *testing.T) {
	const warned = "any program of the machine may write such entries to the journal"
	for journald, want := range map[string]string{
		"{unit: nginx}":                                    "",
		"{unit: nginx, identifier: nginx}":                 "",
		"{match: ['_EXE=/usr/sbin/nginx']}":                "",
		"{match: [CONTAINER_NAME=shop], unit: docker}":     "",
		"{identifier: nginx}":                              warned,
		"{match: [CONTAINER_NAME=shop]}":                   warned,
		"{folder: /var/log/journal/remote}":                warned,
		"{folder: /var/log/journal/remote, unit: nginx}":   "",
		"{identifier: nginx, match: [SYSLOG_FACILITY=23]}": warned,
	} {
		_, warnings, err := config.Read([]byte("collector: {sources: [{name: web, journald: "+journald+"}]}\nrules:\n  rules: [{name: per-ip, key: ip, limits: [10/min]}]\n"),
			config.Options{File: "/etc/weir/weir.yaml", Environ: []string{"STATE_DIRECTORY=/state"}})
		if err != nil {
			t.Fatal(journald, err)
		}
		if got := warnings.Error(); strings.Contains(got, warned) != (want != "") {
			t.Errorf("%s: %s", journald, got)
		}
	}
}

// A server on another machine without TLS has a warning.
func TestWarningsOfPlainServers(t *testing.T) {
	const warned = "requests can be read and changed on their way"
	for source, want := range map[string]bool{
		"kinesis: {stream: a}":                                       false,
		"kinesis: {stream: a, endpoint: 'https://a.internal'}":       false,
		"kinesis: {stream: a, endpoint: 'http://127.0.0.1:4567/'}":   false,
		"kinesis: {stream: a, endpoint: 'http://a.internal:4567'}":   true,
		"hdfs: {url: 'http://localhost:9870', path: /a}":             false,
		"hdfs: {url: ['https://a:9871', 'http://b:9870'], path: /a}": true,
	} {
		_, warnings, err := config.Read([]byte("collector: {sources: [{name: web, "+source+"}]}\nrules:\n  rules: [{name: per-ip, key: ip, limits: [10/min]}]\n"),
			config.Options{File: "/etc/weir/weir.yaml", Environ: []string{"STATE_DIRECTORY=/state"}})
		if err != nil {
			t.Fatal(source, err)
		}
		if got := warnings.Error(); strings.Contains(got, warned) != want {
			t.Errorf("%s: %s", source, got)
		}
	}
}

// A password of a store that goes to another machine without TLS has a warning.
func TestWarningsOfSecretsOfStores(t *testing.T) {
	for store, want := range map[string]bool{
		"redis: 'redis://a.internal:6379/0', password_file: p":                                            true,
		"redis: 'rediss://a.internal:6379/0', password_file: p":                                           false,
		"redis: 'redis://a.internal:6379/0'":                                                              false,
		"postgres: 'postgres://a.internal:5432/limits', user: weir, password_file: p":                     true,
		"postgres: 'postgres://a.internal:5432/limits?sslmode=disable', user: weir, password_file: p":     true,
		"postgres: 'postgres://a.internal:5432/limits?sslmode=require', user: weir, password_file: p":     false,
		"postgres: 'postgres://a.internal:5432/limits?sslmode=verify-full', user: weir, password_file: p": false,
		"postgres: 'postgres://127.0.0.1:5432/limits', user: weir, password_file: p":                      false,
		"postgres: 'postgres:///limits?host=/run/postgresql', user: weir, password_file: p":               false,
		"mysql: 'tcp(a.internal:3306)/limits', user: weir, password_file: p":                              true,
		"mysql: 'tcp(a.internal:3306)/limits?tls=preferred', user: weir, password_file: p":                true,
		"mysql: 'tcp(a.internal:3306)/limits?tls=true', user: weir, password_file: p":                     false,
		"mysql: 'unix(/run/mysqld.sock)/limits', user: weir, password_file: p":                            false,
		"mysql: 'tcp(localhost:3306)/limits', user: weir, password_file: p":                               false,
	} {
		_, warnings, err := config.Read([]byte("inline: {store: {"+store+"}}\nrules:\n  rules: [{name: per-ip, key: ip, limits: [10/min], inline: true}]\n"),
			config.Options{File: "/etc/weir/weir.yaml", Environ: []string{"STATE_DIRECTORY=/state"}})
		if err != nil {
			t.Fatal(store, err)
		}
		if got := warnings.Error(); strings.Contains(got, "without encryption") != want {
			t.Errorf("%s: %s", store, got)
		}
		if !strings.HasPrefix(store, "redis") {
			continue
		}
		_, warnings, err = config.Read([]byte("store: {"+store+"}\nrules:\n  rules: [{name: per-ip, key: ip, limits: [10/min]}]\n"),
			config.Options{File: "/etc/weir/weir.yaml", Environ: []string{"STATE_DIRECTORY=/state"}})
		if got := warnings.Error(); err != nil || strings.Contains(got, "without encryption") != want {
			t.Errorf("store: %s: %s %v", store, got, err)
		}
	}
}

// A password that goes to another machine without TLS has a warning.
func TestWarningsOfSecretsInClear(t *testing.T) {
	const warned = "without encryption"
	for source, want := range map[string]bool{
		"amqp: {url: 'amqp://a.internal:5672', queue: a, user: weir, password_file: p}":                         true,
		"amqp: {url: 'amqp://a.internal:5672', queue: a}":                                                       false,
		"amqp: {url: 'amqps://a.internal:5671', queue: a, user: weir, password_file: p}":                        false,
		"amqp: {url: 'amqp://127.0.0.1:5672/x', queue: a, user: weir, password_file: p}":                        false,
		"redis_stream: {url: 'redis://localhost:6379/0', keys: [a], password_file: p}":                          false,
		"redis_stream: {url: 'redis://localhost:6379,a.internal:6379', keys: [a], password_file: p}":            true,
		"redis_stream: {url: 'redis://a.internal:6379/0?master=m', keys: [a], password_file: p}":                true,
		"redis_stream: {url: 'redis://a.internal:6379/0?master=m', keys: [a]}":                                  false,
		"redis_stream: {url: 'rediss://a.internal:6379,b.internal:6379', keys: [a], password_file: p}":          false,
		"nats: {url: 'tls://a.internal:4222', stream: a, token_file: p}":                                        false,
		"nats: {url: 'nats://localhost:4222, nats://a.internal:4222', stream: a, user: weir, password_file: p}": true,
		"nats: {url: 'nats://a.internal:4222', stream: a, token_file: p}":                                       true,
		"nats: {url: 'nats://a.internal:4222', stream: a, token_file: p}, tls: true":                            false,
		"nats: {url: 'nats://a.internal:4222', stream: a, credentials_file: p}":                                 false,
	} {
		_, warnings, err := config.Read([]byte("collector: {sources: [{name: web, "+source+"}]}\nrules:\n  rules: [{name: per-ip, key: ip, limits: [10/min]}]\n"),
			config.Options{File: "/etc/weir/weir.yaml", Environ: []string{"STATE_DIRECTORY=/state"}})
		if err != nil {
			t.Fatal(source, err)
		}
		if got := warnings.Error(); strings.Contains(got, warned) != want {
			t.Errorf("%s: %s", source, got)
		}
	}
}

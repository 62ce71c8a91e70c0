package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/internal/config"
	"weir/internal/yamlfile"
	"weir/pkg/geoip/geoiptest"
)

// Each text has exactly the given fault, with its place and its remedy.
func TestErrorsHaveTheirPlaces(t *testing.T) {
	for text, want := range map[string]string{
		"mode: enforcing":     `weir.yaml:1:7: "enforcing" is not known here; did you mean enforce?`,
		"modes: enforce":      `weir.yaml:1:1: unknown key modes; did you mean mode?`,
		"log: {level: loud}":  `weir.yaml:1:14: "loud" is not known here; write one of debug, info, warn, error`,
		"time: {late: 10}":    `weir.yaml:1:14: "10" is no duration: the unit is missing; write 10s, 10m or 10h`,
		"log: {format: yaml}": `weir.yaml:1:15: "yaml" is not known here; write one of auto, text, json`,

		"client: {header: 'X Forwarded'}":                   `weir.yaml:1:18: "X Forwarded" is not the name of a header; write X-Forwarded-For, CF-Connecting-IP, True-Client-IP or X-Real-IP`,
		"client: {trusted_proxies: [10.0.0.1/8]}":           `weir.yaml:1:28: 10.0.0.1/8 has bits set after its first 8; write 10.0.0.0/8 for the network, or 10.0.0.1 for the address`,
		"client: {trusted_proxies: [{file: none.txt}]}":     `weir.yaml:1:35: none.txt does not exist`,
		"client: {trusted_proxies: [{file: prefixes.txt}]}": `prefixes.txt:2:1: "nonsense" is no address and no prefix; write it as 203.0.113.7, 10.0.0.0/8 or 2001:db8::/32`,

		"{rules: [{name: a, key: ip, limits: [1/s], late: 1m}], geoip: {databases: [none.mmdb]}}": "weir.yaml:1:50: late is for limits of more than 4096 different values, which wait for late requests; leave it out\nweir.yaml:1:76: open none.mmdb: no such file or directory; correct the path, or put a complete file there",

		"rules: none.yaml":                     `weir.yaml:1:8: none.yaml does not exist; correct the path, or create the file`,
		"rules: [rules.yaml, none.yaml]":       `weir.yaml:1:21: none.yaml does not exist; correct the path, or create the file`,
		"collector: {sources: [{http: 7402}]}": `weir.yaml:1:30: the number 7402 found where text is expected; put it in quotes: "7402"`,

		"time: {late: 3650d}": `weir.yaml:1:14: a lateness of 3650d is too long; write 1830d or less; minutes are usual`,
		"{collector: {sources: [{kafka: [logs]}, {kafka: [other, logs]}]}, kafka: {brokers: 'a:1'}}":                            `weir.yaml:1:49: the source kafka-1 reads the topic logs too, so its requests would count twice; name it in one source, or give each an only that takes other records`,
		"{collector: {sources: [{kafka: logs, only: 'a == 1'}, {name: b, kafka: logs}]}, kafka: {brokers: 'a:1'}}":              `weir.yaml:1:72: the source kafka-1 reads the topic logs too, so its requests would count twice; name it in one source, or give each an only that takes other records`,
		"{collector: {sources: [{kafka: [logs, logs]}]}, kafka: {brokers: 'a:1'}}":                                              `weir.yaml:1:32: the topic logs is named twice; name it once`,
		"{kafka: {prefix: our., brokers: 'a:1'}, collector: {sources: [{kafka: our.events}]}}":                                  `weir.yaml:1:71: our.events is a topic of Weir itself; name the topic that your log shippers write to`,
		"collector: {sources: [{kafka: [logs]}]}":                                                                               `weir.yaml:1:31: a topic is read from Kafka, and neither the source nor kafka.brokers names its brokers; name those of the source, to read only: {kafka: [logs], brokers: [host:9092], commit: local}; or name kafka: {brokers: [host:9092]}, where Weir then keeps topics of its own`,
		"{kafka: {brokers: embedded}, collector: {sources: [{kafka: logs}]}}":                                                   `weir.yaml:1:60: a topic is read from Kafka, and neither the source nor kafka.brokers names its brokers; name those of the source, to read only: {kafka: [logs], brokers: [host:9092], commit: local}; or name kafka: {brokers: [host:9092]}, where Weir then keeps topics of its own`,
		"collector: {sources: [{kafka: logs, commit: local}]}":                                                                  `weir.yaml:1:31: a topic is read from Kafka, and neither the source nor kafka.brokers names its brokers; name those of the source, to read only: {kafka: [logs], brokers: [host:9092], commit: local}; or name kafka: {brokers: [host:9092]}, where Weir then keeps topics of its own`,
		"collector: {sources: [{kafka: logs, brokers: 'a:1', commit: group}]}":                                                  `weir.yaml:1:61: Weir joins no group at a source's own brokers; write commit: local, or leave brokers out and name them in kafka.brokers`,
		"collector: {sources: [{kafka: logs, brokers: 'a:1', commit: locale}]}":                                                 `weir.yaml:1:61: "locale" is not known here; did you mean local?`,
		"collector: {sources: [{kafka: logs, brokers: embedded}]}":                                                              `weir.yaml:1:46: embedded is not a Kafka that a source can read; write brokers: [host:9092]`,
		"collector: {sources: [{kafka: logs, brokers: a}]}":                                                                     `weir.yaml:1:46: "a" has no port; write a:9092`,
		"{kafka: {brokers: 'a:1'}, collector: {sources: [{kafka: logs, tls: true}]}}":                                           `weir.yaml:1:68: tls is for the source's own brokers, and the source names none; add brokers to the source, or write kafka: {tls: …}`,
		"{kafka: {brokers: 'a:1'}, collector: {sources: [{kafka: logs, sasl: {mechanism: plain, user: u, password_file: p}}]}}": `weir.yaml:1:69: sasl is for the source's own brokers, and the source names none; add brokers to the source, or write kafka: {sasl: …}`,
		"collector: {sources: [{kafka: logs, brokers: 'a:1', sasl: {user: u}}]}":                                                "weir.yaml:1:59: the mechanism \"\" is not known; write one of plain, scram-sha-256, scram-sha-512, oauthbearer\nweir.yaml:1:59: SASL has no password; add password_file, a file that contains the password",
		"collector: {sources: [{kafka: logs, brokers: 'a:1', tls: {clients: c}}]}":                                              `weir.yaml:1:68: clients has no meaning for a source of the kind kafka; leave it out`,
		"collector: {sources: [{file: a, brokers: 'a:1'}]}":                                                                     `weir.yaml:1:42: brokers has no meaning for a source of the kind file; leave it out`,
		"collector: {sources: [{http: '[::1]:1', tls: true}]}":                                                                  `weir.yaml:1:46: a source that accepts connections needs a certificate; write tls: {cert: c.pem, key: k.pem}`,
		"collector: {sources: [{http: '[::1]:1', tls: {ca: c, cert: c, key: k}}]}":                                              `weir.yaml:1:51: ca has no meaning for a source of the kind http; leave it out; the certificates of clients are checked by clients`,
		"collector: {sources: [{http: '[::1]:1', tls: {clients: c}}]}":                                                          `weir.yaml:1:56: clients need a certificate, but the server has none; add cert and key`,
		"collector: {sources: [{kafka: logs, brokers: ['a:1', 'b:1']}, {kafka: logs, brokers: ['b:1', 'a:1']}]}":                `weir.yaml:1:71: the source kafka-1 reads the topic logs too, so its requests would count twice; name it in one source, or give each an only that takes other records`,
		"{kafka: {brokers: a}, collector: {sources: [{kafka: logs}]}}":                                                          `weir.yaml:1:19: "a" has no port; write a:9092`,
		"collector: {sources: [{file: /var/log/a.log}, {file: [/var/log/b.log, /var/log//a.log]}]}":                             `weir.yaml:1:54: /var/log/a.log is a file of the source file-1 already, and each file is read once; name it in one source`,
		"{kafka: {brokers: 'a:1'}, collector: {sources: [{kafka: 'access/*'}]}}":                                                `weir.yaml:1:57: "access/*" is not a pattern of topics: their names have letters, digits, dots, dashes and underscores; write it as access-*`,
		"{kafka: {brokers: 'a:1'}, collector: {sources: [{kafka: 'access-*'}, {kafka: access-shop}]}}":                          `weir.yaml:1:78: the source kafka-1 reads the topic access-shop too, so its requests would count twice; name it in one source, or give each an only that takes other records`,
		"{kafka: {brokers: 'a:1'}, collector: {sources: [{kafka: 'a-*'}, {kafka: '*-b'}]}}":                                     `weir.yaml:1:73: the source kafka-1 reads the topic *-b too, so its requests would count twice; name it in one source, or give each an only that takes other records`,
		"collector: {sources: [{file: a, fields: {tenant: 'header:tenant'}}]}":                                                  `weir.yaml:1:50: only records of Kafka have headers, and the source is of the kind file; leave it out`,
		"collector: {sources: [{kafka: logs, brokers: 'a:1', fields: {tenant: 'header:'}}]}":                                    `weir.yaml:1:70: the header has no name; write it as header:tenant`,
		"collector: {sources: [{kafka: logs, brokers: 'a:1', fields: {ip: 'header:x-ip'}}]}":                                    `weir.yaml:1:66: ip is what the line states, and no header; leave it out`,
		"collector: {sources: [{file: a, dedupe: {within: 5m}}]}":                                                               `weir.yaml:1:41: dedupe names no field; write dedupe: {by: request_id}`,
		"collector: {sources: [{file: a, dedupe: {by: request_id, within: 25h}}]}":                                              `weir.yaml:1:66: 25h is not a time within which requests are repeated; write 1s to 1d; 10m is usual`,
		"collector: {sources: [{file: a, dedupe: {by: request_id, values: 20}}]}":                                               `weir.yaml:1:66: 20 values cannot be remembered; write 1000 to 10000000; a value takes about 50 bytes`,
		"collector: {sources: [{file: a, dedupe: {by: user}}]}":                                                                 `weir.yaml:1:46: many requests have the same user; name a field with a value that the server gives each request, such as request_id`,
		"collector: {sources: [{file: a, format: combined, dedupe: {by: request_id}}]}":                                         `weir.yaml:1:64: the format has no field "request_id"; log it, and name it in format or in fields`,
		"collector: {sources: [{file: a, format: '$remote_addr [$time_local] $id', dedupe: {by: request_id}}]}":                 `weir.yaml:1:88: the format has no field "request_id"; log it, and name it in format or in fields`,
		"{kafka: {brokers: 'a:1'}, collector: {sources: [{kafka: logs, dedupe: {by: request_id}}]}}":                            `weir.yaml:1:71: partitions of a group move between collectors, and the values that were seen do not; write commit: local, and have one collector read the source`,
		"collector: {settle: {enforcers: [enforcer]}}":                                                                          `weir.yaml:1:33: "enforcer" is not the URL of an enforcer; write https://enforcer.example:7421`,
		"collector: {settle: {enforcers: 'http://u:pw@a:1'}}":                                                                   `weir.yaml:1:33: a URL with a user or password is not taken, because logs and answers would show it; leave both out, and give an API key in its file`,
		"collector: {settle: {key_file: a}}":                                                                                    `weir.yaml:1:21: there is no enforcer to report to; write enforcers: [https://enforcer.example:7421] next to it`,
		"inline: {store: redis}":                                                                                                `weir.yaml:1:17: the store "redis" is not known; write memory, {redis: "redis://host:6379/0"}, {postgres: "postgres://host:5432/database"}, or {mysql: "tcp(host:3306)/database"}`,
		"inline: {store: {user: a}}":                                                                                            `weir.yaml:1:17: the store of inline rules names no Redis, PostgreSQL or MySQL; write memory, {redis: "redis://host:6379/0"}, {postgres: "postgres://host:5432/database"}, or {mysql: "tcp(host:3306)/database"}`,
		"inline: {store: {redis: 'redis://a:1', mysql: 'tcp(a)/b'}}":                                                            `weir.yaml:1:47: the store of inline rules is in two places; name one`,
		"inline: {store: {postgres: 'postgres://u:pw@a/b'}}":                                                                    `weir.yaml:1:28: the URL contains a user or password, which logs would show; set user and password_file next to it`,
		"inline: {store: {postgres: 'postgres://a'}}":                                                                           `weir.yaml:1:28: "postgres://a" is not the address of a database in PostgreSQL; write it as postgres://host:5432/database`,
		"inline: {store: {postgres: 'postgres://a/b?password=pw'}}":                                                             `weir.yaml:1:28: the URL contains a user or password, which logs would show; set user and password_file next to it`,
		"inline: {store: {mysql: 'u:pw@tcp(a)/b'}}":                                                                             `weir.yaml:1:25: the DSN contains a user or password, which logs would show; set user and password_file next to it`,
		"inline: {store: {mysql: 'a:3306'}}":                                                                                    `weir.yaml:1:25: "a:3306" is not the address of a database in MySQL; write it as tcp(host:3306)/database`,
		"inline: {store: {mysql: 'tcp(a)/b', connections: 0}}":                                                                  `weir.yaml:1:50: 0 connections are not possible; write 1 to 1000`,
		"inline: {store: {postgres: 'postgres://a/b', isolation: none}}":                                                        `weir.yaml:1:57: the isolation "none" is not known; write read committed, or serializable`,
		"inline: {store: {redis: 'redis://a:1', layout: sets}}":                                                                 `weir.yaml:1:48: the layout "sets" is not known; write packed, or sorted_set`,
		"inline: {store: {mysql: 'tcp(a)/b', layout: sorted_set}}":                                                              `weir.yaml:1:45: only a store in Redis has sorted sets; remove it`,
		"inline: {store: {redis: 'redis://:pw@a'}}":                                                                             `weir.yaml:1:25: the URL contains a user or password, which logs would show; write redis://a and set user and password_file next to it`,
		"inline: {budget: 10s}":                                            `weir.yaml:1:18: requests cannot wait 10s for the store; write 1ms to 5s`,
		"inline: {enforcers: 0}":                                           `weir.yaml:1:21: 0 enforcers are not possible; write 1 to 10000`,
		"kafka: {brokers: [kafka]}":                                        `weir.yaml:1:19: "kafka" has no port; write kafka:9092`,
		"kafka: {brokers: ':9092'}":                                        `weir.yaml:1:18: ":9092" names no host; write it as host:9092`,
		"kafka: {brokers: ['::1:9092']}":                                   `weir.yaml:1:19: "::1:9092" is not a host and port; write it as host:9092, an IPv6 address in brackets`,
		"kafka: {brokers: [kafka:http]}":                                   `weir.yaml:1:19: "http" is not a port; write a number from 1 to 65535`,
		"kafka: {brokers: [kafka:99999]}":                                  `weir.yaml:1:19: "99999" is not a port; write a number from 1 to 65535`,
		"kafka: {brokers: []}":                                             `weir.yaml:1:18: a list found where a value or a list is expected; write one, or [one, another]`,
		"kafka: {prefix: 'we ir'}":                                         `weir.yaml:1:17: the prefix "we ir" cannot begin a topic's name; use at most 100 letters, digits, dots, dashes and underscores`,
		"kafka: {hits: {partitions: 0}}":                                   `weir.yaml:1:28: 0 partitions are not possible; write a number from 1 to 10000`,
		"kafka: {events: {retention: 1s}}":                                 `weir.yaml:1:29: a retention of 1s is too short; write 1m or more`,
		"kafka: {blocklist: {replication: -1}}":                            `weir.yaml:1:34: a replication of -1 is not possible; write how many brokers keep each record, or 0 for the broker's default`,
		"kafka: {blocklist: {partitions: 2}}":                              `weir.yaml:1:21: unknown key partitions; known keys: replication`,
		"kafka: {brokers: [a:1], tls: {cert: c.pem}}":                      `weir.yaml:1:30: only one of cert and key is given; give both or neither`,
		"kafka: {brokers: [a:1], tls: yes}":                                `weir.yaml:1:30: "yes" found where a boolean is expected; write true or false`,
		"kafka: {brokers: [a:1], sasl: {mechanism: oauthbearer, user: u}}": "weir.yaml:1:31: SASL has no token; add token_file, a file that contains the token\nweir.yaml:1:31: the token of oauthbearer names the user; remove user and password_file",
		"kafka: {brokers: [a:1], sasl: {mechanism: plain, user: u, password_file: p, token_file: t}}": "weir.yaml:1:89: only oauthbearer has a token; write mechanism: oauthbearer, or remove token_file",
		"kafka: {brokers: [a:1], sasl: {mechanism: scram}}":                                           "weir.yaml:1:31: SASL names no user; add user\nweir.yaml:1:31: SASL has no password; add password_file, a file that contains the password\nweir.yaml:1:43: the mechanism \"scram\" is not known; write one of plain, scram-sha-256, scram-sha-512, oauthbearer",
		"kafka: {sasl: {mechanism: plain, password: hush}}":                                           "weir.yaml:1:15: SASL names no user; add user\nweir.yaml:1:15: SASL has no password; add password_file, a file that contains the password\nweir.yaml:1:34: unknown key password; known keys: mechanism, user, password_file, token_file",
		"store: redis":                                             `weir.yaml:1:8: the store "redis" is not known; write disk, or {redis: "redis://host:6379/0"}`,
		"store: {user: weir}":                                      `weir.yaml:1:8: the store names no Redis; write disk, or {redis: "redis://host:6379/0"}`,
		"store: {redis: 'host:6379'}":                              `weir.yaml:1:16: "host:6379" is not the address of a Redis; write it as redis://host:6379/0, or rediss:// for TLS`,
		"store: {redis: 'redis://host/zero'}":                      `weir.yaml:1:16: "zero" is not the number of a database; write it as redis://host:6379/0`,
		"store: {redis: 'redis://host/0'}":                         `weir.yaml:1:16: "host" has no port; write host:6379`,
		"store: {redis: 'redis://:secret@host:6379/0'}":            `weir.yaml:1:16: the URL contains a user or password, which logs would show; write redis://host:6379/0 and set user and password_file next to it`,
		"store: {redis: 'redis://host:6379/0?slave=x'}":            `weir.yaml:1:16: "redis://host:6379/0" has an unknown query; only ?master=NAME is possible, and a password in password_file next to it`,
		"store: {redis: 'redis://host:6379/0?password=hush'}":      `weir.yaml:1:16: "redis://host:6379/0" has an unknown query; only ?master=NAME is possible, and a password in password_file next to it`,
		"store: {redis: 'redis://u:hush@hush@host:6379/0?x=hush'}": `weir.yaml:1:16: the URL contains a user or password, which logs would show; write redis://host:6379/0 and set user and password_file next to it`,
		"kafka: {brokers: ['u:hush@a:9092']}":                      `weir.yaml:1:19: the address contains a user or password, which logs would show; write only host:9092, and set sasl with user and password_file`,
		"aggregator: {hot_keys: 0}":                                `weir.yaml:1:24: 0 keys are not possible; write how many keys to keep in memory; each takes about 300 bytes`,
		"aggregator: {listen: '0.0.0.0:7411'}":                     `weir.yaml:1:22: 0.0.0.0:7411 can be reached from other machines without a key or a certificate; add keys, a file of API keys, or tls with clients, or listen on 127.0.0.1`,
		"collector: {batch: 2s}":                                   `weir.yaml:1:20: a batch of 2s is too long; write 1s or less; 20ms is usual`,
		"collector: {batch: 20}":                                   `weir.yaml:1:20: "20" is no duration: the unit is missing; write 20s, 20m or 20h`,
		"collector: {listen: ':7401'}":                             `weir.yaml:1:21: :7401 can be reached from other machines without a key or a certificate; add keys, a file of API keys, or tls with clients, or listen on 127.0.0.1`,
		"collector: {listen: '7401'}":                              `weir.yaml:1:21: "7401" is not an address to listen on; write it as 127.0.0.1:7401 or "[::1]:7401"`,
		"collector: {listen: '127.0.0:7401'}":                      `weir.yaml:1:21: "127.0.0:7401" is not an address to listen on; 127.0.0 is not an IP address`,
		"enforcer: {listen: '10.1.2.3:7421'}":                      `weir.yaml:1:20: 10.1.2.3:7421 can be reached from other machines without a key or a certificate; add keys, a file of API keys, or tls with clients, or listen on 127.0.0.1`,
		"enforcer: {grpc: '0.0.0.0:7422'}":                         `weir.yaml:1:18: 0.0.0.0:7422 can be reached from other machines without a key or a certificate; add keys, a file of API keys, or tls with clients, or listen on 127.0.0.1`,
		"enforcer: {admin: 'enforcer:7431'}":                       `weir.yaml:1:19: enforcer:7431 can be reached from other machines without a key or a certificate; add keys, a file of API keys, or tls with clients, or listen on 127.0.0.1`,
		"enforcer: {tls: {clients: roots.pem}}":                    `weir.yaml:1:27: clients need a certificate, but the server has none; add cert and key`,
		"enforcer: {follow: 'enforcer:7421'}":                      `weir.yaml:1:20: "enforcer:7421" is not the URL of an enforcer; write kafka, or https://enforcer.example:7421`,
		"enforcer: {follow: 'https://me:secret@host:7421'}":        `weir.yaml:1:20: a URL with a user or password is not taken, because logs and answers would show it; leave both out, and give an API key in its file`,
		"enforcer: {follow: 'https://me:%zz@host:7421'}":           `weir.yaml:1:20: a URL with a user or password is not taken, because logs and answers would show it; leave both out, and give an API key in its file`,
		"enforcer: {refuse: 500}":                                  `weir.yaml:1:20: edges do not understand 500 as a refusal; write 429 or 403`,
		"enforcer: {limit_headers: all}":                           `weir.yaml:1:27: "all" is not known here; write one of both, draft, legacy, none`,
		"enforcer: {fields: {ip: X-Real-IP}}":                      `weir.yaml:1:25: ip is always taken from the request; leave it out; for ip set client.header`,
		"enforcer: {fields: {user: 'X User'}}":                     `weir.yaml:1:27: "X User" is not the name of a header; write it as X-User`,
		"enforcer: {without_list: open}":                           `weir.yaml:1:26: "open" is not known here; write one of allow, deny`,

		"enforcer: {console_oidc: {issuer: 'http://login.example.com', client_id: weir, redirect: 'https://weir.example.com/console/login/callback', read: a}}":                  `weir.yaml:1:35: log-ins would be sent without encryption; write https`,
		"enforcer: {console_oidc: {issuer: 'https://login.example.com', client_id: weir, redirect: 'https://weir.example.com/callback', read: a}}":                               `weir.yaml:1:91: "https://weir.example.com/callback" is not the address that people return to; write https://weir.example.com/console/login/callback, with the console's own host`,
		"enforcer: {console_oidc: {issuer: 'https://login.example.com', redirect: 'https://weir.example.com/console/login/callback', read: a}}":                                  `weir.yaml:1:26: there is no client_id; write client_id: weir, as the provider has it`,
		"enforcer: {console_oidc: {issuer: 'https://login.example.com', client_id: weir, redirect: 'https://weir.example.com/console/login/callback'}}":                          `weir.yaml:1:26: no one may log in; write read: [everyone] or write: [operators], with values of the claim groups`,
		"enforcer: {console_oidc: {issuer: 'https://login.example.com', client_id: weir, redirect: 'https://weir.example.com/console/login/callback', write: a, scopes: email}}": `weir.yaml:1:160: without the scope openid the provider sends no identity token; add openid`,
		"enforcer: {console: off, console_oidc: {issuer: 'https://login.example.com', client_id: weir, redirect: 'https://weir.example.com/console/login/callback', write: a}}":  `weir.yaml:1:40: this enforcer serves no console; write console: on, or leave console_oidc out`,
		"enforcer: {console_oidc: {issuer: login, client_id: weir, redirect: 'https://weir.example.com/console/login/callback', write: a}}":                                      `weir.yaml:1:35: "login" is not such a URL; write https://login.example.com`,

		"collector: {sources: [{s3: 's3://b/p/', endpoint: 'http://u:hush@a'}]}":                                                       `weir.yaml:1:51: "http://***a" is not the address of a server: write https://host:port`,
		"enforcer: {console_oidc: {issuer: 'https://u:hu/sh@a', client_id: a, redirect: 'https://a/console/login/callback', read: a}}": `weir.yaml:1:35: "https://***a" is not such a URL; write https://login.example.com`,
		"notify: [{name: a, mail: {server: 'smtp://u:hush@a:25', from: a@b, to: c@d}}]":                                                `weir.yaml:1:35: "smtp://***a:25" is not a host and port; write it as host:587, an IPv6 address in brackets`,
		"inline: {store: {postgres: 'host=a password=hush'}}":                                                                          `weir.yaml:1:28: "host=a password=***" is not the address of a database in PostgreSQL; write it as postgres://host:5432/database`,

		"enforcer: {crowdsec: {addresses: [edge, ' ']}}":                            `weir.yaml:1:41: the name is empty; write the name of an API key`,
		"collector: {sources: {file: a.log}}":                                       `weir.yaml:1:22: a map found where a list is expected; write [one, another], or a line with a dash for each`,
		"collector: {sources: [{format: json}]}":                                    `weir.yaml:1:23: the source has no kind; add one of file, kafka, journald, redis_stream, nats, amqp, kinesis, s3, hdfs, http, syslog, otlp, loki`,
		"collector: {sources: [{file: ['-', a]}]}":                                  `weir.yaml:1:30: standard input is named next to files; make it a source of its own`,
		"collector: {sources: [{file: '-', start: latest}]}":                        `weir.yaml:1:42: start has no meaning for a pipe, which cannot be read again; leave it out`,
		"collector: {sources: [{otlp: '0.0.0.0:4317'}]}":                            `weir.yaml:1:30: 0.0.0.0:4317 can be reached from other machines without a key or a certificate; add keys, a file of API keys, or tls with clients, or listen on 127.0.0.1`,
		"collector: {sources: [{otlp: '127.0.0.1:4317', envelope: cri}]}":           `weir.yaml:1:58: the envelope of a source of the kind otlp is otlp; leave it out`,
		"collector: {sources: [{kafka: a, envelope: syslog, line: b}]}":             `weir.yaml:1:58: line names a key in records of JSON, and records of the envelope syslog have no such key; write it as payload.text`,
		"collector: {sources: [{file: a, kafka: b}]}":                               `weir.yaml:1:40: the source is file already, and kafka as well; make it a source of its own`,
		"collector: {sources: [{file: a, from: [::1]}]}":                            `weir.yaml:1:39: from has no meaning for a source of the kind file; leave it out`,
		"collector: {sources: [{syslog: 'udp://[::1]:5514', start: latest}]}":       `weir.yaml:1:59: start has no meaning for a source of the kind syslog; leave it out`,
		"collector: {sources: [{file: a, name: x}, {file: b, name: x}]}":            `weir.yaml:1:59: two sources have the name x; give each its own`,
		"collector: {sources: [{file: a, envelope: filebeet}]}":                     `weir.yaml:1:43: the envelope "filebeet" is not known; did you mean filebeat?`,
		"collector: {sources: [{file: a, zone: Mars/Phobos}]}":                      `weir.yaml:1:39: the time zone "Mars/Phobos" is not known; write it as Europe/Berlin`,
		"collector: {sources: [{file: a, start: soon}]}":                            `weir.yaml:1:40: "soon" is not a place to start; write earliest, latest, or a time before now, such as 25h`,
		"collector: {sources: [{http: '0.0.0.0:7402'}]}":                            `weir.yaml:1:30: 0.0.0.0:7402 can be reached from other machines without a key or a certificate; add keys, a file of API keys, or tls with clients, or listen on 127.0.0.1`,
		"collector: {sources: [{syslog: 'udp://0.0.0.0:5514'}]}":                    `weir.yaml:1:32: 0.0.0.0:5514 can be reached from other machines without a key or a certificate; add from, the addresses that may send, or listen on 127.0.0.1`,
		"collector: {sources: [{syslog: 'localhost:514'}]}":                         `weir.yaml:1:32: "localhost:514" is not an address for syslog; write it as "udp://127.0.0.1:5514", or with tcp, tls, unix or unixstream`,
		"collector: {sources: [{syslog: 'unixstream://syslog.sock'}]}":              `weir.yaml:1:32: "unixstream://syslog.sock" names no socket; write it as unixstream:///run/weir/syslog.sock`,
		"collector: {sources: [{syslog: 'unix://syslog.sock'}]}":                    `weir.yaml:1:32: "unix://syslog.sock" names no socket; write it as unix:///run/weir/syslog.sock`,
		"collector: {sources: [{syslog: 'tls://127.0.0.1:6514'}]}":                  `weir.yaml:1:32: a source with tls:// has no certificate; add tls: {cert: c.pem, key: k.pem}`,
		"collector: {sources: [{syslog: 'tcp://[::1]:1', tls: {cert: c, key: k}}]}": `weir.yaml:1:54: tls is given, but tcp is not encrypted; write syslog: "tls://[::1]:1"`,
	} {
		if got := faults(t, text, config.Options{}); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

// A rule that tries algorithms needs the topic of attempts: a history, or blocks after refusals, which keep it too.
func TestTryingNeedsAttempts(t *testing.T) {
	const rules = "rules: [{name: quota, key: ip, limits: [10/min], inline: true, try: [token]BLOCK}]\n"
	want := "weir.yaml:1:69: the rule quota tries algorithms on its attempts, and no history of these is kept; write inline: {history: 24h} in the configuration, or leave try out"
	for text, want := range map[string]string{
		strings.Replace(rules, "BLOCK", "", 1):                                          want,
		strings.Replace(rules, "BLOCK", "", 1) + "inline: {history: 1h}":                "",
		strings.Replace(rules, "BLOCK", ", block: {after: 3, within: 1m, for: 15m}", 1): "",
		strings.Replace(rules, ", try: [token]BLOCK", "", 1):                            "",
	} {
		_, _, err := config.Read([]byte(text), config.Options{File: "weir.yaml"})
		if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestAllErrorsAreReportedAtOnce(t *testing.T) {
	got := faults(t, `
mode: enforcing
time: {late: soon}
kafka:
  brokers: [kafka]
collector:
  sources:
    - {http: "0.0.0.0:7402", format: jsno}
    - {}
`, config.Options{})
	if n := strings.Count(got, "\n") + 1; n != 6 {
		t.Errorf("got %d faults:\n%s", n, got)
	}
}

// Addresses beyond loopback are accepted with keys, client certificates or a list of senders.
func TestGuardedListenersAreAccepted(t *testing.T) {
	for _, text := range []string{
		"aggregator: {listen: '0.0.0.0:7411', keys: keys.yaml}",
		"enforcer: {listen: '[::]:7421', admin: '0.0.0.0:1', keys: keys.yaml}",
		"enforcer: {listen: 'localhost:7421', admin: '[::1]:7431'}",
		"enforcer: {listen: ':7421', tls: {cert: c, key: k, clients: roots.pem}}",
		"enforcer: {listen: '', socket: ''}",
		"collector: {sources: [{http: ':7402', keys: keys.yaml}]}",
		"collector: {sources: [{syslog: 'udp://0.0.0.0:514', from: [10.0.0.0/8]}]}",
		"collector: {sources: [{syslog: 'tls://0.0.0.0:6514', tls: {cert: c, key: k, clients: roots.pem}}]}",
		"{collector: {sources: [{kafka: logs, only: 'a == 1'}, {kafka: logs, only: 'a == 2'}, {kafka: weir.other}]}, kafka: {brokers: 'a:1'}}",
		"collector: {sources: [{file: [/var/log/a.log, /var/log/a.log]}, {file: '/var/log/*.log'}]}",
		"collector: {sources: [{kafka: logs, brokers: 'a:1'}, {kafka: [logs, other], brokers: 'b:1', commit: local, tls: true}]}",
		"collector: {sources: [{kafka: weir.hits, brokers: ['a:1'], tls: {ca: c}, sasl: {mechanism: plain, user: u, password_file: f}}]}",
		"{kafka: {brokers: 'a:1'}, collector: {sources: [{kafka: logs, commit: local}, {kafka: other, commit: group}, {kafka: logs, brokers: 'b:1'}]}}",
		"collector: {sources: [{http: '[::1]:1', tls: false}, {syslog: 'udp://[::1]:1', tls: false}]}",
		"store: {redis: 'rediss://a:6379,b:6379'}",
		"store: {redis: 'redis://a:26379,b:26379/2?master=weir'}",
	} {
		if got := faults(t, text, config.Options{}); got != "" {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestUnusedKeysAreAWarning(t *testing.T) {
	o := config.Options{File: "weir.yaml", Siblings: []yamlfile.Inner{{Name: "rules.yaml"}}}
	_, warnings, err := config.Read([]byte("kafka: {tls: true, sasl: {mechanism: plain, user: weir, password_file: f}}"), o)
	if err != nil || len(warnings) != 2 {
		t.Errorf("got %v, %v", warnings, err)
	}
}

func TestAReadableLoginWithoutTLSIsAWarning(t *testing.T) {
	const plain, token = "sasl: {mechanism: plain, user: u, password_file: p}", "sasl: {mechanism: oauthbearer, token_file: t}"
	for text, want := range map[string]int{
		"kafka: {brokers: [a:1], " + plain + "}":                                               1,
		"kafka: {brokers: [a:1], " + token + "}":                                               1,
		"kafka: {brokers: ['127.0.0.1:1', a:1], " + plain + "}":                                1,
		"kafka: {brokers: [a:1], tls: true, " + plain + "}":                                    0,
		"kafka: {brokers: ['127.0.0.1:1', '[::1]:1', localhost:1], " + plain + "}":             0,
		"kafka: {brokers: [a:1], sasl: {mechanism: scram-sha-256, user: u, password_file: p}}": 0,
		"collector: {sources: [{kafka: logs, brokers: [a:1], " + token + "}]}":                 1,
		"collector: {sources: [{kafka: logs, brokers: [a:1], tls: {ca: c}, " + token + "}]}":   0,
		"collector: {sources: [{kafka: logs, brokers: ['127.0.0.2:1'], " + plain + "}]}":       0,
	} {
		_, warnings, err := config.Read([]byte(text), config.Options{File: "weir.yaml", Siblings: []yamlfile.Inner{{Name: "rules.yaml"}}})
		if err != nil || len(warnings) != want || want == 1 && !strings.Contains(warnings.Error(), "sends its secret to the brokers without encryption; write tls: true") {
			t.Errorf("%s: %v, %v", text, warnings, err)
		}
	}
}

func TestARetentionShorterThanALimitIsAWarning(t *testing.T) {
	for retention, want := range map[string]int{"48h": 1, "8d": 0} {
		text := "kafka: {hits: {retention: " + retention + "}}\nrules: [{name: weekly, key: ip, limits: [10/min, 100/w], block: {for: 1d}}]"
		_, warnings, err := config.Read([]byte(text), config.Options{File: "weir.yaml"})
		if err != nil || len(warnings) != want || want == 1 && !strings.Contains(warnings.Error(), "100/w") {
			t.Errorf("%s: %v, %v", retention, warnings, err)
		}
		// No hits of an inline rule are kept.
		text = strings.Replace(text, "block: {for: 1d}", "inline: true", 1)
		if _, warnings, err = config.Read([]byte(text), config.Options{File: "weir.yaml"}); err != nil || len(warnings) > 0 {
			t.Errorf("inline, %s: %v, %v", retention, warnings, err)
		}
	}
}

func TestAnEstimateWithLargeStepsIsAWarning(t *testing.T) {
	for text, want := range map[string]int{
		"limits: [20000/min]":            1,
		"limits: [20000/min], late: 2m":  0,
		"limits: [20000/min], late: 3m":  1,
		"limits: [20000/10m]":            0,
		"limits: [20000/10m], late: 21m": 0, // time.late is shorter
		"limits: [20000/9m]":             1,
		"limits: [4000/min]":             0,
	} {
		text = "rules: [{name: crawlers, key: ip, distinct: path, block: {for: 6h}, " + text + "}]"
		_, warnings, err := config.Read([]byte(text), config.Options{File: "weir.yaml"})
		if err != nil || strings.Count(warnings.Error(), "in large steps") != want || want == 1 && !strings.Contains(warnings.Error(), "rule crawlers has the limit of 20000 different") {
			t.Errorf("%s: %v, %v", text, warnings, err)
		}
	}
}

func TestUsersThatChecksDoNotKnowAreAWarning(t *testing.T) {
	for text, want := range map[string]int{
		"rules: {users: checked, rules: [{name: per-user, key: [user, path], match: status == 200, limits: [1/s]}, {name: per-ip, key: ip, match: status == 200, limits: [1/s]}]}": 1,
		"rules: {users: checked, rules: [{name: per-user, key: user, match: status == 200, limits: [1/s]}]}\nenforcer: {fields: {user: X-User}}":                                   0,
		"rules: {users: checked, rules: [{name: per-user, key: user, match: status == 200, limits: [1/s], mode: shadow}]}":                                                         0,
		"mode: shadow\nrules: {users: checked, rules: [{name: per-user, key: user, match: status == 200, limits: [1/s]}]}":                                                         0,
	} {
		_, warnings, err := config.Read([]byte(text), config.Options{File: "weir.yaml"})
		if err != nil || len(warnings) != want || want == 1 && !strings.Contains(warnings.Error(), "rule per-user counts by user") {
			t.Errorf("%s: %v, %v", text, warnings, err)
		}
	}
}

// A key that clients choose themselves at checks is a warning, unless the configuration states that the edge sets the
// header.
func TestFieldsThatClientsCanClaimAreAWarning(t *testing.T) {
	asn := geoiptest.Write(t, filepath.Join(t.TempDir(), "asn.mmdb"), 1, map[string]geoiptest.Entry{"203.0.113.0/24": {ASN: 1}})
	for text, want := range map[string]int{
		"rules: [{name: per-tenant, key: [ip, tenant], limits: [1/s]}]":                                                                               1,
		"rules: [{name: per-tenant, key: x_tenant, limits: [1/s]}]":                                                                                   1,
		"rules: [{name: per-tenant, key: tenant, limits: [1/s]}]\nenforcer: {fields: {tenant: X-Tenant}}":                                             0,
		"rules: [{name: per-tenant, key: [ip, http_x_tenant], limits: [1/s]}, {name: all, key: ip, limits: [1/s]}]":                                   0,
		"rules: [{name: per-tenant, key: kubernetes.pod, limits: [1/s]}]":                                                                             0,
		"rules: [{name: per-tenant, key: tenant, limits: [1/s], mode: shadow}]":                                                                       0,
		"geoip: {databases: '" + asn + "'}\nrules: [{name: per-asn, key: asn, limits: [1/s]}]":                                                        0,
		"geoip: {databases: '" + asn + "'}\nrules: [{name: per-asn, key: [asn, tenant], limits: [1/s]}]":                                              1,
		"rules: [{name: all, key: [ip/24, method, host, path, query, agent, referrer, status], limits: [1/s]}, {name: less, key: ip, limits: [1/s]}]": 0,
	} {
		_, warnings, err := config.Read([]byte(text), config.Options{File: "weir.yaml"})
		if err != nil || len(warnings) != want || want == 1 && !strings.Contains(warnings.Error(), "chooses its own key") {
			t.Errorf("%s: %v, %v", text, warnings, err)
		}
	}
}

// A field that a database of addresses has is none that a client can claim.
func TestFieldsOfDatabasesAreNoWarning(t *testing.T) {
	file := geoiptest.Write(t, filepath.Join(t.TempDir(), "asn.mmdb"), 1, map[string]geoiptest.Entry{"203.0.113.0/24": {ASN: 64496, Name: "Example"}})
	for key, want := range map[string]int{"asn": 0, "[ip, as_name]": 0, "country": 2} {
		text := "geoip: {databases: " + file + "}\nrules: [{name: a, key: " + key + ", limits: [1/s]}, {name: all, key: ip, limits: [1/s]}]"
		_, warnings, err := config.Read([]byte(text), config.Options{File: "weir.yaml"})
		if err != nil || len(warnings) != want {
			t.Errorf("%s: %v, %v", key, warnings, err)
		}
	}
}

func TestWideTrustedProxiesAreAWarning(t *testing.T) {
	for prefix, want := range map[string]int{"0.0.0.0/0": 1, "'::/0'": 1, "8.0.0.0/7": 1, "10.0.0.0/8": 0, "'fc00::/7'": 0, "'2001::/16'": 1} {
		_, warnings, err := config.Read([]byte("client: {trusted_proxies: ["+prefix+"]}"), config.Options{File: "weir.yaml", Siblings: []yamlfile.Inner{{Name: "rules.yaml"}}})
		if err != nil || len(warnings) != want || want == 1 && !strings.Contains(warnings.Error(), "is wide") {
			t.Errorf("%s: %v, %v", prefix, warnings, err)
		}
	}
}

// Lists that others make are a warning too if they have such a prefix, and so is one that an entry allows.
func TestWidePrefixesInFilesAreAWarning(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list.txt")
	for prefix, want := range map[string]int{"0.0.0.0/0": 2, "::ffff:0:0/96": 2, "::/0": 2, "8.0.0.0/7": 2, "10.0.0.0/8": 0, "fc00::/7": 0} {
		if err := os.WriteFile(list, []byte("203.0.113.0/24\n"+prefix+"\n9.0.0.0/8\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		text := "client: {trusted_proxies: [192.0.2.1, {file: " + list + "}]}\nrules: {rules: [{name: a, key: ip, limits: [1/s]}], allow: [{ip: [192.0.2.1, {file: " + list + "}]}]}"
		_, warnings, err := config.Read([]byte(text), config.Options{File: "weir.yaml"})
		if err != nil || len(warnings) != want || want == 2 && !strings.Contains(warnings.Error(), " is wide") {
			t.Errorf("%s: %v, %v", prefix, warnings, err)
		}
	}
}

// An id that clients choose is a warning; those that servers make are none.
func TestIDsThatClientsChooseAreAWarning(t *testing.T) {
	for by, want := range map[string]int{"http_x_request_id": 1, "cookie_id": 1, "arg_id": 1, "otel_trace_id": 1, "request_id": 0, "unique_id": 0} {
		text := "collector: {sources: [{file: a, format: '$remote_addr [$time_local] \"$" + by + "\"', dedupe: {by: " + by + "}}]}"
		checkChosen(t, text, by, want)
	}
	for _, c := range []struct {
		source, by string
		want       int
	}{
		{"format: json", "request.headers.X-Request-Id", 1},
		{"format: json", "uuid", 0},
		{"format: json", "trace.id", 1},
		{"format: json", "dd.trace_id", 1},
		{"format: json", "traces", 0},
		{"format: traefik-json", "request_X-Request-Id", 1},
		{"format: json, fields: {id: http_x_request_id}", "id", 1},
		{"format: json, fields: {id: request_id}", "id", 0},
		{"format: ingress-nginx", "req_id", 1},
		{"format: alb", "trace_id", 0},
		{"format: cloudflare-json", "RayID", 0},
	} {
		checkChosen(t, "collector: {sources: [{file: a, "+c.source+", dedupe: {by: "+c.by+"}}]}", c.by, c.want)
	}
}

func checkChosen(t *testing.T, text, by string, want int) {
	t.Helper()
	_, warnings, err := config.Read([]byte(text), config.Options{File: "weir.yaml", Siblings: []yamlfile.Inner{{Name: "rules.yaml"}}})
	if err != nil || len(warnings) != want || want == 1 && !strings.Contains(warnings.Error(), "clients choose "+by+" themselves") {
		t.Errorf("%s: %v, %v", text, warnings, err)
	}
}

func TestSourcesThatAreRight(t *testing.T) {
	for _, text := range []string{
		"collector: {sources: [{file: a, format: json, dedupe: {by: trace.id}}]}",
		"collector: {sources: [{file: a, format: combined, fields: {request_id: http_referer}, dedupe: {by: request_id, within: 1s, values: 1000}}]}",
		"collector: {sources: [{kafka: logs, brokers: 'a:1', dedupe: {by: request_id, within: 1d}}]}",
		"collector: {sources: [{http: '127.0.0.1:1', dedupe: {by: request_id}}]}",
		"collector: {sources: [{kafka: logs, brokers: 'a:1', format: combined, fields: {id: 'header:id', host: 'header:x-host'}, dedupe: {by: id}}]}",
		"{kafka: {brokers: 'a:1'}, collector: {sources: [{kafka: ['access-*', access-shop]}, {kafka: 'error-*'}, {kafka: 'access-*', brokers: 'b:1'}]}}",
	} {
		if _, _, err := config.Read([]byte(text), config.Options{File: "weir.yaml", Siblings: []yamlfile.Inner{{Name: "rules.yaml"}}}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

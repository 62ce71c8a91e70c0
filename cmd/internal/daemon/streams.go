package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/cmd/internal/config"
	"weir/internal/amazon"
	"weir/internal/bucket"
	"weir/internal/store/redis"
	"weir/internal/webhdfs"
	"weir/pkg/collector/jetstream"
	"weir/pkg/collector/journald"
	"weir/pkg/collector/kinesis"
	"weir/pkg/collector/objects"
	"weir/pkg/collector/ordered"
	"weir/pkg/collector/pipeline"
	"weir/pkg/collector/rabbit"
	"weir/pkg/collector/redisstream"
)

// OpenStreams opens the logs of a source that another server keeps, to read them once.
func OpenStreams(ctx context.Context, s *config.Source) ([]ordered.Log, error) {
	if s.Kind() == "kinesis" {
		return shards(s, true).List(ctx)
	}
	open, err := streamsOf(s)
	if err != nil {
		return nil, err
	}
	return open()
}

// HasStreams reports whether another server keeps the logs of a source, so that they can be read once more.
func HasStreams(s *config.Source) bool {
	return !s.AMQP.Acknowledge && slices.Contains([]string{"journald", "redis_stream", "nats", "amqp", "kinesis", "s3", "hdfs"}, s.Kind())
}

// streamSource makes the configuration of a source whose logs another server keeps.
func streamSource(s *config.Source, start pipeline.Start) (*ordered.Config, error) {
	if s.Kind() == "kinesis" {
		return &ordered.Config{Kind: s.Kind(), Start: start, List: shards(s, false).List}, nil
	}
	open, err := streamsOf(s)
	return &ordered.Config{Kind: s.Kind(), Start: start, Open: open}, err
}

// streamsOf returns what opens the logs of a source.
func streamsOf(s *config.Source) (func() ([]ordered.Log, error), error) {
	switch s.Kind() {
	case "journald":
		return func() ([]ordered.Log, error) { return journald.Open(journalOf(s, true)) }, nil
	case "redis_stream":
		return redisStreams(s)
	case "nats":
		return natsStream(s)
	case "amqp":
		return rabbitStream(s)
	case "s3":
		return s3Objects(s), nil
	case "hdfs":
		return hdfsFiles(s), nil
	}
	return nil, fmt.Errorf("a source of the kind %s has no streams", s.Kind())
}

// journals makes the configuration of a source that reads journals.
func journals(s *config.Source, start pipeline.Start) *ordered.Config {
	return &ordered.Config{
		Kind: s.Kind(), Start: start, Grows: true,
		Open: func() ([]ordered.Log, error) { return journald.Open(journalOf(s, false)) },
	}
}

func journalOf(s *config.Source, once bool) journald.Options {
	return journald.Options{Folder: s.Journald.Folder, Matches: s.Journald.Matches(), Fields: s.Journald.Fields, Once: once}
}

// shards is the stream of a kinesis source.
func shards(s *config.Source, once bool) *kinesis.Stream {
	of := &s.Kinesis
	return kinesis.New(kinesis.Options{Stream: of.Stream, Where: amazon.Options{Region: of.Region, Endpoint: of.Endpoint}, Once: once})
}

func s3Objects(s *config.Source) func() ([]ordered.Log, error) {
	return func() ([]ordered.Log, error) {
		log, err := objects.Open(objects.Options{
			URL: s.S3, Delay: time.Duration(s.Delay), Queue: s.SQS, Where: bucket.Options{Region: s.Region, Endpoint: s.Endpoint},
		})
		return []ordered.Log{log}, err
	}
}

func hdfsFiles(s *config.Source) func() ([]ordered.Log, error) {
	of := &s.HDFS
	return func() ([]ordered.Log, error) {
		store, err := webhdfs.New(webhdfs.Options{URLs: of.URL, Path: of.Path, User: of.User})
		if err != nil {
			return nil, err
		}
		log, err := objects.Open(objects.Options{URL: "hdfs://" + of.Path, Delay: time.Duration(s.Delay), Store: store, Open: of.Open})
		return []ordered.Log{log}, err
	}
}

func redisStreams(s *config.Source) (func() ([]ordered.Log, error), error) {
	of := &s.RedisStream
	password, err := passwordIn(of.PasswordFile)
	if err != nil {
		return nil, err
	}
	encryption := s.TLS.Client()
	secure, err := clientTLS(&encryption)
	if err != nil {
		return nil, err
	}
	options := redis.Options{URL: of.URL, User: of.User, Password: password, TLS: secure}
	if of.PasswordFile != "" {
		options.ReadPassword = func() (string, error) { return passwordIn(of.PasswordFile) }
	}
	return func() ([]ordered.Log, error) {
		return redisstream.Open(redisstream.Options{Redis: options, Keys: of.Keys, Field: of.Field})
	}, nil
}

func natsStream(s *config.Source) (func() ([]ordered.Log, error), error) {
	of := &s.NATS
	options := jetstream.Options{URL: of.URL, Stream: of.Stream, Subject: of.Subject, User: of.User, Credentials: of.CredentialsFile}
	if encryption := s.TLS.Client(); encryption.On || strings.HasPrefix(of.URL, "tls://") {
		secure, err := clientTLS(&encryption)
		if err != nil {
			return nil, err
		}
		options.TLS = secure
	}

	secret := func(path string) func() (string, error) {
		if path == "" {
			return nil
		}
		return func() (string, error) { return passwordIn(path) }
	}
	options.Password, options.Token = secret(of.PasswordFile), secret(of.TokenFile)
	for _, path := range []string{of.PasswordFile, of.TokenFile, of.CredentialsFile} {
		if _, err := passwordIn(path); err != nil { // at the start, not only in the status
			return nil, err
		}
	}
	return func() ([]ordered.Log, error) {
		log, err := jetstream.Open(options)
		return []ordered.Log{log}, err
	}, nil
}

func rabbitStream(s *config.Source) (func() ([]ordered.Log, error), error) {
	of := &s.AMQP
	options := rabbit.Options{URL: of.URL, Queue: of.Queue, Acknowledge: of.Acknowledge, User: of.User, Password: func() (string, error) { return passwordIn(of.PasswordFile) }}
	if _, err := options.Password(); err != nil { // at the start, not only in the status
		return nil, err
	}
	if encryption := s.TLS.Client(); encryption.On {
		secure, err := clientTLS(&encryption)
		if err != nil {
			return nil, err
		}
		options.TLS = secure
	}
	return func() ([]ordered.Log, error) {
		log, err := rabbit.Open(options)
		return []ordered.Log{log}, err
	}, nil
}

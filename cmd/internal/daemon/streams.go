package daemon

import (
	"weir/cmd/internal/config"
	"weir/internal/store/redis"
	"weir/pkg/collector/ordered"
	"weir/pkg/collector/pipeline"
	"weir/pkg/collector/redisstream"
)

// OpenStreams opens the logs of a source that another server keeps.
func OpenStreams(s *config.Source) ([]ordered.Log, error) {
	open, err := redisStreams(s)
	if err != nil {
		return nil, err
	}
	return open()
}

// redisSource makes the configuration of a source that reads streams of a Redis.
func redisSource(s *config.Source, start pipeline.Start) (*ordered.Config, error) {
	open, err := redisStreams(s)
	return &ordered.Config{Kind: s.Kind(), Start: start, Open: open}, err
}

// redisStreams returns what opens the streams of a source.
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

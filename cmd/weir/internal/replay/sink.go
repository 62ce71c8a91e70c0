package replay

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/internal/origin"
)

// sink opens the sink that the flags select.
func (s *sendCommand) sink(c *cobra.Command) (sink, error) {
	if s.topic != "" {
		settings, err := s.live.Load()
		if err != nil {
			return nil, err
		}
		return openTopicSink(c, settings, s.topic)
	}

	to := s.to
	if to == "" {
		settings, err := s.live.Load()
		if err != nil {
			return nil, err
		}
		if to, err = httpSourceOf(settings); err != nil {
			return nil, err
		}
	}

	at, err := requestsURL(to)
	if err != nil {
		return nil, err
	}

	key, err := ask.Key(s.keyFile)
	if err != nil {
		return nil, err
	}
	return newHTTPSink(at, key), nil
}

// httpSourceOf returns the URL of the first http source of a configuration.
func httpSourceOf(settings *config.Config) (string, error) {
	for i := range settings.Collector.Sources {
		source := &settings.Collector.Sources[i]
		if source.Kind() != "http" {
			continue
		}
		secure := source.TLS.Server()
		return secure.URL(source.HTTP), nil
	}
	return "", exit.Wrongf("the configuration has no http source to send to; give --to http://127.0.0.1:7402, or --topic")
}

// requestsURL returns the URL for a collector's requests; --to may leave out the path.
func requestsURL(to string) (string, error) {
	at, err := origin.Server(to)
	if errors.Is(err, origin.ErrUser) {
		return "", exit.Wrongf("--to: %w", err)
	}
	if err != nil {
		return "", exit.Wrongf("--to %s is not the URL of a collector's http source; write it as http://127.0.0.1:7402", to)
	}
	if at.Path == "" || at.Path == "/" {
		at.Path = "/v1/requests"
	}
	return at.String(), nil
}

// ownTopic reports whether a topic is one that the parts write to.
func ownTopic(settings *config.Config, topic string) bool {
	own, prefixed := strings.CutPrefix(topic, settings.Kafka.Prefix)
	return prefixed && slices.Contains([]string{daemon.Hits, daemon.Blocklist, daemon.Events, daemon.Attempts, daemon.Evidence}, own)
}

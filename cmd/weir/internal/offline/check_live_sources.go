package offline

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"weir/cmd/internal/config"
	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/output"
	"weir/pkg/backtest"
	"weir/pkg/request"
)

// source checks that the files of a source can be read, or that its address can be listened on, or its topics at
// brokers of its own. kafka checks the other topics.
func (l *liveCheck) source(ctx context.Context, s *config.Source) {
	thing := "source " + s.Name
	patterns := s.File
	if s.Pipe() { // to open it would take lines from it
		patterns = nil
	}
	for _, pattern := range patterns {
		found, files, err := readable(pattern)
		if err == nil {
			var format string
			if format, err = l.format(ctx, s, files); format != "" {
				found += "; " + format
			}
		}
		l.judge(thing, err, found)
	}

	switch s.Kind() {
	case "kafka":
		if len(s.Brokers) > 0 {
			l.ownBrokers(ctx, s)
		}
	case "journald", "redis_stream", "nats", "amqp", "kinesis", "s3", "hdfs":
		l.streams(ctx, s)
	case "http":
		l.listens(ctx, thing, "tcp", s.HTTP)
	case "otlp":
		l.listens(ctx, thing, "tcp", s.OTLP)
	case "loki":
		l.listens(ctx, thing, "tcp", s.Loki)
	case "syslog":
		scheme, address, _ := strings.Cut(s.Syslog, "://")
		switch scheme {
		case "unix", "unixstream":
			l.folder(thing, filepath.Dir(address))
		case "udp":
			l.listens(ctx, thing, "udp", address)
		default:
			l.listens(ctx, thing, "tcp", address)
		}
	}
}

// format describes the format of the first of the files that has a request. With an error, the collector would read
// none of them.
func (l *liveCheck) format(ctx context.Context, s *config.Source, files []string) (string, error) {
	options := request.Options{Zone: s.Zone.Location, Fields: s.LineFields(), Line: s.Line, Header: l.settings.Client.Header, Stderr: s.NamesStream()}
	for _, file := range files {
		choice, err := backtest.Detect(ctx, backtest.Input{Path: file}, s.Envelope, s.Format, options)
		switch {
		case errors.Is(err, request.ErrNoRequest) || err == nil && choice.Format == "":
		case err != nil && s.Format != "auto" && choice.Format != "": // the collector reads the lines that it can
			return err.Error(), nil
		case err != nil:
			return "", err
		default:
			text := choice.String()
			if len(files) > 1 {
				text = file + ": " + text
			}
			if doubt := choice.Doubt(); doubt != "" {
				text += "; " + doubt
			}
			return text, nil
		}
	}
	return "", nil
}

// readable requires at least one file under a path or a pattern, and that all of them can be read. found describes them.
func readable(pattern string) (found string, files []string, err error) {
	paths := []string{pattern}
	isPattern := strings.ContainsAny(pattern, `*?[\`)
	if isPattern {
		if paths, err = filepath.Glob(pattern); err != nil {
			return "", nil, fmt.Errorf("%s: %w", pattern, err)
		}
	}

	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return "", nil, err
		}
		if !info.Mode().IsRegular() {
			// The collector skips folders and the like under a pattern too.
			if isPattern {
				continue
			}
			return "", nil, fmt.Errorf("%s is not a regular file", path)
		}

		file, err := os.Open(path)
		if err != nil {
			return "", nil, err
		}

		_ = file.Close() // nothing was written
		files = append(files, path)
	}

	if len(files) == 0 {
		return "", nil, fmt.Errorf("%s: no such file", pattern)
	}
	if !isPattern {
		return pattern + ": can be read", files, nil
	}

	return fmt.Sprintf("%s: %s, can be read", pattern, output.Counted(len(files), "file")), files, nil
}

// listens tries to listen on an address. While the collector runs, an address in use is the expected state.
func (l *liveCheck) listens(ctx context.Context, thing, network, address string) {
	err := tryListen(ctx, network, address)
	if errors.Is(err, syscall.EADDRINUSE) && l.collectorRuns(ctx) {
		l.holds(thing, "%s %s: in use by the collector, which runs", network, address)
		return
	}
	l.judge(thing, err, network+" "+address+": can be listened on")
}

func tryListen(ctx context.Context, network, address string) error {
	if network == "udp" {
		conn, err := (&net.ListenConfig{}).ListenPacket(ctx, network, address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, network, address)
	if err != nil {
		return err
	}
	return listener.Close()
}

func (l *liveCheck) collectorRuns(ctx context.Context) bool {
	collector := &l.settings.Collector
	if collector.Listen == "" {
		return false
	}
	_, _, err := ask.Status(ctx, collector.TLS.URL(collector.Listen)+"/status", "")
	return err == nil || errors.Is(err, ask.ErrAnswer)
}

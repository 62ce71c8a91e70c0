package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/cmd/internal/config"
	"weir/internal/keys"
	"weir/internal/telemetry"
	"weir/internal/yamlfile"
)

// rereads are files besides the configuration that are read again when they change: keys and certificates. They are
// watched by themselves, so that a key that was taken away is gone whatever is wrong with the rules.
type rereads struct {
	mu     sync.Mutex
	all    []*reread
	faulty atomic.Bool // one of them could not be read when it was looked at last
}

type reread struct {
	files []string
	again func() error
	read  string // how the files were when they were last read without a fault; notRead after one
}

// notRead is how no file ever is: one that was away, and is put back as it was, has to be read again too.
const notRead = "not read"

// add has files read again that were as read says when they were read first. Without a process that runs nothing is.
func (r *rereads) add(read string, again func() error, files ...string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, &reread{files, again, read})
}

// watch reads those again that have changed, every second until stop is called.
func (r *rereads) watch(logger *slog.Logger) (stop func()) {
	ending, ended := make(chan struct{}), make(chan struct{})
	faults := telemetry.NewFaults(logger)
	go func() {
		defer close(ended)
		ticker := time.NewTicker(lookAtFilesEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ending:
				return
			case <-ticker.C:
				r.look(logger, faults)
			}
		}
	}()

	return func() { close(ending); <-ended }
}

// look reads those again that have changed. What is faulty stays as it was, and is tried again each time.
func (r *rereads) look(logger *slog.Logger, faults *telemetry.Faults) {
	r.mu.Lock()
	defer r.mu.Unlock()
	faulty := false
	for _, one := range r.all {
		now, name := lookAt(one.files...), strings.Join(one.files, ", ")
		if now == one.read {
			continue
		}

		err := regular(one.files)
		if err == nil {
			err = one.again()
		}

		if err != nil {
			faults.Note("reading "+name, err)
			faulty, one.read = true, notRead
			continue
		}

		faults.Over("reading " + name)
		logger.Info("read the file again", "file", name)
		one.read = now
	}

	r.faulty.Store(faulty)
}

// regular says which of the files is none. Reading a named pipe would wait for ever, and a device has no end.
func regular(files []string) error {
	for _, name := range files {
		if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file", name)
		}
	}
	return nil
}

// keysOf are a file's API keys, read again when it changes; nil where there is no file.
func (p *Process) keysOf(path string) (*keys.File, error) {
	if path == "" {
		return nil, nil
	}
	before := lookAt(path)
	file, err := keys.Open(path)
	if err != nil {
		return nil, err
	}

	p.files.add(before, func() error {
		_, err := file.Reread()
		return err
	}, path)
	return file, nil
}

// serverTLS is how others connect to us, with certificates that are read again when they change; nil is unencrypted.
func (p *Process) serverTLS(t config.ServerTLS) (*tls.Config, error) {
	if t.Cert == "" {
		return nil, nil
	}
	var current atomic.Pointer[tls.Config]
	load := func() error {
		next, err := loadServerTLS(t)
		if err == nil {
			current.Store(next)
		} else if before := current.Load(); before != nil && gone(t.Clients) {
			current.Store(withoutClients(before))
		}
		return err
	}

	files := []string{t.Cert, t.Key}
	if t.Clients != "" {
		files = append(files, t.Clients)
	}

	before := lookAt(files...)
	if err := load(); err != nil {
		return nil, err
	}

	p.files.add(before, load, files...)
	outer := current.Load().Clone() // who asks whether clients show a certificate asks it
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return current.Load(), nil }
	return outer, nil
}

func loadServerTLS(t config.ServerTLS) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}

	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if t.Clients == "" {
		return c, nil
	}

	c.SessionTicketsDisabled = true // or one who was let in before other roots were given would be again
	roots, err := os.ReadFile(t.Clients)
	if err != nil {
		return nil, fmt.Errorf("reading who signs clients' certificates: %w", err)
	}

	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(roots) {
		return nil, fmt.Errorf("%s has no PEM certificate", t.Clients)
	}
	return c, nil
}

// gone says that a file is not there any more.
func gone(path string) bool {
	_, err := os.Stat(path)
	return path != "" && errors.Is(err, fs.ErrNotExist)
}

// withoutClients is the same certificate, and nobody's is believed: whoever took the roots away wants nobody to come in.
func withoutClients(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.ClientCAs = x509.NewCertPool()
	return c
}

// prefixes are networks, those of their files too.
func prefixes(networks *yamlfile.Networks) ([]netip.Prefix, error) {
	all, faults := networks.Read(func(name string) (string, []byte, error) {
		data, err := os.ReadFile(name)
		return name, data, err
	})
	if len(faults) > 0 {
		return nil, faults
	}
	return all, nil
}

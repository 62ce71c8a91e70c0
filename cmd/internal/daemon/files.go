package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
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
	"weir/internal/network"
	"weir/internal/regular"
	"weir/internal/telemetry"
)

// rereads reads files of keys and certificates again when they change. It does not depend on reloads of the configuration,
// so that a removed key loses its effect even when the rules contain a mistake.
type rereads struct {
	mu      sync.Mutex
	all     []*reread
	fault   atomic.Pointer[string] // why one of them could not be read at the last look
	refused atomic.Pointer[string] // why the configuration that was read last was refused
}

type reread struct {
	files []string
	again func() error
	read  string // lookAt of the files when they were last read; notRead after an error
}

// notRead equals no lookAt. So a file that was missing is read again even when it returns unchanged.
const notRead = "not read"

// add registers files that were just read; read is their lookAt before that. It does nothing when r is nil, as in commands
// that run no process.
func (r *rereads) add(read string, again func() error, files ...string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, &reread{files, again, read})
}

// watch reads changed files again, every second until stop is called.
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

// look reads changed files again. After an error the previous content stays active, and each look tries again.
func (r *rereads) look(logger *slog.Logger, faults *telemetry.Faults) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var fault *string
	for _, one := range r.all {
		// Looked at before reading: a change meanwhile is found at the next look.
		now, name := lookAt(one.files...), strings.Join(one.files, ", ")
		if now == one.read {
			continue
		}

		err := allRegular(one.files)
		if err == nil {
			err = one.again()
		}

		if err != nil {
			faults.Note("reading "+name, err)
			why := err.Error()
			fault, one.read = &why, notRead
			continue
		}

		faults.Over("reading " + name)
		logger.Info("read the file again", "file", name)
		one.read = now
	}

	r.fault.Store(fault)
}

func (r *rereads) faulty() bool { return r.fault.Load() != nil }

// withConfiguration adds to a status why the files of the configuration on the disk are not active.
func (r *rereads) withConfiguration(status func() any) func() any {
	return func() any {
		why := r.refused.Load()
		if why == nil {
			why = r.fault.Load()
		}
		if why == nil {
			return status()
		}
		return refusedStatus{status(), *why}
	}
}

// A refusedStatus is the status of a part whose configuration on the disk is not active.
type refusedStatus struct {
	of  any // an object in JSON
	why string
}

func (s refusedStatus) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(s.of)
	if err != nil {
		return nil, err
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	if all["refused"], err = json.Marshal(s.why); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// allRegular returns an error for a file that is not regular: reading a named pipe would never end, nor would a device.
func allRegular(files []string) error {
	for _, name := range files {
		if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", name)
		}
	}
	return nil
}

// keysOf returns a file's API keys, which are read again when it changes; nil when no file is named.
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

// serverTLS makes the settings for connections to us. Certificates are read again when they change. It returns nil when
// connections are not encrypted.
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
			// After the file of roots is deleted, no client may stay admitted.
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

	// Each handshake takes the current settings, so that a new certificate or a removed root takes effect without a
	// restart.
	outer := current.Load().Clone() // keys.AsksCertificates looks at this one
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return current.Load(), nil }
	return outer, nil
}

func loadServerTLS(t config.ServerTLS) (*tls.Config, error) {
	pair, err := regular.ReadKeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}

	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if t.Clients == "" {
		return c, nil
	}

	c.SessionTicketsDisabled = true // a ticket would let a client in again after its root was removed
	roots, err := regular.ReadFile(t.Clients)
	if err != nil {
		return nil, fmt.Errorf("reading the roots of clients' certificates: %w", err)
	}

	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(roots) {
		return nil, fmt.Errorf("%s has no PEM certificate", t.Clients)
	}
	return c, nil
}

// gone reports whether a named file does not exist any more.
func gone(path string) bool {
	_, err := os.Stat(path)
	return path != "" && errors.Is(err, fs.ErrNotExist)
}

// withoutClients returns the same settings without any trusted roots: after the file of roots is deleted no client may
// connect.
func withoutClients(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.ClientCAs = x509.NewCertPool()
	return c
}

// prefixes returns networks with those of their files.
func prefixes(networks *network.List) ([]netip.Prefix, error) {
	all, faults := networks.Read(func(name string) (string, []byte, error) {
		data, err := regular.ReadFile(name)
		return name, data, err
	})
	if len(faults) > 0 {
		return nil, faults
	}
	return all, nil
}

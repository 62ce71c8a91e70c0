package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"

	"weir/cmd/internal/config"
	"weir/internal/keys"
	"weir/internal/yamlfile"
)

// rereads are files besides the configuration that are read again when they change: keys and certificates.
type rereads struct {
	mu  sync.Mutex
	all []reread
}

type reread struct {
	files []string
	again func() error
}

func (r *rereads) add(again func() error, files ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, reread{files, again})
}

func (r *rereads) paths() (paths []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.all {
		paths = append(paths, one.files...)
	}
	return paths
}

// reread reads all again; what is faulty stays as it was.
func (r *rereads) reread() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var faults []error
	for _, one := range r.all {
		faults = append(faults, one.again())
	}
	return errors.Join(faults...)
}

// keysOf are a file's API keys, read again when it changes; nil where there is no file.
func (p *Process) keysOf(path string) (*keys.File, error) {
	if path == "" {
		return nil, nil
	}
	file, err := keys.Open(path)
	if err != nil {
		return nil, err
	}
	p.files.add(func() error {
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
		}
		return err
	}
	if err := load(); err != nil {
		return nil, err
	}
	files := []string{t.Cert, t.Key}
	if t.Clients != "" {
		files = append(files, t.Clients)
	}
	p.files.add(load, files...)
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

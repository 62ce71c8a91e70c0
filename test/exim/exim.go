// Package exim runs Debian's mail server for a test, on loopback ports.
package exim

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/mail"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// A Server is a mail server that may run. It takes mail from those who log in with User and Password over TLS, defers
// mail to later@…, and refuses mail to refused@….
type Server struct {
	StartTLS, Direct string // addresses: with STARTTLS, and with TLS from the beginning

	t       testing.TB
	program string
	folder  string
	process *exec.Cmd
}

// User and Password are those that the server knows.
const User, Password = "weir", "pass word"

const configuration = `primary_hostname = mail.example.com
spool_directory = FOLDER/spool
log_file_path = FOLDER/spool/%slog
pid_file_path = FOLDER/spool/pid
tls_certificate = FOLDER/cert.pem
tls_privatekey = FOLDER/key.pem
tls_advertise_hosts = *
tls_on_connect_ports = PORT
auth_advertise_hosts = ${if eq{$tls_in_cipher}{}{}{*}}
acl_smtp_rcpt = rcpt
acl_smtp_data = data
keep_environment =
begin acl
rcpt:
  deny local_parts = refused
  defer local_parts = later
  accept authenticated = *
  deny message = log in first
data:
  accept
begin routers
all:
  driver = accept
  transport = box
begin transports
box:
  driver = appendfile
  file = FOLDER/spool/box
  user = Debian-exim
  create_directory = false
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${if and{{eq{$auth2}{weir}}{eq{$auth3}{pass word}}}}
  server_set_id = $auth2
`

// New makes a server and its folder. It starts nothing.
func New(t testing.TB) *Server {
	t.Helper()
	program := real.Program(t, "exim4", "exim4-daemon-light")
	owner, err := user.Lookup("Debian-exim")
	if err != nil || os.Geteuid() != 0 {
		real.Missing(t, "exim starts as root, and delivers as Debian-exim")
	}
	folder, err := os.MkdirTemp("", "weir-exim") // others cannot enter the folders of t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	s := &Server{t: t, program: program, folder: folder, StartTLS: port.Reserve(t, "127.0.0.1"), Direct: port.Reserve(t, "127.0.0.1")}
	_, direct, _ := net.SplitHostPort(s.Direct)
	text := strings.NewReplacer("FOLDER", folder, "PORT", direct).Replace(configuration)
	Certificate(t, folder)
	id, _ := strconv.Atoi(owner.Uid)
	group, _ := strconv.Atoi(owner.Gid)
	err = errors.Join(os.WriteFile(filepath.Join(folder, "exim.conf"), []byte(text), 0o644), os.Chmod(folder, 0o755), os.Mkdir(filepath.Join(folder, "spool"), 0o755),
		os.Chown(filepath.Join(folder, "spool"), id, group), os.Chown(filepath.Join(folder, "key.pem"), id, group))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Certificate writes a certificate of 127.0.0.1, which is its own root, to cert.pem and key.pem in a folder.
func Certificate(t testing.TB, folder string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	is := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, is, is, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(folder, "cert.pem"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// CA is the file with the root of the server's certificate.
func (s *Server) CA() string { return filepath.Join(s.folder, "cert.pem") }

// Start starts the server, and returns when it listens.
func (s *Server) Start() *Server {
	s.t.Helper()
	dots := func(address string) string { return strings.Replace(address, ":", ".", 1) }
	var out bytes.Buffer
	s.process = exec.Command(s.program, "-C", filepath.Join(s.folder, "exim.conf"), "-bdf", "-odi", "-oX", dots(s.StartTLS)+" : "+dots(s.Direct))
	s.process.Stdout, s.process.Stderr = &out, &out
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	wait.Until(s.t, "exim listens", func() bool {
		conn, err := net.Dial("tcp", s.StartTLS)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return s
}

// Stop kills the server, if it runs.
func (s *Server) Stop() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
	}
}

// Box returns the mails of a recipient. It waits until one that is being delivered is complete.
func (s *Server) Box(name string) (mails []*mail.Message) {
	s.t.Helper()
	box, err := os.Open(filepath.Join(s.folder, "spool", "box"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	defer box.Close()
	if err := syscall.FcntlFlock(box.Fd(), syscall.F_SETLKW, &syscall.Flock_t{Type: syscall.F_RDLCK}); err != nil { // as exim does
		s.t.Fatal(err)
	}
	text, err := io.ReadAll(box)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, one := range strings.Split("\n"+string(text), "\nFrom ")[1:] {
		_, one, _ = strings.Cut(one, "\n")
		m, err := mail.ReadMessage(strings.NewReader(one))
		if err != nil {
			s.t.Fatal(err)
		}
		if strings.HasPrefix(strings.Trim(m.Header.Get("To"), "<"), name+"@") {
			mails = append(mails, m)
		}
	}
	return mails
}

package notify

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"mime"
	"net"
	"net/http"
	"net/mail"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// An exim is Debian's mail server, on loopback ports. It takes mail from those who log in, over TLS.
type exim struct {
	t                *testing.T
	program, folder  string
	starttls, direct string // addresses
	process          *exec.Cmd
}

const eximConfiguration = `primary_hostname = mail.example.com
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

func newExim(t *testing.T) *exim {
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
	e := &exim{t: t, program: program, folder: folder, starttls: port.Reserve(t, "127.0.0.1"), direct: port.Reserve(t, "127.0.0.1")}
	_, direct, _ := net.SplitHostPort(e.direct)
	text := strings.NewReplacer("FOLDER", folder, "PORT", direct).Replace(eximConfiguration)
	certificate(t, folder)
	id, _ := strconv.Atoi(owner.Uid)
	group, _ := strconv.Atoi(owner.Gid)
	err = errors.Join(os.WriteFile(filepath.Join(folder, "exim.conf"), []byte(text), 0o644), os.Chmod(folder, 0o755), os.Mkdir(filepath.Join(folder, "spool"), 0o755),
		os.Chown(filepath.Join(folder, "spool"), id, group), os.Chown(filepath.Join(folder, "key.pem"), id, group))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.stop)
	return e
}

// certificate writes a certificate of 127.0.0.1, which is its own root.
func certificate(t *testing.T, folder string) {
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

func (e *exim) start() *exim {
	e.t.Helper()
	dots := func(address string) string { return strings.Replace(address, ":", ".", 1) }
	var out bytes.Buffer
	e.process = exec.Command(e.program, "-C", filepath.Join(e.folder, "exim.conf"), "-bdf", "-odi", "-oX", dots(e.starttls)+" : "+dots(e.direct))
	e.process.Stdout, e.process.Stderr = &out, &out
	if err := e.process.Start(); err != nil {
		e.t.Fatal(err)
	}
	wait.Until(e.t, "exim listens", func() bool {
		conn, err := net.Dial("tcp", e.starttls)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return e
}

func (e *exim) stop() {
	if e.process != nil {
		_ = e.process.Process.Kill()
		_ = e.process.Wait()
		e.process = nil
	}
}

// box returns the mails of a recipient.
func (e *exim) box(name string) (mails []*mail.Message) {
	text, _ := os.ReadFile(filepath.Join(e.folder, "spool", "box"))
	for _, one := range strings.Split("\n"+string(text), "\nFrom ")[1:] {
		_, one, _ = strings.Cut(one, "\n")
		m, err := mail.ReadMessage(strings.NewReader(one))
		if err != nil {
			e.t.Fatal(err)
		}
		if strings.HasPrefix(strings.Trim(m.Header.Get("To"), "<"), name+"@") {
			mails = append(mails, m)
		}
	}
	return mails
}

func (e *exim) target(t *testing.T, to ...string) *Mail {
	return &Mail{Server: e.starttls, From: "Weir <weir@example.com>", To: to, User: "weir", PasswordFile: secretFile(t, "pass word"), CA: filepath.Join(e.folder, "cert.pem")}
}

func TestMailsByEximAreWhole(t *testing.T) {
	t.Parallel()
	e := newExim(t).start()
	m := messageOf(event("203.0.113.7"), event("ключ\r\n<b>"))
	direct := e.target(t, "b@example.com")
	direct.Server, direct.TLS = e.direct, MailImplicit
	for name, target := range map[string]*Mail{"a": e.target(t, "a@example.com"), "b": direct} {
		if _, err := target.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the mail is there", func() bool { return len(e.box(name)) == 1 })
		got := e.box(name)[0]
		subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
		if err != nil || subject != "[Weir] per-ip: 2 blocked" || got.Header.Get("Message-ID") != "<"+m.ID+"@example.com>" || got.Header.Get("Auto-Submitted") != "auto-generated" {
			t.Errorf("%v %v", got.Header, err)
		}
	}
}

func TestMailsThatEximDoesNotTake(t *testing.T) {
	t.Parallel()
	e := newExim(t).start()
	m := messageOf(event("203.0.113.7"))
	wrong, unknown, clear := e.target(t, "c@example.com"), e.target(t, "c@example.com"), e.target(t, "c@example.com")
	wrong.PasswordFile = secretFile(t, "SECRET")
	unknown.CA = ""
	clear.TLS = MailClear
	for name, test := range map[string]struct {
		target  *Mail
		refused bool
	}{
		"one of two is refused": {e.target(t, "c@example.com", "refused@example.com"), true},
		"later":                 {e.target(t, "later@example.com"), false},
		"a wrong password":      {wrong, false},
		"an unknown authority":  {unknown, false},
		"a login in the clear":  {clear, false},
	} {
		_, err := test.target.Send(t.Context(), m)
		if err == nil || errors.Is(err, errRefused) != test.refused || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := e.box("c"); len(got) > 0 {
		t.Errorf("%d mails came", len(got))
	}
}

// While exim is away, mails wait; none is lost, and none comes twice.
func TestMailsWaitForExim(t *testing.T) {
	t.Parallel()
	l, e := newLog(t), newExim(t)
	r := to("ops", e.target(t, "ops@example.com"))
	r.Timeout = 5 * time.Second
	n, _ := l.start(r)
	l.write(blocklist.EventBlocked, time.Now(), entry("per-ip", "203.0.113.1"))
	wait.Until(t, "it fails", func() bool { return n.Status()[0].Error != "" })
	l.write(blocklist.EventBlocked, time.Now(), entry("login", "203.0.113.2"))
	e.start()
	wait.Until(t, "both came", func() bool { return len(e.box("ops")) == 2 })
	if ids := e.box("ops"); ids[0].Header.Get("Message-ID") == ids[1].Header.Get("Message-ID") {
		t.Error("two mails have one id")
	}
}

// A stand-in for a mail server that hangs, drips, or offers no TLS.
func TestMailServersThatMisbehave(t *testing.T) {
	t.Parallel()
	for name, behave := range map[string]func(net.Conn){
		"hangs": func(c net.Conn) { c.Read(make([]byte, 1)) },
		"drips": func(c net.Conn) {
			for _, err := c.Write([]byte("2")); err == nil; _, err = c.Write([]byte("2")) {
				time.Sleep(10 * time.Millisecond)
			}
		},
		"offers no TLS": func(c net.Conn) {
			fmt.Fprint(c, "220 mail\r\n")
			c.Read(make([]byte, 512))
			fmt.Fprint(c, "250-mail\r\n250 AUTH PLAIN\r\n")
			line := make([]byte, 512)
			for n, err := c.Read(line); err == nil; n, err = c.Read(line) {
				if strings.HasPrefix(string(line[:n]), "AUTH") {
					t.Errorf("it logs in without TLS: %q", line[:n])
				}
				fmt.Fprint(c, "502 no\r\n")
			}
		},
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		served := make(chan struct{})
		go func() {
			defer close(served)
			if conn, err := listener.Accept(); err == nil {
				behave(conn)
				conn.Close()
			}
		}()
		r := to("ops", &Mail{Server: listener.Addr().String(), From: "a@example.com", To: []string{"b@example.com"}, User: "weir", PasswordFile: secretFile(t, "p")})
		if _, err := r.Try(t.Context(), messageOf(event("a"))); err == nil {
			t.Errorf("%s: no error", name)
		}
		<-served // because the connection was closed
	}
}

// Of a mail server that sends without end, little is read, encrypted or not.
func TestRepliesOfMailServersAreBounded(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	certificate(t, folder)
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		hello, flood string
		way          MailTLS
	}{
		"a line":                  {"", strings.Repeat("2", 64<<10), MailOffered},
		"lines":                   {"", strings.Repeat("220-mail\r\n", 6<<10), MailOffered},
		"extensions":              {"220 mail\r\n", strings.Repeat("250-SIZE\r\n", 6<<10), MailStartTLS},
		"lines over implicit TLS": {"", strings.Repeat("220-mail\r\n", 6<<10), MailImplicit},
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		if test.way == MailImplicit {
			listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
		}
		sent := make(chan int)
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				close(sent)
				return
			}
			total, err := fmt.Fprint(conn, test.hello)
			for err == nil && total < 64<<20 {
				var n int
				n, err = fmt.Fprint(conn, test.flood)
				total += n
			}
			conn.Close()
			sent <- total
		}()
		r := to("ops", &Mail{Server: listener.Addr().String(), From: "a@example.com", To: []string{"b@example.com"}, TLS: test.way, CA: filepath.Join(folder, "cert.pem")})
		r.Timeout = time.Minute
		if _, err := r.Try(t.Context(), messageOf(event("a"))); err == nil || !strings.Contains(err.Error(), "without end") {
			t.Errorf("%s: %v", name, err)
		}
		if n := <-sent; n >= 64<<20 { // the rest is in the kernel's buffers
			t.Errorf("%s: it could send %d bytes", name, n)
		}
	}
}

// A real Alertmanager has an alert as long as the block lasts.
func TestAlertmanagerHasBlocks(t *testing.T) {
	t.Parallel()
	program := real.Program(t, "prometheus-alertmanager", "prometheus-alertmanager")
	folder, address := t.TempDir(), port.Reserve(t, "127.0.0.1")
	file := filepath.Join(folder, "alertmanager.yml")
	if err := os.WriteFile(file, []byte("route: {receiver: none}\nreceivers: [{name: none}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	manager := exec.Command(program, "--config.file="+file, "--storage.path="+folder, "--web.listen-address="+address, "--cluster.listen-address=")
	manager.Stdout, manager.Stderr = &out, &out
	if err := manager.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = manager.Process.Kill(); _ = manager.Wait() }()
	keys := func() (keys []string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v2/alerts", http.NoBody)
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err != nil {
			return []string{"away"}
		}
		defer response.Body.Close()
		var alerts []struct{ Labels map[string]string }
		if err := json.NewDecoder(response.Body).Decode(&alerts); err != nil {
			t.Error(err)
		}
		for _, a := range alerts {
			keys = append(keys, a.Labels["alertname"]+" "+a.Labels["key"])
		}
		return keys
	}
	wait.Until(t, "Alertmanager answers", func() bool { return len(keys()) == 0 })

	l := newLog(t)
	r := to("alerts", &Alertmanager{Server{URL: "http://" + address}})
	r.Timeout = 5 * time.Second
	l.start(r)
	blocked := entry("per-ip", "203.0.113.7\"}<b>")
	l.write(blocklist.EventBlocked, time.Now(), blocked)
	wait.Until(t, "an alert", func() bool { got := keys(); return len(got) == 1 && got[0] == "WeirBlocked "+blocked.Key })
	blocked.Ended = time.Now().UnixMilli()
	l.write(blocklist.EventLifted, time.Now(), blocked)
	wait.Until(t, "no alert", func() bool { return len(keys()) == 0 })
}

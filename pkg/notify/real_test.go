package notify

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/test/exim"
	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

func mailTo(t *testing.T, e *exim.Server, to ...string) *Mail {
	return &Mail{Server: e.StartTLS, From: "Weir <weir@example.com>", To: to, User: exim.User, PasswordFile: secretFile(t, exim.Password), CA: e.CA()}
}

func TestMailsByEximAreWhole(t *testing.T) {
	t.Parallel()
	e := exim.New(t).Start()
	m := messageOf(event("203.0.113.7"), event("ключ\r\n<b>"))
	direct := mailTo(t, e, "b@example.com")
	direct.Server, direct.TLS = e.Direct, MailImplicit
	for name, target := range map[string]*Mail{"a": mailTo(t, e, "a@example.com"), "b": direct} {
		if _, err := target.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the mail is there", func() bool { return len(e.Box(name)) == 1 })
		got := e.Box(name)[0]
		subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
		if err != nil || subject != "[Weir] per-ip: 2 blocked" || got.Header.Get("Message-ID") != "<"+m.ID+"@example.com>" || got.Header.Get("Auto-Submitted") != "auto-generated" {
			t.Errorf("%v %v", got.Header, err)
		}
	}
}

func TestMailsThatEximDoesNotTake(t *testing.T) {
	t.Parallel()
	e := exim.New(t).Start()
	m := messageOf(event("203.0.113.7"))
	wrong, unknown, clear := mailTo(t, e, "c@example.com"), mailTo(t, e, "c@example.com"), mailTo(t, e, "c@example.com")
	wrong.PasswordFile = secretFile(t, "SECRET")
	unknown.CA = ""
	clear.TLS = MailClear
	for name, test := range map[string]struct {
		target  *Mail
		refused bool
	}{
		"one of two is refused": {mailTo(t, e, "c@example.com", "refused@example.com"), true},
		"later":                 {mailTo(t, e, "later@example.com"), false},
		"a wrong password":      {wrong, false},
		"an unknown authority":  {unknown, false},
		"a login in the clear":  {clear, false},
	} {
		_, err := test.target.Send(t.Context(), m)
		if err == nil || errors.Is(err, errRefused) != test.refused || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := e.Box("c"); len(got) > 0 {
		t.Errorf("%d mails came", len(got))
	}
}

// While exim is away, mails wait; none is lost, and none comes twice.
func TestMailsWaitForExim(t *testing.T) {
	t.Parallel()
	l, e := newLog(t), exim.New(t)
	r := to("ops", mailTo(t, e, "ops@example.com"))
	r.Timeout = 5 * time.Second
	n, _ := l.start(r)
	l.write(blocklist.EventBlocked, time.Now(), entry("per-ip", "203.0.113.1"))
	wait.Until(t, "it fails", func() bool { return n.Status()[0].Error != "" })
	l.write(blocklist.EventBlocked, time.Now(), entry("login", "203.0.113.2"))
	e.Start()
	wait.Until(t, "both came", func() bool { return len(e.Box("ops")) == 2 })
	if ids := e.Box("ops"); ids[0].Header.Get("Message-ID") == ids[1].Header.Get("Message-ID") {
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

// A mail server that wants very many iterations of SCRAM gets an error at once, and takes no processor.
func TestAMailServerThatWantsManyIterations(t *testing.T) {
	t.Parallel()
	for iterations, want := range map[string]string{"4096": "proves", "2000000000": "iterations", "99999999999999999999": "iterations"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "220 mail\r\n")
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				line := strings.TrimPrefix(lines.Text(), "AUTH SCRAM-SHA-256 ")
				first, err := base64.StdEncoding.DecodeString(line)
				_, nonce, found := strings.Cut(string(first), "r=")
				switch {
				case strings.HasPrefix(line, "EHLO"):
					fmt.Fprint(conn, "250-mail\r\n250 AUTH PLAIN SCRAM-SHA-256\r\n")
				case strings.HasPrefix(line, "AUTH"):
					fmt.Fprint(conn, "334 \r\n")
				case err == nil && strings.Contains(nonce, ",p="):
					fmt.Fprint(conn, "535 it proves that it knows the password\r\n")
				case err == nil && found:
					fmt.Fprintf(conn, "334 %s\r\n", base64.StdEncoding.EncodeToString([]byte("r="+nonce+"x,s=QUJDRA==,i="+iterations)))
				default:
					fmt.Fprint(conn, "500 no\r\n")
				}
			}
		}()
		r := to("ops", &Mail{Server: listener.Addr().String(), From: "a@example.com", To: []string{"b@example.com"}, TLS: MailOffered, User: "weir", PasswordFile: secretFile(t, "p")})
		r.Timeout = 5 * time.Second
		ended := make(chan error, 1)
		go func() {
			_, err := r.Try(t.Context(), messageOf(event("a")))
			ended <- err
		}()
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", iterations, err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: it takes 20 s and more", iterations)
		}
	}
}

// Of a mail server that sends without end, little is read, encrypted or not.
func TestRepliesOfMailServersAreBounded(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	exim.Certificate(t, folder)
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

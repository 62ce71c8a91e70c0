package redis

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"weir/internal/store"
	"weir/internal/store/redis/redistest"
	"weir/test/wait"
)

func set(key, value string) store.Change {
	return store.Change{Space: store.Windows, Key: []byte(key), Value: []byte(value)}
}

func take(t *testing.T, s *Store) store.Fence {
	t.Helper()
	fence, err := s.Take(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fence
}

func TestAServerThatEvictsIsRefused(t *testing.T) {
	server := redistest.Start(t)
	for _, policy := range []string{"allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"} {
		if err := server.Client.ConfigSet(ctx, "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		s, err := Open(ctx, Options{URL: "redis://" + server.Addr})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), policy) || !strings.Contains(err.Error(), "set maxmemory-policy noeviction") {
			t.Errorf("%s: %v", policy, err)
		}
	}
	server.Client.ConfigSet(ctx, "maxmemory-policy", "noeviction")
	open(t, Options{URL: "redis://" + server.Addr}).Close()
}

func TestAFullServerWritesNothing(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, Options{URL: "redis://" + server.Addr})
	defer s.Close()
	fence := take(t, s)
	server.Client.ConfigSet(ctx, "maxmemory", "1mb")
	if _, err := s.Write(ctx, 0, fence, []store.Change{set("key", "value")}); err == nil || errors.Is(err, store.ErrFenced) {
		t.Errorf("a full server: %v", err)
	}
	server.Client.ConfigSet(ctx, "maxmemory", "0")
	values, found, err := s.Read(ctx, 0, store.Windows, [][]byte{[]byte("key")})
	if err != nil || values[0] != nil || found != fence {
		t.Errorf("%q at %v, %v", values, found, err)
	}
	if _, err := s.Write(ctx, 0, fence, []store.Change{set("key", "value")}); err != nil {
		t.Error(err)
	}
}

// A server that is killed loses the lost part of its append-only file. Its owner notices with the next write, and the
// server has the state of an earlier fence.
func TestAServerThatWentBack(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, Options{URL: "redis://" + server.Addr})
	defer s.Close()
	fence := take(t, s)
	keys := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
	for n := range 20 {
		var changes []store.Change
		for _, key := range keys {
			changes = append(changes, set(string(key), fmt.Sprint(n+1, strings.Repeat("x", n*10))))
		}
		var err error
		if fence, err = s.Write(ctx, 0, fence, changes); err != nil {
			t.Fatal(err)
		}
	}
	server.Kill()
	if _, err := s.Write(ctx, 0, fence, nil); err == nil || errors.Is(err, store.ErrFenced) {
		t.Errorf("a server that is away: %v", err)
	}
	server.Restart()
	next, err := s.Write(ctx, 0, fence, nil)
	if err != nil {
		t.Fatalf("a server that has lost nothing: %v", err)
	}
	server.Kill()
	cutLog(t, server, 1000)
	server.Restart()
	found, err := s.Write(ctx, 0, next, []store.Change{set("a", "z")})
	if !errors.Is(err, store.ErrFenced) || found.Owner != fence.Owner || found.N == 0 || found.N >= fence.N {
		t.Fatalf("after %v: %v, %v", next, found, err)
	}
	values, _, err := s.Read(ctx, 0, store.Windows, keys)
	if err != nil {
		t.Fatal(err)
	}
	for n, value := range values {
		if want := fmt.Sprint(found.N, strings.Repeat("x", int(found.N-1)*10)); string(value) != want {
			t.Errorf("at %v, %s is %q", found, keys[n], value)
		}
	}
	take(t, s)
}

// cutLog removes bytes from the end of a server's append-only file.
func cutLog(t *testing.T, server *redistest.Server, bytes int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(server.Folder, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	info, err := os.Stat(files[0])
	if err == nil {
		err = os.Truncate(files[0], info.Size()-bytes)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAServerThatWasEmptied(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, Options{URL: "redis://" + server.Addr})
	defer s.Close()
	fence := take(t, s)
	server.Client.FlushAll(ctx)
	if found, err := s.Write(ctx, 0, fence, []store.Change{set("a", "z")}); !errors.Is(err, store.ErrFenced) || found != (store.Fence{}) {
		t.Errorf("%v, %v", found, err)
	}
	server.Client.ScriptFlush(ctx)
	if again := take(t, s); again.Epoch != 1 || again.Owner == fence.Owner {
		t.Errorf("after %v, %v", fence, again)
	}
}

func TestAnotherLayoutIsRefused(t *testing.T) {
	server := redistest.Start(t)
	server.Client.Set(ctx, "other::layout", "2", 0)
	if _, err := Open(ctx, Options{URL: "redis://" + server.Addr, Prefix: "other:"}); !errors.Is(err, store.ErrForeign) {
		t.Error(err)
	}
	open(t, Options{URL: "redis://" + server.Addr}).Close()
	server.Client.Set(ctx, "weir:{0}f", "new-style", 0)
	s := open(t, Options{URL: "redis://" + server.Addr})
	defer s.Close()
	if _, err := s.Take(ctx, 0); !errors.Is(err, store.ErrForeign) {
		t.Error(err)
	}
}

func TestRefusedConnections(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "s3cret", "--user", "weir", "on", ">pass", "~weir:*", "+@all", "-@dangerous", "+info")
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"no password":    {Options{URL: "redis://" + server.Addr}, "NOAUTH"},
		"wrong password": {Options{URL: "redis://" + server.Addr, Password: "wr0ng"}, "WRONGPASS"},
		"nobody there":   {Options{URL: "redis://" + noListener(t)}, "refused"},
		"no TLS there":   {Options{URL: "rediss://" + server.Addr}, "does not speak TLS"},
		"another prefix": {Options{URL: "redis://" + server.Addr, User: "weir", Password: "pass", Prefix: "x:"}, "NOPERM"},
	} {
		s, err := Open(ctx, c.o)
		if err == nil {
			s.Close()
			t.Errorf("%s: opened", name)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "wr0ng") {
			t.Errorf("%s: %v", name, err)
		}
	}
	open(t, Options{URL: "redis://" + server.Addr, Password: "s3cret"}).Close()
	open(t, Options{URL: "redis://:s3cret@" + server.Addr}).Close()
	s := open(t, Options{URL: "redis://" + server.Addr, User: "weir", Password: "pass"})
	defer s.Close()
	take(t, s)
}

// A password that changes while the store is open is used for the next connection. A file that is gone, or that can be
// read only once, changes nothing.
func TestPasswordChanges(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "before")
	password, fault := "", errors.New("no such file")
	s := open(t, Options{URL: "redis://" + server.Addr, Password: "before", ReadPassword: func() (string, error) { return password, fault }})
	defer s.Close()
	take(t, s)

	admin := goredis.NewClient(&goredis.Options{Addr: server.Addr, Password: "before"})
	defer admin.Close()
	if err := errors.Join(admin.ConfigSet(ctx, "requirepass", "after").Err(), admin.Do(ctx, "client", "kill", "type", "normal").Err()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Take(ctx, 0); err == nil {
		if _, err = s.Take(ctx, 0); err == nil {
			t.Fatal("the old password is accepted")
		}
	}
	password, fault = "after", nil
	wait.Until(t, "the new password is used", func() bool {
		_, err := s.Take(ctx, 0)
		return err == nil
	})
}

// noListener returns an address without a listener.
func noListener(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestTLS(t *testing.T) {
	certificate, key, roots := selfSigned(t)
	port := strings.Split(noListener(t), ":")[1]
	redistest.Start(t, "--tls-port", port, "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", certificate, "--tls-auth-clients", "no")
	url := "rediss://127.0.0.1:" + port
	if _, err := Open(ctx, Options{URL: url}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority: %v", err)
	}
	s := open(t, Options{URL: url, TLS: &tls.Config{RootCAs: roots}})
	defer s.Close()
	take(t, s)
}

func selfSigned(t *testing.T) (certificate, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(t.TempDir(), "c.pem"), filepath.Join(t.TempDir(), "k.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	if err := errors.Join(os.WriteFile(certificate, text, 0o600), os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600)); err != nil {
		t.Fatal(err)
	}
	return certificate, key, roots
}

func TestOnlyBucketsExpire(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, Options{URL: "redis://" + server.Addr, Expire: time.Hour})
	defer s.Close()
	fence := take(t, s)
	changes := []store.Change{set("short", "x"), set("long", strings.Repeat("x", 100)), {Space: store.Notes, Key: []byte("checkpoint"), Value: []byte("x")}}
	if _, err := s.Write(ctx, 0, fence, changes); err != nil {
		t.Fatal(err)
	}
	for _, key := range server.Client.Keys(ctx, "*").Val() {
		expiry := server.Client.PTTL(ctx, key).Val()
		bucket := !strings.HasSuffix(key, "}f") && key != "weir::layout"
		if bucket != (expiry > 0) || expiry > time.Hour {
			t.Errorf("%s expires after %v", key, expiry)
		}
	}
	s.expire = 0
	if _, err := s.Write(ctx, 0, fence.Next(), []store.Change{set("other", "x")}); err != nil {
		t.Fatal(err)
	}
	if n := len(server.Client.Keys(ctx, "weir:{0}w*").Val()); n != 2 {
		t.Errorf("%d buckets, want 2", n)
	}
}

// The aim is 120 bytes. It is met only while Redis packs the buckets, so they may contain nothing long.
func TestBytesPerColdKey(t *testing.T) {
	const keys = 1_000_000
	server := redistest.Start(t)
	s := open(t, Options{URL: "redis://" + server.Addr})
	defer s.Close()
	empty := server.Memory()
	fill(t, s, keys)
	perKey := float64(server.Memory()-empty) / keys
	t.Logf("%.1f bytes a key", perKey)
	if perKey > 120 {
		t.Errorf("%.1f bytes a key, 120 are promised", perKey)
	}
	long, fence := set("long", strings.Repeat("x", 65)), take(t, s)
	if _, err := s.Write(ctx, 0, fence, []store.Change{long, set(strings.Repeat("x", 65), "value"), set("short", strings.Repeat("x", 64))}); err != nil {
		t.Fatal(err)
	}
	for _, key := range server.Client.Keys(ctx, "weir:{0}w*").Val() {
		if encoding := server.Client.ObjectEncoding(ctx, key).Val(); encoding != "listpack" {
			t.Fatalf("%s is kept as %s", key, encoding)
		}
	}
}

// A call without an answer in time ends; nothing is sent twice.
func TestAServerThatHangs(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, Options{URL: "redis://" + server.Addr})
	defer s.Close()
	fence := take(t, s)
	server.Client.Do(ctx, "CLIENT", "PAUSE", "2000", "WRITE")
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := s.Write(short, 0, fence, []store.Change{set("a", "1")}); err == nil || errors.Is(err, store.ErrFenced) {
		t.Errorf("a server that hangs: %v", err)
	}
	server.Client.Do(ctx, "CLIENT", "UNPAUSE")
	values, found, err := s.Read(ctx, 0, store.Windows, [][]byte{[]byte("a")})
	if err != nil || found != fence.Next() && found != fence || (values[0] != nil) != (found == fence.Next()) {
		t.Errorf("%q at %v, %v", values, found, err)
	}
}

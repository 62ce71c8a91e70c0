package sqlserver

import (
	"context"
	"net/url"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of Server.Admin

	"weir/test/real"
)

// Postgres starts a PostgreSQL that does not sync its disk. Settings, as fsync=on, can change that.
func Postgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	bin := postgresBin(t)
	s := newServer(t, filepath.Join(bin, "postgres"), "postgres")
	s.driver = "pgx"
	data := filepath.Join(s.Folder, "data")
	s.run(filepath.Join(bin, "initdb"), "--pgdata", data, "--username", "postgres", "--auth-host", "scram-sha-256",
		"--auth-local", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")

	host, number := s.hostPort()
	certificate, key := s.certify()
	s.args = []string{"-D", data}
	for _, setting := range append([]string{
		"listen_addresses=" + host, "port=" + number, "unix_socket_directories=" + s.Folder, "fsync=off", "max_connections=300",
		"ssl=on", "ssl_cert_file=" + certificate, "ssl_key_file=" + key,
	}, settings...) {
		s.args = append(s.args, "-c", setting)
	}

	admin := "user=postgres host=" + s.Folder + " port=" + number + " database="
	s.ping = func(ctx context.Context) error {
		c, err := pgx.Connect(ctx, admin+"postgres")
		if err == nil {
			_ = c.Close(ctx)
		}
		return err
	}
	s.Restart()

	s.admin = admin + "postgres"
	s.Admin(t, "CREATE ROLE "+User+" LOGIN PASSWORD '"+Password+"'", "CREATE DATABASE "+Database+" OWNER "+User)
	s.admin = admin + Database
	s.URL = (&url.URL{Scheme: "postgres", User: url.UserPassword(User, Password), Host: s.Addr, Path: "/" + Database}).String()
	return s
}

// postgresBin is the folder of PostgreSQL's programs, which Debian keeps out of the path.
func postgresBin(t testing.TB) string {
	t.Helper()
	if versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(versions) > 0 {
		return filepath.Dir(slices.Max(versions))
	}
	return filepath.Dir(real.Program(t, "initdb", "postgresql"))
}

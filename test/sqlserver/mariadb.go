package sqlserver

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"

	"weir/test/real"
)

// MariaDB starts a MariaDB that does not sync its disk. Options, as --innodb-flush-log-at-trx-commit=1, can change that.
func MariaDB(t testing.TB, options ...string) *Server {
	t.Helper()
	s := newServer(t, real.Program(t, "mariadbd", "mariadb-server"), "mysql")
	data, socket := filepath.Join(s.Folder, "data"), filepath.Join(s.Folder, "socket")
	tmp := "--tmpdir=" + s.Folder // in a common one, a server that starts deletes the tables of others
	s.run("mariadb-install-db", "--no-defaults", "--datadir="+data, tmp, "--auth-root-authentication-method=normal", "--skip-test-db",
		"--innodb-log-file-size=32M")

	host, number := s.hostPort()
	certificate, key := s.certify()
	s.args = append([]string{"--no-defaults", "--datadir=" + data, tmp, "--socket=" + socket, "--bind-address=" + host, "--port=" + number,
		"--skip-name-resolve", "--innodb-flush-log-at-trx-commit=2", "--innodb-log-file-size=32M", "--max-connections=300",
		"--ssl-cert=" + certificate, "--ssl-key=" + key, "--pid-file=" + filepath.Join(s.Folder, "pid")}, options...)
	admin := mysql.NewConfig()
	admin.User, admin.Net, admin.Addr = "root", "unix", socket
	s.driver, s.admin = "mysql", admin.FormatDSN()
	s.ping = func(ctx context.Context) error {
		db, err := sql.Open(s.driver, s.admin)
		if err != nil {
			return err
		}
		defer func() { _ = db.Close() }()
		return db.PingContext(ctx)
	}
	s.Restart()
	s.Admin(t, "CREATE DATABASE "+Database, "CREATE USER "+User+"@'%' IDENTIFIED BY '"+Password+"'",
		"GRANT ALL ON "+Database+".* TO "+User+"@'%'")

	dsn := mysql.NewConfig()
	dsn.User, dsn.Passwd, dsn.Net, dsn.Addr, dsn.DBName = User, Password, "tcp", s.Addr, Database
	s.URL = dsn.FormatDSN()
	return s
}

package edges

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/test/real"
	"weir/test/wait"
)

// A namespace is a network with nothing in it but its loopback, where the enforcer has its usual address. A firewall in
// it affects no other process.
type namespace struct{ ip, name string }

// passes is set in a process of this program that forwards connections inside of a namespace: to the unix socket that
// it names.
const passes = "WEIR_EDGES_PASSES"

func TestMain(m *testing.M) {
	if socket := os.Getenv(passes); socket != "" {
		l, err := net.Listen("tcp", "127.0.0.1:7421")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("listening")
		passOn(l, "unix", socket)
		return
	}
	os.Exit(m.Run())
}

// newNamespace makes one for a site and removes it with the test.
func (s *site) newNamespace() namespace {
	t := s.t
	t.Helper()
	n := namespace{program(t, "ip", "iproute2"), fmt.Sprintf("weir-%d-%d", os.Getpid(), time.Now().UnixNano())}
	if out, err := exec.Command(n.ip, "netns", "add", n.name).CombinedOutput(); err != nil {
		real.Missing(t, fmt.Sprintf("a network namespace of one's own needs root: %v %s", err, out))
	}
	t.Cleanup(func() { _ = exec.Command(n.ip, "netns", "del", n.name).Run() })
	if out, err := exec.Command(n.ip, "-n", n.name, "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go passOn(l, "tcp", s.address)
	t.Setenv(passes, socket)
	said := run(t, n.ip, n.within(os.Args[0])...)
	wait.Until(t, "connections are passed on", func() bool { return strings.Contains(said.String(), "listening") })
	if err := os.Unsetenv(passes); err != nil {
		t.Fatal(err)
	}
	return n
}

// within are the arguments with which ip runs a program in the namespace.
func (n namespace) within(command ...string) []string {
	return append([]string{"netns", "exec", n.name}, command...)
}

// passOn forwards connections to an address.
func passOn(l net.Listener, network, address string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial(network, address)
		if err != nil {
			in.Close()
			continue
		}
		go pass(in, out)
		go pass(out, in)
	}
}

func pass(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	from.Close()
	to.Close()
}

// Package dns runs a DNS server for tests: dnsmasq, with records that the test names and no others.
package dns

import (
	"net"
	"os/exec"
	"testing"

	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// Start runs a server until the test ends, and returns its address. Records are flags of dnsmasq, such as
// --host-record=NAME,ADDRESS, which also names the address, and --ptr-record=REVERSED.in-addr.arpa,NAME. Other names do
// not exist.
func Start(t testing.TB, records ...string) (address string) {
	t.Helper()
	program := real.Program(t, "dnsmasq", "dnsmasq-base")
	address = port.Reserve(t, "127.0.0.1")
	_, number, _ := net.SplitHostPort(address)
	server := exec.Command(program, append([]string{"--keep-in-foreground", "--conf-file=/dev/null", "--pid-file=", "--user=", "--no-hosts", "--no-resolv", "--local=/#/",
		"--bind-interfaces", "--listen-address=127.0.0.1", "--port=" + number, "--log-facility=-"}, records...)...)
	server.Stderr = t.Output()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	wait.Until(t, "the DNS server listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return address
}

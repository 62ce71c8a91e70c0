//go:build linux

package nftables

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/test/blocked"
	"weir/test/wait"
)

// neighbour starts a network beyond this one, at 192.0.N.2, which reaches others through us, and returns its process
// id.
func neighbour(t *testing.T, n int) int {
	t.Helper()
	holder := exec.Command("sleep", "60")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	there := fmt.Sprintf("nsenter -t %d -n ", holder.Process.Pid)
	for _, line := range []string{
		fmt.Sprintf("ip link add veth%d type veth peer name out netns %d", n, holder.Process.Pid),
		fmt.Sprintf("ip address add 192.0.%d.1/24 dev veth%d", n, n),
		fmt.Sprintf("ip link set veth%d up", n),
		there + fmt.Sprintf("ip address add 192.0.%d.2/24 dev out", n),
		there + "ip link set out up",
		there + fmt.Sprintf("ip route add default via 192.0.%d.1", n),
	} {
		sh(t, line)
	}
	return holder.Process.Pid
}

// within runs a function in the network of a process.
func within(t *testing.T, process int, do func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", process))
		if err == nil {
			err = unix.Setns(int(network.Fd()), unix.CLONE_NEWNET)
			_ = network.Close()
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// When the network that a client shares with the router is blocked, the machine and the router still find each other: clients
// behind the router are served. The machine, which may be in that network too, reaches itself.
func TestNeighboursOfABlockedNetworkAreFound(t *testing.T) {
	needKernel(t)
	router := neighbour(t, 4)
	there := fmt.Sprintf("nsenter -t %d -n ", router)
	for _, line := range []string{
		"ip link set lo up",
		"ip address add 2001:db8:4::1/64 dev veth4 nodad",
		there + "ip link set lo up",
		there + "ip address add 2001:db8:4::2/64 dev out nodad",
		there + "ip address add 2001:db8:99::9/128 dev lo nodad",
		"ip route add 2001:db8:99::/64 via 2001:db8:4::2",
	} {
		sh(t, line)
	}
	server, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.ParseIP("2001:db8:4::1")})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	defer func() { _ = server.Close(); <-ended }()
	go func() {
		defer close(ended)
		for hello := make([]byte, 16); ; {
			_, from, err := server.ReadFromUDP(hello)
			if err != nil {
				return
			}
			_, _ = server.WriteToUDP(hello, from)
		}
	}()
	answered := func(from string) (ok bool) {
		within(t, router, func() error {
			client, err := net.DialUDP("udp6", &net.UDPAddr{IP: net.ParseIP(from)}, server.LocalAddr().(*net.UDPAddr))
			if err != nil {
				return err
			}
			defer func() { _ = client.Close() }()
			_, _ = client.Write([]byte("hello"))
			_ = client.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			_, err = client.Read(make([]byte, 16))
			ok = err == nil
			return nil
		})
		return ok
	}

	const near, far = "2001:db8:4::2", "2001:db8:99::9"
	itself := func() bool {
		return letIn(t, 0, "2001:db8:4::1", "2001:db8:4::1") && letIn(t, 0, "192.0.4.1", "192.0.4.1")
	}
	wait.Until(t, "all are answered", func() bool { return answered(near) && answered(far) && itself() })
	start(t, Config{List: blocked.NewList(map[string]time.Duration{"2001:db8:4::/64": time.Hour, "fe80::/64": time.Hour, "192.0.4.1": time.Hour})})
	wait.Until(t, "the near one is blocked", func() bool { return !answered(near) })
	if !itself() {
		t.Error("the machine no longer reaches its own addresses")
	}
	sh(t, "ip -6 neigh flush dev veth4")
	sh(t, there+"ip -6 neigh flush dev out")
	for range 60 {
		if answered(far) {
			return
		}
	}
	t.Error("the router no longer finds the machine: clients behind it are not served")
}

// Forwarded packets are dropped too.
func TestForwardedPacketsAreDropped(t *testing.T) {
	needKernel(t)
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	from, to := neighbour(t, 2), neighbour(t, 3)
	var server, client *net.UDPConn
	within(t, to, func() (err error) {
		server, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(192, 0, 3, 2)})
		return err
	})
	defer func() { _ = server.Close() }()
	within(t, from, func() (err error) {
		client, err = net.DialUDP("udp4", nil, server.LocalAddr().(*net.UDPAddr))
		return err
	})
	defer func() { _ = client.Close() }()
	passes := func() bool {
		if _, err := client.Write([]byte("hello")); err != nil {
			return false
		}
		_ = server.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		_, _, err := server.ReadFrom(make([]byte, 16))
		return err == nil
	}
	wait.Until(t, "a packet comes through", passes)
	list := blocked.NewList(map[string]time.Duration{"192.0.2.0/24": time.Hour})
	start(t, Config{List: list})
	wait.Until(t, "blocked", func() bool { return !passes() })
	list.Set(nil)
	wait.Until(t, "unblocked", passes)
}

package enforcer

import (
	"errors"
	"net"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// personAt returns the user that opened a socket, by name if the user has one.
func personAt(socket *net.UnixConn) (name string, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return "", err
	}

	var credentials *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		credentials, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return "", err
	}

	// In a container a user may have no name.
	id := strconv.FormatUint(uint64(credentials.Uid), 10)
	if known, err := user.LookupId(id); err == nil {
		return known.Username, nil
	}
	return "uid " + id, nil
}

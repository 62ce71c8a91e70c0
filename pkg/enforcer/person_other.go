//go:build !linux

package enforcer

import (
	"errors"
	"net"
)

// personAt cannot say who opened a socket here.
func personAt(*net.UnixConn) (name string, err error) { return "", errors.ErrUnsupported }

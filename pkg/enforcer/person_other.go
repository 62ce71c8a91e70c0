//go:build !linux

package enforcer

import (
	"errors"
	"net"
)

// personAt is not supported here.
func personAt(*net.UnixConn) (name string, err error) { return "", errors.ErrUnsupported }

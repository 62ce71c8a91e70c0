package envoy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"weir/internal/keys"
	"weir/internal/limited"
)

// A connection is what calls know of theirs. The lock of calls guards known and running.
type connection struct {
	credentials.CommonAuthInfo
	streams
	conn    net.Conn
	from    netip.Addr // the unit of the bounds per address
	peer    string     // the address and the port
	tls     *tls.ConnectionState
	known   bool
	running int
	opening uint32 // the stream whose header was read last; only the goroutine that reads uses it
}

// AuthType is for the library.
func (c *connection) AuthType() string { return "weir" }

// A handshake begins connections, encrypted or not.
type handshake struct {
	credentials.TransportCredentials
	calls *calls
}

func newHandshake(c *tls.Config, all *calls) handshake {
	if c == nil {
		return handshake{insecure.NewCredentials(), all}
	}
	return handshake{credentials.NewTLS(keys.Speaks(c, "h2")), all}
}

// ServerHandshake encrypts a connection, and notes it for its calls.
func (h handshake) ServerHandshake(accepted net.Conn) (net.Conn, credentials.AuthInfo, error) {
	limited.Shakes(accepted, true)
	defer limited.Shakes(accepted, false)
	conn, info, err := h.TransportCredentials.ServerHandshake(accepted)
	if err != nil {
		return nil, nil, err
	}
	c := &connection{conn: accepted, from: limited.Source(accepted.RemoteAddr()), peer: accepted.RemoteAddr().String()}
	if encrypted, ok := info.(credentials.TLSInfo); ok {
		c.tls, c.CommonAuthInfo = &encrypted.State, encrypted.CommonAuthInfo
	}
	return newFramed(conn, c, h.calls), c, nil
}

// Clone is for the library.
func (h handshake) Clone() credentials.TransportCredentials {
	return handshake{h.TransportCredentials.Clone(), h.calls}
}

// ClientHandshake is never called.
func (h handshake) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("this is a server")
}

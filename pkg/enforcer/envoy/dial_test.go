package envoy

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// dial returns a connection to the server.
func (s *site) dial(how credentials.TransportCredentials, more ...grpc.DialOption) *grpc.ClientConn {
	s.t.Helper()
	conn, err := grpc.NewClient(s.Address(), append(more, grpc.WithTransportCredentials(how))...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

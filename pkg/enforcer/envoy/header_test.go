package envoy

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"
)

// A call keeps nothing of its header but a key. Many fields have a weight, for the room that they had.
func TestOnlyKeysAreKept(t *testing.T) {
	header := metadata.Pairs("tracestate", strings.Repeat("k=v,", 10_000), "x-api-key", "take", "authorization", strings.Repeat("a", keyBytes+1))
	if weight := lighten(header); weight != 0 || len(header) != 1 || header.Get("x-api-key")[0] != "take" {
		t.Errorf("weight %d of %.200v", weight, header)
	}
	for n := range 1_000 {
		header.Set(fmt.Sprint("x-", n), "a")
	}
	if weight := lighten(header); weight < 1_000*fieldWeight || len(header) != 1 {
		t.Errorf("weight %d of %.200v", weight, header)
	}
}

// The library gives a call's context the header that lighten has.
func TestTheContextHasTheLightHeader(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	kept := make(chan metadata.MD, 1)
	server := grpc.NewServer(grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
		lighten(info.Header)
		return ctx, nil
	}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		header, _ := metadata.FromIncomingContext(stream.Context())
		kept <- header
		return nil
	}))
	go func() { _ = server.Serve(l) }()
	defer server.Stop()

	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-api-key", "take", "tracestate", "k=v")
	_, _ = auth.NewAuthorizationClient(conn).Check(ctx, checkOf("203.0.113.7", "/"))
	if header := <-kept; len(header) != 1 || len(header["x-api-key"]) != 1 {
		t.Errorf("the call keeps %v", header)
	}
}

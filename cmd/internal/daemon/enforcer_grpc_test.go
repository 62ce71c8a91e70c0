package daemon

import (
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"weir/internal/kafka"
	"weir/test/port"
)

// An enforcer with enforcer.grpc answers there from its list and by its rules, with its keys, and is healthy when it is
// ready.
func TestAnEnforcerAnswersOverGRPC(t *testing.T) {
	broker, address := newMortal(t), port.Reserve(t, "127.0.0.1")
	e := newEdge(t, broker.yaml(), "  without_list: deny\n  grpc: "+address+"\n")
	e.write("rules.yaml", "rules:\n  - {name: per-ip, key: ip, limits: [10/min]}\n  - {name: at-once, key: ip, limits: [1/min], inline: true}\n")
	e.start()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	health := func() string {
		said, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
		if err != nil {
			return err.Error()
		}
		return said.GetStatus().String()
	}
	if got := health(); got != "NOT_SERVING" {
		t.Errorf("without a list: %s", got)
	}
	p := newPublisher(t, kafka.Config{Brokers: []string{broker.config.Listen}, Prefix: "weir."}, e.process.Config)
	p.block("203.0.113.7")
	p.marks()
	e.await("healthy", func() bool { return health() == "SERVING" })

	for _, test := range []struct {
		ip   string
		want int
	}{{"203.0.113.7", 429}, {"203.0.113.8", 0}, {"203.0.113.8", 429}} {
		said, err := auth.NewAuthorizationClient(conn).Check(t.Context(), &auth.CheckRequest{Attributes: &auth.AttributeContext{
			Source:  &auth.AttributeContext_Peer{Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{Address: test.ip}}}},
			Request: &auth.AttributeContext_Request{Http: &auth.AttributeContext_HttpRequest{Method: "GET", Host: "shop.example", Path: "/"}},
		}})
		if got := int(said.GetDeniedResponse().GetStatus().GetCode()); err != nil || got != test.want {
			t.Errorf("%s: %v, %v", test.ip, said, err)
		}
	}

	limit := func(key string) codes.Code {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key)
		_, err := ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &ratelimit.RateLimitRequest{Descriptors: []*descriptor.RateLimitDescriptor{
			{Entries: []*descriptor.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "203.0.113.9"}}},
		}})
		return status.Code(err)
	}
	if unknown, reader := limit("unknown"), limit("reader"); unknown != codes.Unauthenticated || reader != codes.PermissionDenied {
		t.Errorf("an unknown key: %v, a reader's: %v", unknown, reader)
	}
}

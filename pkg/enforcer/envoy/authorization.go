package envoy

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	kind "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir/internal/address"
	"weir/pkg/enforcer"
)

// authorization is external authorization.
type authorization struct{ *Server }

// Check answers whether a request may go on.
func (s authorization) Check(ctx context.Context, asked *auth.CheckRequest) (*auth.CheckResponse, error) {
	on, _ := connectionOf(ctx) // guard has found it
	sent := asked.GetAttributes().GetRequest().GetHttp()
	if sent == nil {
		return nil, status.Error(codes.InvalidArgument, "attributes.request.http is missing")
	}
	q := &enforcer.EdgeRequest{Edge: on.peer, Sender: senderOf(asked), Method: sent.GetMethod(), Host: sent.GetHost(), Target: sent.GetPath(),
		Header: func(name string) string { return sent.GetHeaders()[name] }}
	if raw := sent.GetHeaderMap().GetHeaders(); raw != nil {
		q.Header = func(name string) string { return rawHeader(raw, name) }
		if target := rawHeader(raw, ":path"); target != "" {
			q.Target = target // with the bytes that the client sent
		}
	}

	a := newAnswer()
	defer a.free()
	s.config.Decide.CheckFor(a, q)
	if err := a.failed(); err != nil {
		return nil, err
	}
	switch {
	case !a.passes():
		return refusing(a), nil
	case len(a.header) == 0:
		return passed, nil
	}
	return passing(a), nil
}

// senderOf returns the address that Envoy had the request from.
func senderOf(asked *auth.CheckRequest) netip.Addr {
	ip, err := netip.ParseAddr(asked.GetAttributes().GetSource().GetAddress().GetSocketAddress().GetAddress())
	if err != nil {
		return netip.Addr{} // over a unix socket
	}
	return address.Plain(ip.WithZone(""))
}

// rawHeader returns a header of encode_raw_headers.
func rawHeader(all []*core.HeaderValue, name string) (value string) {
	for _, one := range all {
		if !strings.EqualFold(one.GetKey(), name) {
			continue
		}
		text := one.GetValue()
		if text == "" {
			text = string(one.GetRawValue())
		}
		if value != "" {
			value += ","
		}
		value += text
	}
	return value
}

// passed answers a request that needs no header. Calls only read it.
var passed = passing(&answer{})

func refusing(a *answer) *auth.CheckResponse {
	return &auth.CheckResponse{
		Status: &rpc.Status{Code: int32(codes.PermissionDenied), Message: http.StatusText(a.status)},
		HttpResponse: &auth.CheckResponse_DeniedResponse{DeniedResponse: &auth.DeniedHttpResponse{
			Status: &kind.HttpStatus{Code: kind.StatusCode(a.status)}, Headers: options(a.fields(every)), Body: string(a.body),
		}},
	}
}

// options replace headers of the same name.
func options(all []*core.HeaderValue) []*core.HeaderValueOption {
	set, room := make([]*core.HeaderValueOption, len(all)), make([]core.HeaderValueOption, len(all))
	for i, one := range all {
		set[i] = &room[i]
		set[i].Header, set[i].AppendAction = one, core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
	}
	return set
}

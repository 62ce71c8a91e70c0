package envoy

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/pkg/enforcer"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// rateLimits is the rate limit service.
type rateLimits struct{ *Server }

// maxDescriptors bounds a request.
const (
	maxDescriptors = 16
	maxEntries     = 32
)

// ShouldRateLimit answers whether the limits admit a request. A mistake in it is logged too: Envoy shows none, and lets the
// request pass.
func (s rateLimits) ShouldRateLimit(_ context.Context, asked *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	said, err := s.answer(asked)
	if status.Code(err) == codes.InvalidArgument {
		s.faults.Note("descriptors", fmt.Errorf("the rate limit service got a request with a mistake: %s", status.Convert(err).Message()))
	}
	return said, err
}

func (s rateLimits) answer(asked *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	parts, err := partsOf(asked)
	if err != nil {
		return nil, err
	}
	a := newAnswer()
	defer a.free()
	decided := make([]enforcer.PartAnswer, len(parts))
	if err := s.config.Decide.Limit(a, parts, decided); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := a.failed(); err != nil {
		return nil, err
	}

	said := &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OK, Statuses: make([]*ratelimit.RateLimitResponse_DescriptorStatus, len(parts))}
	for i := range decided {
		said.Statuses[i] = statusOf(&decided[i])
	}
	if a.passes() {
		said.ResponseHeadersToAdd, said.RequestHeadersToAdd = a.fields(toClient), a.fields(toApplication)
		return said, nil
	}
	said.OverallCode, said.RawBody = ratelimit.RateLimitResponse_OVER_LIMIT, append([]byte(nil), a.body...)
	said.ResponseHeadersToAdd = a.fields(every)
	return said, nil
}

// partsOf reads a request.
func partsOf(asked *ratelimit.RateLimitRequest) ([]enforcer.Part, error) {
	switch n := len(asked.GetDescriptors()); {
	case n == 0:
		return nil, status.Error(codes.InvalidArgument, "there is no descriptor")
	case n > maxDescriptors:
		return nil, status.Errorf(codes.InvalidArgument, "%d descriptors are too many for one request; at most %d are allowed", n, maxDescriptors)
	}

	parts := make([]enforcer.Part, len(asked.GetDescriptors()))
	for i, d := range asked.GetDescriptors() {
		if err := readDescriptor(&parts[i], d); err != "" {
			return nil, status.Errorf(codes.InvalidArgument, "descriptor %d: %s", i+1, err)
		}
		if parts[i].Cost == nil && asked.GetHitsAddend() > 0 {
			cost := min(int64(asked.GetHitsAddend()), rule.MaxCost)
			parts[i].Cost = &cost
		}
	}
	return parts, nil
}

// entryFields are the fields that entries of another name stand for.
var entryFields = map[string]string{"remote_address": "ip"}

// ruleEntry is the name of the entry that names a rule.
const ruleEntry = "rule"

// readDescriptor reads a descriptor, and returns what is wrong with it.
func readDescriptor(p *enforcer.Part, d *descriptor.RateLimitDescriptor) (wrong string) {
	switch {
	case d.GetLimit() != nil:
		return "it has a limit of its own, which is not supported: the limits are those of the rules"
	case d.GetIsNegativeHits():
		return "it has is_negative_hits, which is not supported: settle the attempt instead"
	case len(d.GetEntries()) > maxEntries:
		return "it has too many entries"
	}
	if addend := d.GetHitsAddend(); addend != nil {
		cost := int64(min(addend.GetValue(), rule.MaxCost)) // as the cost of a rule is
		p.Cost = &cost
	}

	p.Fields = make([]request.Field, 0, len(d.GetEntries()))
	for _, entry := range d.GetEntries() {
		name, value := entry.GetKey(), strings.Trim(entry.GetValue(), " \t") // as checks and logs have it
		switch field := entryFields[name]; {
		case name == "":
			return "it has an entry without a key"
		case name == ruleEntry && p.Rule != "":
			return "it names two rules"
		case name == ruleEntry && value == "":
			return "it names a rule without a name"
		case name == ruleEntry:
			p.Rule = value
		case value == "": // as if it were not there
		case field != "":
			p.Fields = append(p.Fields, request.Field{Name: field, Value: value})
		default:
			p.Fields = append(p.Fields, request.Field{Name: name, Value: value})
		}
	}
	return ""
}

// statusOf makes the status of a descriptor.
func statusOf(p *enforcer.PartAnswer) *ratelimit.RateLimitResponse_DescriptorStatus {
	said := &ratelimit.RateLimitResponse_DescriptorStatus{Code: ratelimit.RateLimitResponse_OK}
	if p.Refused {
		said.Code = ratelimit.RateLimitResponse_OVER_LIMIT
	}
	if p.Rule == "" {
		return said
	}
	said.LimitRemaining = clamped(p.Remaining)
	if p.Again > 0 {
		said.DurationUntilReset = durationpb.New(p.Again)
	}
	said.CurrentLimit = &ratelimit.RateLimitResponse_RateLimit{Name: p.Rule + " " + p.Limit.Text, RequestsPerUnit: clamped(p.Limit.Hits)}
	for _, u := range units {
		if p.Limit.AtOnce || p.Limit.Queued { // of no unit
			break
		}
		if p.Limit.Per%u.of == 0 {
			said.CurrentLimit.Unit = u.unit
			if n := p.Limit.Per / u.of; n > 1 {
				said.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(clamped(int64(n)))
			}
			break
		}
	}
	return said
}

// units are those of fixed length, the longest first.
var units = []struct {
	of   time.Duration
	unit ratelimit.RateLimitResponse_RateLimit_Unit
}{
	{24 * time.Hour, ratelimit.RateLimitResponse_RateLimit_DAY}, {time.Hour, ratelimit.RateLimitResponse_RateLimit_HOUR},
	{time.Minute, ratelimit.RateLimitResponse_RateLimit_MINUTE}, {time.Second, ratelimit.RateLimitResponse_RateLimit_SECOND},
}

func clamped(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// Package kinesis reads a stream of Amazon Kinesis Data Streams: each shard as a log of package ordered. It writes
// nothing there, and needs no table of leases.
//
// # Positions
//
// The position of a record is how many were read of its shard with it, and the ID of the place is its sequence number.
// After a restart, the shard is read from the record that was read last, so it shows whether the stream still has that
// one. A record that producers have aggregated is its user records, and a place may be within it.
//
// A stream that was made again has another time of creation, which is the identity of its shards.
//
// # Shards
//
// Shards are listed every ten seconds. One that came from others by a split or a merge begins once those are read to
// their end and Kafka has their hits, so the requests of a user stay in their order.
//
// # Retention
//
// The server does not number records without gaps, and gives no word when it deletes them. They were deleted before they
// were read if the record that was read last is gone, and the shard was last read to its end before the retention. That
// time is in the journal, at most an hour late. How many they were is not known.
//
// Bounds. A stream has at most 4,096 shards. An answer has at most 32 MiB, and about 1 MiB if its records are as long as
// those before, or less with many shards. An aggregated record has at most 65,536 user records. A page has 2,000 lines.
package kinesis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"

	"weir/internal/amazon"
	"weir/pkg/collector/ordered"
)

const (
	listEvery  = 10 * time.Second
	mostShards = 4096
	longestID  = 128
)

// Options name a stream.
type Options struct {
	Stream string
	Where  amazon.Options
	Once   bool // the shards are read up to their end, in any order, and then have nothing more
	Now    func() time.Time
}

// A Stream is a stream, and what is known of its shards.
type Stream struct {
	options Options
	began   time.Time // where reading begins does not depend on when a shard's turn comes

	listing sync.Mutex // held while the server is asked, which the reading of shards does not wait for

	mu     sync.Mutex
	client *kinesis.Client // nil: it has to be made
	state  state
	fault  error     // of the last listing
	listed time.Time // then; zero: it has to be listed
	ended  map[string]bool
}

// A state is what a listing shows.
type state struct {
	identity  string // empty where the server has none
	retention time.Duration
	shards    map[string]*listedShard
}

// A listedShard is a shard as a listing has it.
type listedShard struct {
	parents []string
	keys    keyRange
}

// A keyRange is the range of the hashes of the keys whose records a shard has.
type keyRange struct{ first, last [16]byte }

// New names a stream. It does not connect yet.
func New(o Options) *Stream {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Stream{options: o, began: o.Now(), ended: map[string]bool{}}
}

// List returns a log for each shard.
func (s *Stream) List(ctx context.Context) ([]ordered.Log, error) {
	now, err := s.look(ctx)
	if err != nil {
		return nil, fmt.Errorf("the stream %s: %w", s.options.Stream, err)
	}
	var logs []ordered.Log
	for id := range now.shards {
		logs = append(logs, &shard{stream: s, id: id, identity: now.identity, limit: firstLimit})
	}
	slices.SortFunc(logs, func(a, b ordered.Log) int { return cmp.Compare(a.String(), b.String()) })
	return logs, nil
}

// look returns what the last listing shows, or makes another one.
func (s *Stream) look(ctx context.Context) (state, error) {
	s.listing.Lock()
	defer s.listing.Unlock()
	if last, fault, fresh := s.last(); fresh {
		return last, fault
	}
	found, err := s.list(ctx)
	if ctx.Err() != nil {
		s.stale()
		return found, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = err
	if !s.listed.IsZero() { // it is stale already
		s.listed = s.options.Now()
	}
	if err == nil {
		if found.identity != s.state.identity {
			clear(s.ended)
		}
		s.state = found
	}
	return s.state, err
}

// last returns what the last listing shows, and whether that is fresh. If not, another one begins.
func (s *Stream) last() (last state, fault error, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Now()
	age := now.Sub(s.listed)
	if fresh = !s.listed.IsZero() && age < listEvery && (s.fault == nil || age < time.Second); !fresh {
		s.listed = now
	}
	return s.state, s.fault, fresh
}

// list asks the server.
func (s *Stream) list(ctx context.Context) (found state, err error) {
	ctx, cancel := context.WithTimeout(ctx, amazon.Patience)
	defer cancel()
	client, err := s.connected(ctx)
	if err != nil {
		return found, err
	}
	about, err := client.DescribeStreamSummary(ctx, &kinesis.DescribeStreamSummaryInput{StreamName: &s.options.Stream})
	if err != nil {
		return found, s.explain(err, "kinesis:DescribeStreamSummary")
	}
	summary := about.StreamDescriptionSummary
	if summary == nil {
		return found, errors.New("the server does not describe the stream")
	}
	switch summary.StreamStatus {
	case types.StreamStatusCreating, types.StreamStatusDeleting:
		return found, ordered.ErrMissing
	}
	if made := summary.StreamCreationTimestamp; made != nil {
		found.identity = strconv.FormatInt(made.UnixMilli(), 10)
	}
	found.retention = time.Duration(aws.ToInt32(summary.RetentionPeriodHours)) * time.Hour

	found.shards = map[string]*listedShard{}
	input := &kinesis.ListShardsInput{StreamName: &s.options.Stream}
	for {
		page, err := client.ListShards(ctx, input)
		if err != nil {
			return found, s.explain(err, "kinesis:ListShards")
		}
		before := len(found.shards)
		for i := range page.Shards {
			if err := found.add(&page.Shards[i]); err != nil {
				return found, err
			}
		}
		if page.NextToken == nil {
			break
		}
		if len(found.shards) == before {
			return found, errors.New("the server lists shards without an end")
		}
		input = &kinesis.ListShardsInput{NextToken: page.NextToken}
	}
	if len(found.shards) == 0 {
		return found, errors.New("the server lists no shard of the stream")
	}
	return found, nil
}

func (f *state) add(from *types.Shard) error {
	id := aws.ToString(from.ShardId)
	if id == "" || len(id) > longestID {
		return fmt.Errorf("%.*q is not the name of a shard", longestID, id)
	}
	if len(f.shards) >= mostShards {
		return fmt.Errorf("the stream has more than %d shards, with those that are closed", mostShards)
	}
	one := &listedShard{keys: everyKey}
	for _, parent := range []*string{from.ParentShardId, from.AdjacentParentShardId} {
		if parent != nil {
			one.parents = append(one.parents, *parent)
		}
	}
	if keys := from.HashKeyRange; keys != nil {
		one.keys = keyRange{hashKey(keys.StartingHashKey, everyKey.first), hashKey(keys.EndingHashKey, everyKey.last)}
	}
	f.shards[id] = one
	return nil
}

var everyKey = keyRange{last: [16]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}}

const hashDigits = 39 // of a number of 128 bits

// hashKey reads a number of 128 bits; it is otherwise where there is none.
func hashKey(text *string, otherwise [16]byte) (key [16]byte) {
	number, ok := new(big.Int).SetString(aws.ToString(text)[:min(hashDigits+1, len(aws.ToString(text)))], 10)
	if !ok || number.Sign() < 0 || number.BitLen() > 8*len(key) {
		return otherwise
	}
	number.FillBytes(key[:])
	return key
}

// isFirst reports whether the shards that a shard came from are read, or gone.
func (s *Stream) isFirst(of *listedShard) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(of.parents, func(parent string) bool { return s.state.shards[parent] != nil && !s.ended[parent] })
}

// end notes that a shard is read to its end.
func (s *Stream) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[id] = true
}

// identity is the stream's, as the last listing shows it.
func (s *Stream) identity() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.identity
}

// stale makes the next look ask the server.
func (s *Stream) stale() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = time.Time{}
}

// connected returns the client, which all shards share.
func (s *Stream) connected(ctx context.Context) (*kinesis.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	loaded, err := amazon.Load(ctx, &s.options.Where)
	if err != nil {
		return nil, err
	}
	loaded.Retryer = func() aws.Retryer { return aws.NopRetryer{} } // the shard's few calls are its own to use
	s.client = kinesis.NewFromConfig(loaded)
	return s.client, nil
}

// refused makes the next call read the credentials again, if they are the cause of an error.
func (s *Stream) refused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, amazon.ErrRefused) {
		s.client = nil
	}
}

// explain translates an error of a listing.
func (s *Stream) explain(err error, right string) error {
	if codeOf(err) == notFound {
		return ordered.ErrMissing
	}
	err = amazon.Explain(err, right+" on the stream "+s.options.Stream)
	s.refused(err)
	return err
}

// Codes of errors.
const (
	notFound = "ResourceNotFoundException"
	expired  = "ExpiredIteratorException"
	invalid  = "InvalidArgumentException"
)

func codeOf(err error) string {
	var known smithy.APIError
	if errors.As(err, &known) {
		return known.ErrorCode()
	}
	return ""
}

// passes reports whether an error is one of the server's own, or of too many calls. It is gone soon.
func passes(err error) bool {
	var known smithy.APIError
	if !errors.As(err, &known) {
		return false
	}
	switch known.ErrorCode() {
	case "ProvisionedThroughputExceededException", "LimitExceededException", "KMSThrottlingException", "ThrottlingException",
		"InternalFailure", "InternalFailureException", "ServiceUnavailable", "ServiceUnavailableException":
		return true
	}
	return known.ErrorFault() == smithy.FaultServer
}

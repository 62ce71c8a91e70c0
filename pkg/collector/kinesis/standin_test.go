package kinesis_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	server "weir/test/kinesis"
)

// A standIn answers as Amazon documents it for what no server on this machine shows: records that are deleted, calls that
// are refused, and answers that no server gives.
type standIn struct {
	*httptest.Server
	mu      sync.Mutex
	shards  map[string]*standInShard
	order   []string // of the shards in a listing
	fails   map[string][]string
	secret  string // that it accepts
	calls   map[string]int
	answers func(operation string, answer map[string]any) // changes an answer
	made    int                                           // seconds after its first time of creation
	hangs   string                                        // the operation that is not answered
	gaveUp  int                                           // calls of it whose clients have left
}

type standInShard struct {
	parent  string
	closed  bool
	records []standInRecord
	hidden  int // records that were deleted
}

type standInRecord struct {
	sequence int64
	data     []byte
	at       time.Time
}

func newStandIn(t *testing.T) *standIn {
	t.Helper()
	s := &standIn{shards: map[string]*standInShard{}, fails: map[string][]string{}, calls: map[string]int{}}
	s.make(0, "")
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *standIn) make(n int, parent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards[server.Shard(n)] = &standInShard{parent: parent}
	s.order = append(s.order, server.Shard(n))
}

func (s *standIn) add(n int, lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.shards[server.Shard(n)]
	for _, line := range lines {
		to.records = append(to.records, standInRecord{int64(1000 + 10*len(to.records)), []byte(line), time.Now()})
	}
}

func (s *standIn) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// fail makes the next calls of an operation fail.
func (s *standIn) fail(operation string, times int, code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range times {
		s.fails[operation] = append(s.fails[operation], code)
	}
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	s.calls[operation]++
	if operation == s.hangs {
		s.mu.Unlock()
		_, _ = io.Copy(io.Discard, r.Body) // the server notices only then that the client leaves
		<-r.Context().Done()
		s.mu.Lock()
		s.gaveUp++
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	refuse := func(code string) {
		status := http.StatusBadRequest
		if code == "InternalFailure" {
			status = http.StatusInternalServerError
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"__type": %q, "message": "the stand-in refuses"}`, code)
	}
	if s.secret != "" && !strings.Contains(r.Header.Get("Authorization"), "Credential="+s.secret+"/") {
		refuse("ExpiredTokenException")
		return
	}
	if fails := s.fails[operation]; len(fails) > 0 {
		s.fails[operation] = fails[1:]
		refuse(fails[0])
		return
	}
	var input struct {
		ShardID  string  `json:"ShardId"`
		Kind     string  `json:"ShardIteratorType"`
		Sequence string  `json:"StartingSequenceNumber"`
		At       float64 `json:"Timestamp"`
		Iterator string  `json:"ShardIterator"`
		Limit    int
	}
	if err := json.NewDecoder(r.Body).Decode(&input); err != nil {
		refuse("SerializationException")
		return
	}
	answer := map[string]any{}
	switch operation {
	case "DescribeStreamSummary":
		answer["StreamDescriptionSummary"] = map[string]any{
			"StreamName": "logs", "StreamARN": "arn", "StreamStatus": "ACTIVE", "RetentionPeriodHours": 24, "StreamCreationTimestamp": 1.7e9 + float64(s.made), "OpenShardCount": 1,
			"EnhancedMonitoring": []any{},
		}
	case "ListShards":
		shards := []any{}
		for _, id := range s.order {
			one := map[string]any{"ShardId": id, "HashKeyRange": map[string]any{"StartingHashKey": "0", "EndingHashKey": "340282366920938463463374607431768211455"}, "SequenceNumberRange": map[string]any{"StartingSequenceNumber": "1"}}
			if parent := s.shards[id].parent; parent != "" {
				one["ParentShardId"] = parent
			}
			shards = append(shards, one)
		}
		answer["Shards"] = shards
	case "GetShardIterator":
		of := s.shards[input.ShardID]
		if of == nil {
			refuse("ResourceNotFoundException")
			return
		}
		at := int64(0)
		switch input.Kind {
		case "AT_SEQUENCE_NUMBER":
			fmt.Sscan(input.Sequence, &at)
		case "AT_TIMESTAMP":
			at = 1000 + 10*int64(len(of.records))
			for i := len(of.records) - 1; i >= 0 && float64(of.records[i].at.UnixMilli())/1000 >= input.At; i-- {
				at = of.records[i].sequence
			}
		}
		answer["ShardIterator"] = fmt.Sprintf("%s/%d", input.ShardID, at)
	case "GetRecords":
		id, from, _ := strings.Cut(input.Iterator, "/")
		of, at := s.shards[id], int64(0)
		if of == nil {
			refuse("ResourceNotFoundException")
			return
		}
		fmt.Sscan(from, &at)
		records := []any{}
		rest := of.records[of.hidden:]
		for len(rest) > 0 && rest[0].sequence < at {
			rest = rest[1:]
		}
		for len(rest) > 0 && len(records) < input.Limit {
			records = append(records, map[string]any{"SequenceNumber": fmt.Sprint(rest[0].sequence), "Data": rest[0].data, "PartitionKey": "a", "ApproximateArrivalTimestamp": float64(rest[0].at.UnixMilli()) / 1000})
			at = rest[0].sequence + 1
			rest = rest[1:]
		}
		answer["Records"], answer["MillisBehindLatest"] = records, 0
		if len(rest) > 0 {
			answer["MillisBehindLatest"] = time.Since(rest[0].at).Milliseconds() + 1
		}
		if len(rest) > 0 || !of.closed {
			answer["NextShardIterator"] = fmt.Sprintf("%s/%d", id, at)
		}
	}
	if s.answers != nil {
		s.answers(operation, answer)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

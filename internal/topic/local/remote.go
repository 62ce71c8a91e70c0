package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"weir/internal/sleep"
	"weir/internal/topic"
	"weir/internal/varint"
)

// A Remote is the Log of another process of this user, which serves it at a socket. It can be read only.
type Remote struct {
	client *http.Client
}

var _ topic.Log = (*Remote)(nil)

// Dial returns the Log that is served at a socket. It connects when it is asked.
func Dial(socket string) *Remote {
	connect := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &Remote{client: &http.Client{Transport: &http.Transport{DialContext: connect}, Timeout: answerPatience}}
}

// Close implements topic.Log.
func (r *Remote) Close() { r.client.CloseIdleConnections() }

// mostBody bounds what is read of an answer: its records, or one long one, and their frames.
const mostBody = 2*mostAnswer + 2*maxRecord

// get asks the other process.
func (r *Remote) get(ctx context.Context, path string, query url.Values) (body []byte, header http.Header, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://weir"+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, nil, err
	}
	answer, err := r.client.Do(request)
	if err != nil {
		return nil, nil, unreachable(ctx, err)
	}
	defer answer.Body.Close()
	if body, err = io.ReadAll(io.LimitReader(answer.Body, mostBody)); err != nil {
		return nil, nil, unreachable(ctx, err)
	}
	if answer.StatusCode == http.StatusOK {
		return body, answer.Header, nil
	}

	var f failure
	if json.Unmarshal(body, &f) != nil || f.Text == "" {
		f.Text = fmt.Sprintf("the process that has the topics answers %s; is it another version?", answer.Status)
	}
	return nil, answer.Header, &topic.Error{Text: f.Text, Kind: topic.KindNamed(f.Kind)}
}

func unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &topic.Error{Text: "the process that has the topics does not answer: " + err.Error(), Kind: topic.ErrUnreachable, Cause: err}
}

// ask asks for JSON.
func ask[T any](ctx context.Context, r *Remote, path string, query url.Values) (answer T, err error) {
	body, _, err := r.get(ctx, path, query)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, topic.Errorf(topic.ErrOther, "the answer cannot be read: %v", err)
	}
	return answer, nil
}

// Cluster implements topic.Topics.
func (r *Remote) Cluster(ctx context.Context) (topic.Cluster, error) {
	return ask[topic.Cluster](ctx, r, "/cluster", nil)
}

// TopicSettings implements topic.Topics.
func (r *Remote) TopicSettings(ctx context.Context, name string) (map[string]string, error) {
	return ask[map[string]string](ctx, r, "/settings", url.Values{"topic": {name}})
}

// EnsureTopics implements topic.Topics: it makes nothing, but checks.
func (r *Remote) EnsureTopics(ctx context.Context, topics ...topic.Topic) error {
	var faults []error
	for _, t := range topics {
		found, err := r.Partitions(ctx, t.Name)
		if err == nil && found != t.Partitions {
			err = topic.Errorf(topic.ErrPartitions, "topic %s has %d partitions and not %d; their number is fixed for a topic's life", t.Name, found, t.Partitions)
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// Partitions implements topic.Spans.
func (r *Remote) Partitions(ctx context.Context, name string) (int, error) {
	spans, err := r.Offsets(ctx, name)
	return len(spans), err
}

// Offsets implements topic.Spans.
func (r *Remote) Offsets(ctx context.Context, name string) ([]topic.Span, error) {
	return ask[[]topic.Span](ctx, r, "/spans", url.Values{"topic": {name}})
}

// PartitionSpan implements topic.Spans.
func (r *Remote) PartitionSpan(ctx context.Context, name string, partition int) (topic.Span, error) {
	spans, err := r.Offsets(ctx, name)
	switch {
	case err != nil:
		return topic.Span{}, err
	case partition < 0 || partition >= len(spans):
		return topic.Span{}, topic.Errorf(topic.ErrNoTopic, "topic %s has no partition %d: it has %d", name, partition, len(spans))
	}
	return spans[partition], nil
}

// OffsetAt implements topic.Spans.
func (r *Remote) OffsetAt(ctx context.Context, name string, partition int, at time.Time) (int64, error) {
	return ask[int64](ctx, r, "/at", url.Values{"topic": {name}, "partition": {strconv.Itoa(partition)}, "ms": {strconv.FormatInt(at.UnixMilli(), 10)}})
}

// Committed implements topic.Positions.
func (r *Remote) Committed(ctx context.Context, group, name string) ([]topic.Commit, error) {
	return ask[[]topic.Commit](ctx, r, "/commits", url.Values{"group": {group}, "topic": {name}})
}

// Groups implements topic.Positions.
func (r *Remote) Groups(ctx context.Context, prefix string, named ...string) ([]topic.GroupState, error) {
	return ask[[]topic.GroupState](ctx, r, "/groups", url.Values{"prefix": {prefix}, "named": named})
}

var errReadOnly = topic.Errorf(topic.ErrForbidden, "only the process that has the topics can write them")

// RunGroup implements topic.Members: it is refused.
func (r *Remote) RunGroup(context.Context, topic.Group, topic.Owner) error { return errReadOnly }

// Appender implements topic.Log: it accepts nothing.
func (r *Remote) Appender(topic.AppenderConfig) topic.Appender { return refusing{} }

type refusing struct{}

func (refusing) Send(context.Context, ...topic.Message) error { return errReadOnly }
func (refusing) TrySend(...topic.Message) error               { return errReadOnly }
func (refusing) Held() int64                                  { return 0 }
func (refusing) Close(context.Context) error                  { return nil }

// Reader implements topic.Log.
func (r *Remote) Reader(name string, partition int, offset int64, maxBytes int) topic.Reader {
	if maxBytes <= 0 {
		maxBytes = mostAnswer
	}
	return &remoteReader{remote: r, query: url.Values{"topic": {name}, "partition": {strconv.Itoa(partition)}, "most": {strconv.Itoa(maxBytes)}}, next: offset}
}

type remoteReader struct {
	remote *Remote
	query  url.Values
	next   int64
	span   topic.Span
}

func (r *remoteReader) Next() int64          { return r.next }
func (r *remoteReader) SetNext(offset int64) { r.next = offset }
func (r *remoteReader) Span() topic.Span     { return r.span }

// Identity implements topic.Reader.
func (r *remoteReader) Identity(ctx context.Context) (topic.Identity, error) {
	id, err := ask[topic.Identity](ctx, r.remote, "/identity", url.Values{"topic": {r.query.Get("topic")}})
	if err != nil {
		sleep.For(ctx, faultPause)
	}
	return id, err
}

// Fetch implements topic.Reader.
func (r *remoteReader) Fetch(ctx context.Context) ([]topic.Record, error) {
	r.query.Set("from", strconv.FormatInt(r.next, 10))
	body, header, err := r.remote.get(ctx, "/records", r.query)
	if header != nil {
		_, _ = fmt.Sscan(header.Get("Weir-Span"), &r.span.Start, &r.span.End)
	}
	if err == nil {
		var records []topic.Record
		var next int64
		if records, next, err = readAnswer(body); err == nil {
			r.next = next
			return records, nil
		}
	}
	if ctx.Err() == nil && !errors.Is(err, topic.ErrTrimmed) && !errors.Is(err, topic.ErrPastEnd) {
		sleep.For(ctx, faultPause)
	}
	return nil, err
}

func readAnswer(body []byte) (records []topic.Record, next int64, err error) {
	in := varint.Reader{Left: body}
	next = in.Number()
	for !in.Failed && len(in.Left) > 0 {
		offset := in.Number()
		one := in.Text(2 * maxRecord)
		if in.Failed {
			break
		}
		record, _, err := readRecord(one, offset)
		if err != nil {
			return nil, 0, topic.Errorf(topic.ErrOther, "the answer cannot be read: %v", err)
		}
		records = append(records, record)
	}
	if in.Failed {
		return nil, 0, topic.Errorf(topic.ErrOther, "the answer cannot be read: it ends too early")
	}
	return records, next, nil
}

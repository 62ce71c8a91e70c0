package local

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"weir/internal/topic"
)

// A Server lets other processes of this user read a Log, through a socket: commands that look at a running system, whose
// process has the folder. They cannot write, and are no members of groups.
type Server struct {
	log      *Log
	socket   string
	server   *http.Server
	listened os.FileInfo // the socket that this process listens on; used by keep alone after Serve
	stop     context.CancelFunc
	serving  sync.WaitGroup
}

const (
	requestPatience = 10 * time.Second // for the head of a request
	answerPatience  = time.Minute      // for a command that reads an answer
	mostAnswer      = 4 << 20          // bytes of records in an answer, or one record
	lookAtSocket    = 500 * time.Millisecond
)

// Serve listens on a socket, which only this user can open. A socket that an earlier process has left is replaced: the
// caller has the folder, so that process has ended.
func (l *Log) Serve(socket string) (*Server, error) {
	s := &Server{log: l, socket: socket}
	listener, err := s.listen()
	if err != nil {
		return nil, err
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /cluster", answers(func(ctx context.Context, _ url.Values) (any, error) { return l.Cluster(ctx) }))
	mux.HandleFunc("GET /settings", answers(func(ctx context.Context, q url.Values) (any, error) { return l.TopicSettings(ctx, q.Get("topic")) }))
	mux.HandleFunc("GET /identity", answers(func(_ context.Context, q url.Values) (any, error) { return l.identity(q.Get("topic")) }))
	mux.HandleFunc("GET /spans", answers(func(ctx context.Context, q url.Values) (any, error) { return l.Offsets(ctx, q.Get("topic")) }))
	mux.HandleFunc("GET /at", answers(s.at))
	mux.HandleFunc("GET /commits", answers(func(ctx context.Context, q url.Values) (any, error) {
		return l.Committed(ctx, q.Get("group"), q.Get("topic"))
	}))
	mux.HandleFunc("GET /groups", answers(func(ctx context.Context, q url.Values) (any, error) {
		return l.Groups(ctx, q.Get("prefix"), q["named"]...)
	}))
	mux.HandleFunc("GET /records", s.records)
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: requestPatience, ReadTimeout: requestPatience, WriteTimeout: answerPatience, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(l.logger.Handler(), slog.LevelDebug)} // without descriptors it has one each second
	s.serve(listener)
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	s.serving.Go(func() { s.keep(ctx) })
	return s, nil
}

func (s *Server) listen() (net.Listener, error) {
	if err := os.Remove(s.socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listening for commands: %w", err)
	}
	listener, err := net.Listen("unix", s.socket)
	if err != nil {
		return nil, fmt.Errorf("listening for commands: %w", err)
	}
	if err = os.Chmod(s.socket, 0o600); err == nil {
		s.listened, err = os.Lstat(s.socket)
	}
	if err != nil {
		return nil, fmt.Errorf("listening for commands: %w", errors.Join(err, listener.Close()))
	}
	return listener, nil
}

func (s *Server) serve(listener net.Listener) {
	s.serving.Go(func() { _ = s.server.Serve(listener) }) // it ends with Close
}

// keep listens again when the socket was deleted or replaced, alone or with its folder, until the context is done.
func (s *Server) keep(ctx context.Context) {
	look := time.NewTicker(lookAtSocket)
	defer look.Stop()
	failed := false
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}

		if !s.lost() {
			continue
		}
		listener, err := s.listen()
		if err != nil {
			if !failed {
				s.log.logger.Warn("commands cannot look at the topics until their socket can be made again", "error", err)
			}
			failed = true
			continue
		}
		failed = false
		s.serve(listener)
	}
}

// lost reports that the socket is not the one that this process listens on. One that another process answers on belongs to
// that one: it has the folder now.
func (s *Server) lost() bool {
	found, err := os.Lstat(s.socket)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	if os.SameFile(found, s.listened) {
		return false
	}
	probe, err := net.DialTimeout("unix", s.socket, time.Second)
	if err != nil {
		return true
	}
	_ = probe.Close()
	return false
}

// Close ends all answers.
func (s *Server) Close() {
	s.stop()
	_ = s.server.Close() // the listener's error changes nothing
	s.serving.Wait()
}

// A failure is an error as it is sent.
type failure struct {
	Kind, Text string
}

// answers makes a handler of a question whose answer is JSON.
func answers(do func(context.Context, url.Values) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		answer, err := do(q.Context(), q.URL.Query())
		if err != nil {
			fail(w, err)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func fail(w http.ResponseWriter, err error) {
	w.WriteHeader(http.StatusConflict)
	_ = json.NewEncoder(w).Encode(failure{topic.KindOf(err).Error(), err.Error()})
}

func number(q url.Values, name string) (int64, error) {
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil {
		return 0, topic.Errorf(topic.ErrInvalid, "%s=%q is not a number", name, q.Get(name))
	}
	return n, nil
}

func (s *Server) at(ctx context.Context, q url.Values) (any, error) {
	partition, err := number(q, "partition")
	if err != nil {
		return nil, err
	}
	ms, err := number(q, "ms")
	if err != nil {
		return nil, err
	}
	return s.log.OffsetAt(ctx, q.Get("topic"), int(partition), time.UnixMilli(ms))
}

// records answers with the span, the next offset, and records in the form in which they are stored.
func (s *Server) records(w http.ResponseWriter, q *http.Request) {
	query := q.URL.Query()
	partition, err1 := number(query, "partition")
	from, err2 := number(query, "from")
	most, err3 := number(query, "most")
	if err := errors.Join(err1, err2, err3); err != nil {
		fail(w, err)
		return
	}

	r := s.log.Reader(query.Get("topic"), int(partition), from, int(min(max(most, 1), mostAnswer)))
	records, err := r.Fetch(q.Context())
	span := r.Span()
	w.Header().Set("Weir-Span", fmt.Sprintf("%d %d", span.Start, span.End))
	if err != nil {
		fail(w, err)
		return
	}

	b := binary.AppendUvarint(nil, uint64(r.Next()))
	for i := range records {
		m := topic.Message{Key: records[i].Key, Value: records[i].Value}
		one := append(append(appendHead(nil, &m, head{at: records[i].Time.UnixMilli()}), m.Key...), m.Value...)
		b = binary.AppendUvarint(b, uint64(records[i].Offset))
		b = binary.AppendUvarint(b, uint64(len(one)))
		b = append(b, one...)
	}
	_, _ = w.Write(b)
}

package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"weir/pkg/collector/ordered"
)

const (
	hiddenMost  = 1000  // in a page
	notFoundAPI = 10037 // the server's number of its error: there is no such message
)

// A stored message is one as the server answers with it.
type stored struct {
	Seq     uint64    `json:"seq"`
	Headers []byte    `json:"hdrs"`
	Data    []byte    `json:"data"`
	Time    time.Time `json:"time"`
}

// hidden reports whether the client takes a message for what the server says about a request, and does not return it:
// it has no body, and a header Status. Anyone who publishes can write such a message.
func (m *stored) hidden() bool {
	if len(m.Data) > 0 || len(m.Headers) == 0 {
		return false
	}
	headers, err := nats.DecodeHeadersMsg(m.Headers)
	return err == nil && headers.Get("Status") != ""
}

// addHidden adds the next messages to an empty page, if they are hidden. It reports whether there were any. The consumer
// has sent them, so another one has to be made.
func (s *stream) addHidden(ctx context.Context, page *ordered.Page) (found bool, err error) {
	for len(page.Entries) < hiddenMost {
		m, err := s.after(ctx, s.at)
		if err != nil || m == nil || !m.hidden() {
			return len(page.Entries) > 0, err
		}
		seq := int64(m.Seq)
		if gap := seq - s.at - 1; gap > 0 && s.options.Subject == "" {
			if len(page.Entries) > 0 {
				break
			}
			page.Start, page.Lost = seq-1, gap
		}
		s.consumer, s.at, s.waiting = nil, seq, max(0, s.waiting-1)
		page.Entries = append(page.Entries, ordered.Entry{After: ordered.Place{Position: seq, ID: mark{m.Seq, m.Time.UnixNano()}.String()}})
	}
	page.Waiting = s.waiting
	return true, nil
}

// after asks for the first message after a position; nil if there is none.
func (s *stream) after(ctx context.Context, position int64) (*stored, error) {
	subject := s.options.Subject
	if subject == "" {
		subject = ">"
	}
	question, err := json.Marshal(map[string]any{"seq": position + 1, "next_by_subj": subject})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	reply, err := s.conn.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+s.options.Stream, question)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Message *stored `json:"message"`
		Error   *struct {
			Code int    `json:"err_code"`
			Text string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return nil, err
	}
	if answer.Error != nil && answer.Error.Code != notFoundAPI {
		return nil, errors.New(answer.Error.Text)
	}
	return answer.Message, nil
}

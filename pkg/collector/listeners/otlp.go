package listeners

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/pkg/collector/pipeline"
	"weir/pkg/request"
)

const (
	otlpPath     = "/v1/logs"
	otlpGRPCPath = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"

	typeProtobuf = "application/x-protobuf"
	typeJSON     = "application/json"
)

var (
	errOTLPPath = errors.New("OTLP's logs are posted to " + otlpPath + ", or sent by gRPC to " + otlpGRPCPath)
	errOTLPType = errors.New("the content type of OTLP is " + typeProtobuf + " or " + typeJSON)
	errNotOTLP  = errors.New("the body is not OTLP's logs in protobuf: it is damaged, or of another kind")
	errBadJSON  = errors.New("the body is not JSON, although its content type is")
)

// serveOTLP answers one export of OTLP's logs, over gRPC or HTTP: success once Kafka has the hits of all log records. The
// body is one record, in the envelope otlp.
func (h *httpSource) serveOTLP(w http.ResponseWriter, r *http.Request) {
	if isGRPC(r) {
		got, wrong := h.export(w, r, nil, func(p *post) { p.framed = true })
		answerGRPC(w, partial(got), wrong)
		return
	}

	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	got, wrong := h.export(w, r, errOTLPType, func(p *post) { p.json = media == typeJSON })
	if media != typeProtobuf {
		media = typeJSON
	}
	status := http.StatusOK
	var body []byte
	if wrong != nil {
		h.refuse(w, wrong)
		status, body = wrong.Status, statusOf(media, wrong.Detail)
	} else {
		body = successOf(media, partial(got))
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(body) // the sender may have gone
}

// export takes a post of a form, and waits until it is counted. otherwise is the error of a content type that is neither
// protobuf nor JSON; nil asks for none.
func (h *httpSource) export(w http.ResponseWriter, r *http.Request, otherwise error, form func(*post)) (pipeline.Outcome, *httpProblem) {
	sender, wrong := h.admit(r)
	if wrong != nil {
		return pipeline.Outcome{}, wrong
	}
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); otherwise != nil && media != typeProtobuf && media != typeJSON {
		return pipeline.Outcome{}, problem(http.StatusUnsupportedMediaType, otherwise)
	}
	p := newPost(sender, false, interrupts(w))
	p.otlp = true
	form(p)
	return h.deliver(w, r, p)
}

// checkOTLP returns why a body cannot be read.
func (p *post) checkOTLP() error {
	switch {
	case p.json && !json.Valid(p.body):
		return errBadJSON
	case !p.json && !request.CheckOTLP(p.body):
		return errNotOTLP
	}
	return nil
}

// A rejection is the number of log records that could not be read, and why: OTLP's partial success.
type rejection struct {
	records int64
	why     string
}

func partial(got pipeline.Outcome) (r rejection) {
	unread, _ := got.ByReason()
	for _, n := range unread {
		r.records += n
	}
	if r.records > 0 {
		r.why = fmt.Sprintf("%d of %d log records could not be read: %v", r.records, got.Requests(), unread)
	}
	return r
}

// successOf is an ExportLogsServiceResponse.
func successOf(media string, r rejection) []byte {
	if media == typeJSON {
		if r.records == 0 {
			return []byte("{}")
		}
		why, _ := json.Marshal(r.why)
		return fmt.Appendf(nil, `{"partialSuccess":{"rejectedLogRecords":%q,"errorMessage":%s}}`, strconv.FormatInt(r.records, 10), why)
	}
	if r.records == 0 {
		return nil
	}
	inner := protowire.AppendTag(nil, 1, protowire.VarintType)
	inner = protowire.AppendVarint(inner, uint64(r.records))
	inner = protowire.AppendTag(inner, 2, protowire.BytesType)
	inner = protowire.AppendString(inner, r.why)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), inner)
}

// statusOf is a google.rpc.Status with a message, as OTLP wants it with an error.
func statusOf(media, message string) []byte {
	if media == typeJSON {
		text, _ := json.Marshal(map[string]string{"message": message})
		return text
	}
	return protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), message)
}

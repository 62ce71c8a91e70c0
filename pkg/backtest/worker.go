package backtest

import (
	"bytes"
	"errors"

	"weir/internal/logfile"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// A worker makes hits of lines. It is for one goroutine.
type worker struct {
	config   *Config
	decoders map[request.Choice]*request.Decoder
	judges   []*rule.Judge // one for each set of rules
	each     func(*request.Request, error)
	ids      request.IDs
	sought   sought // nil, or the keys whose requests are kept: then nothing is counted

	// While a chunk is parsed:
	chunk   *chunk
	line    []byte
	decoder *request.Decoder
}

func newWorker(c *Config) *worker {
	w := &worker{config: c, decoders: map[request.Choice]*request.Decoder{}, ids: request.IDs{By: c.Dedupe.By}}
	for _, set := range c.sets() {
		judge := set.NewJudge()
		judge.WatchNetworks()
		w.judges = append(w.judges, judge)
	}
	w.each = w.record
	return w
}

// parse parses the lines of a chunk.
func (w *worker) parse(c *chunk) {
	c.reset()
	if c.skipped > 0 {
		c.addUnread(reasonLong, c.skipped, 0, request.Text(c.long))
	}
	if len(c.data) == 0 {
		return
	}

	w.chunk = c

	// It cannot fail: one of the same kind was made by look.
	kind := request.Choice{Envelope: c.log.choice.Envelope, Format: c.log.choice.Format}
	decoder := w.decoders[kind]
	if decoder == nil {
		var err error
		if decoder, err = request.NewDecoder(kind.Envelope, kind.Format, w.config.Options); err != nil {
			panic(err)
		}
		decoder.Want(w.reads())
		w.decoders[kind] = decoder
	}

	w.decoder = decoder
	decoder.Forget() // the chunk before may be from another place of the log
	for data := c.data; len(data) > 0; c.lines++ {
		w.line = data
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			w.line, data = data[:end], data[end+1:]
		} else {
			data = nil
		}

		if c.log.Records {
			w.line = recordOf(w.line)
		} else {
			// Zeros may stand before any line, where a writer lost its place.
			w.line = logfile.WithoutHole(w.line)
		}
		decoder.DecodeEach(request.Text(w.line), w.each)
	}
}

// reads are the fields that the rules and the evidence need, as for a collector: of a record with very many fields, further
// ones that no rule asks for would otherwise take the place of those that one does. nil is all fields.
func (w *worker) reads() []string {
	names := []string{w.config.Dedupe.By}
	for _, set := range w.config.sets() {
		of := set.Reads()
		if of == nil {
			return nil
		}
		names = append(names, of...)
	}
	if w.sought != nil {
		names = append(names, "method", "host", "path", "query", "agent")
	}
	return names
}

const reasonLong = "long"

// selects reports whether the record that was read last counts.
func (w *worker) selects() bool {
	return w.config.Only == nil || w.config.Only(w.decoder.Envelope)
}

// record counts one request of a line, or the reason why there is none.
func (w *worker) record(r *request.Request, err error) {
	switch {
	case err == nil && w.chunk.log.leavesOut(r):
	case err == nil && !w.selects():
		w.chunk.filtered++
	case err == nil:
		w.chunk.addRequest(r)
		if w.config.Client != nil {
			w.config.Client.Resolve(r) // a proxy that sends no client address is the client
		}

		// Add the hits of a request to the chunk.
		c := w.chunk
		before := len(c.hits)
		for set, judge := range w.judges {
			hits := judge.Hits(r)
			for i := range hits {
				h := &hits[i]
				c.keys = append(c.keys, h.Key...)
				c.hits = append(c.hits, hit{
					at: r.UnixMilli, hash: hashKey(h.Rule, h.Key), keyEnd: uint32(len(c.keys)), cost: uint32(h.Cost), value: h.Value,
					rule: uint16(h.Rule), set: uint8(set), more: i < len(hits)-1,
				})
			}
		}
		w.identify(r, before)
	case !errors.Is(err, request.ErrNoRequest):
		w.chunk.addUnread(request.Reason(err), 1, w.chunk.skipped+w.chunk.lines, request.Text(w.line))
	}
}

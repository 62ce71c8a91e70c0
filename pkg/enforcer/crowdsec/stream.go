package crowdsec

import (
	"net/http"
	"time"
)

// bouncers that name no scopes are given addresses and prefixes.
const defaultScopes = "ip,range"

// decisions answers a bouncer that asks about one address, or one value.
func (a *API) decisions(w http.ResponseWriter, r *http.Request, key string) {
	f, err := parseFilter(r.URL.Query())
	if err != nil {
		sayError(w, http.StatusInternalServerError, err.Error())
		return
	}
	release, ok := a.ready(w)
	if !ok {
		return
	}
	defer release()
	now := a.Now().UnixMilli()
	t := a.tableOf(key)
	rows := t.find(&f)
	t.mu.Unlock()
	w.Header().Set("Content-Type", jsonType)
	if len(rows) == 0 {
		_, _ = w.Write([]byte("null"))
		return
	}
	out := newOutput(w)
	out.open(`[`)
	for _, r := range rows {
		out.object(r, r.remaining(now), false)
	}
	out.text(`]`)
	out.close()
}

// stream answers a bouncer that holds a list of its own.
func (a *API) stream(w http.ResponseWriter, r *http.Request, key string) {
	query := r.URL.Query()
	f, err := parseFilter(query)
	if err != nil {
		sayError(w, http.StatusInternalServerError, err.Error())
		return
	}
	if !query.Has("scopes") && !query.Has("scope") {
		f.scopes = scopesOf(defaultScopes)
	}
	release, ok := a.ready(w)
	if !ok {
		return
	}
	defer release()
	now := a.Now().UnixMilli()
	who := bouncerOf(key, r)
	startup := query.Get("startup") == "true"
	w.Header().Set("Content-Type", "application/json")
	out := newOutput(w)
	if out.open(`{"new": [`); startup {
		out.flush() // before what takes its time; nothing can go wrong in it
	}
	t := a.tableOf(key)
	said := t.answerTo(who, &f, startup)
	t.mu.Unlock()
	said.write(out, now)
	t.mu.Lock()
	t.bouncers.set(who, cursor{said.revision, now})
	t.mu.Unlock()
}

// answerTo is what a bouncer is told: what changed, or everything when that is not known or it asks for it.
func (t *table) answerTo(who bouncer, f *filter, startup bool) answer {
	at, known := t.bouncers[who]
	if startup || !known || !t.knows(at.Revision) {
		return t.startup(f)
	}
	return t.delta(f, at.Revision)
}

// write writes what follows the beginning of the first list.
func (a answer) write(out *output, nowMilli int64) {
	for _, r := range a.fresh {
		out.object(r, r.remaining(nowMilli), true)
	}
	out.open(`], "deleted": [`)
	for _, c := range a.deleted {
		out.object(c.Row, past(c.Ended, nowMilli), true)
	}
	out.text(`]}`)
	out.close()
}

// ready takes a place among the answers that are written, if there is a whole list and a place.
func (a *API) ready(w http.ResponseWriter) (release func(), ok bool) {
	if !a.List.Whole() {
		busy(w, "there is no whole list yet")
		return nil, false
	}
	select {
	case a.writing <- struct{}{}:
		return func() { <-a.writing }, true
	default:
		busy(w, "too many lists are being written")
		return nil, false
	}
}

func busy(w http.ResponseWriter, message string) {
	w.Header().Set("Retry-After", "1")
	sayError(w, http.StatusServiceUnavailable, message)
}

// An output writes a list of objects in pieces, and gives each piece a time. A client that does not take it in time, or has
// gone, has its connection ended.
type output struct {
	w       http.ResponseWriter
	control *http.ResponseController
	piece   []byte
	first   bool
}

const (
	pieceBytes   = 64 << 10
	piecePatient = 30 * time.Second
)

func newOutput(w http.ResponseWriter) *output {
	return &output{w: w, control: http.NewResponseController(w)}
}

// open writes what an array begins with.
func (o *output) open(text string) {
	o.text(text)
	o.first = true
}

func (o *output) text(text string) { o.piece = append(o.piece, text...) }

func (o *output) object(r *row, duration time.Duration, withUUID bool) {
	if !o.first {
		o.piece = append(o.piece, ',')
	}
	o.first = false
	if o.piece = r.append(o.piece, duration, withUUID); len(o.piece) >= pieceBytes {
		o.flush()
	}
}

func (o *output) flush() {
	_ = o.control.SetWriteDeadline(time.Now().Add(piecePatient)) // some writers have none
	_, err := o.w.Write(o.piece)
	if err == nil {
		err = o.control.Flush()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // what has been written must not be taken for the whole
	}
	o.piece = o.piece[:0]
}

func (o *output) close() {
	o.flush()
	_ = o.control.SetWriteDeadline(time.Time{})
}

package past

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weir/internal/keytext"
	"weir/pkg/blocklist"
)

// Forms are the forms in which events are exported: lines of JSON as in the topic, CSV with a first row of names, lines
// of JSON in the Elastic Common Schema, and lines of ArcSight's Common Event Format.
var Forms = []string{"json", "csv", "ecs", "cef"}

// A Writer writes events in a form.
type Writer struct {
	form  string
	to    io.Writer
	table *csv.Writer // of CSV only
}

// NewWriter makes a writer, and writes the first row of a table.
func NewWriter(to io.Writer, form string) (*Writer, error) {
	w := &Writer{form: form, to: to}
	switch {
	case !slices.Contains(Forms, form):
		return nil, fmt.Errorf("%w: the form %q", ErrQuery, form)
	case form != "csv":
		return w, nil
	}
	w.table = csv.NewWriter(to)
	return w, w.row(columns)
}

// Write writes an event.
func (w *Writer) Write(e *Event) error {
	switch w.form {
	case "csv":
		return w.row(cells(e))
	case "ecs":
		return w.line(json.Marshal(asECS(e)))
	case "cef":
		return w.line([]byte(asCEF(e)), nil)
	}
	return w.line(e.Line, nil)
}

func (w *Writer) line(text []byte, err error) error {
	if err == nil {
		_, err = w.to.Write(append(text[:len(text):len(text)], '\n'))
	}
	return err
}

func (w *Writer) row(cells []string) error {
	if err := w.table.Write(cells); err != nil {
		return err
	}
	w.table.Flush()
	return w.table.Error()
}

var columns = []string{"at", "event", "rule", "key", "fields", "from", "until", "ended", "limit", "count", "level", "mode", "source", "order", "by", "why", "id", "guarded_by"}

// cells are the row of an event.
func cells(e *Event) []string {
	fields, _ := json.Marshal(e.Fields) // strings can always be written
	all := []string{blocklist.InstantText(e.At), e.What, e.Rule, e.Key, string(fields), blocklist.InstantText(e.From), until(e), ended(e), e.Limit,
		strconv.FormatInt(e.Count, 10), strconv.Itoa(e.Level), e.Mode.String(), e.Source.String(), orderOf(e), e.By, e.Why, e.ID, guardedBy(e)}
	for i := range all {
		all[i] = guarded(all[i])
	}
	return all
}

// guarded returns a text that no spreadsheet takes for a formula, also where it takes other characters than a comma for
// the end of a cell, as in countries that write 0,5.
func guarded(cell string) string {
	var b strings.Builder
	begins := true // a cell may begin here
	for _, one := range []byte(cell) {
		if begins && strings.IndexByte("=+-@\t\r", one) >= 0 {
			b.WriteByte('\'')
		}
		b.WriteByte(one)
		begins = strings.IndexByte(";\t\r\n", one) >= 0 || begins && one == ' '
	}
	return b.String()
}

// guardedBy is the bound of its rule's guard that a block exceeds.
func guardedBy(e *Event) string {
	if !e.Guarded {
		return ""
	}
	return blocklist.GuardedBy(e.ByShare)
}

func until(e *Event) string {
	if e.Until >= blocklist.Never {
		return ""
	}
	return blocklist.InstantText(e.Until)
}

func ended(e *Event) string {
	if e.Ended == 0 {
		return ""
	}
	return blocklist.InstantText(e.Ended)
}

func orderOf(e *Event) string {
	if e.Order == 0 {
		return ""
	}
	return e.Order.String()
}

// addressOf is the address that the event is about, and whether it is a single one.
func addressOf(e *Event) (text string, single bool) {
	text = e.Fields["ip"]
	return text, text != "" && !strings.Contains(text, "/")
}

type object map[string]any

// set sets a member that has a value.
func (o object) set(name string, value any) {
	switch v := value.(type) {
	case string:
		if v == "" {
			return
		}
	case object:
		if len(v) == 0 {
			return
		}
	case []string:
		if len(v) == 0 {
			return
		}
	}
	o[name] = value
}

// ecsVersion is the version of the schema whose fields are used.
const ecsVersion = "8.11.0"

// asECS returns the event with the names of the Elastic Common Schema, as docs/siem.md has them.
func asECS(e *Event) object {
	manual := e.Source == blocklist.Manual
	about := object{"kind": "event", "category": []string{"intrusion_detection"}, "type": []string{typeOf(e)}, "provider": "weir", "action": e.What}
	if manual {
		about["category"] = []string{"configuration"}
	} else if denies(e) {
		about["kind"] = "alert"
	}
	about.set("start", blocklist.InstantText(e.From))
	about.set("end", until(e))
	about.set("created", blocklist.InstantText(e.Decided))
	about.set("reason", e.Why)

	rule := object{"name": e.Rule, "ruleset": "weir"}
	rule.set("description", e.Limit)
	own := object{"id": e.ID, "key": e.Key, "count": e.Count, "level": e.Level, "mode": e.Mode.String(), "source": e.Source.String(), "v": blocklist.RecordVersion}
	if e.Guarded {
		own["guarded"], own["guarded_by"] = true, blocklist.GuardedBy(e.ByShare)
	}
	own.set("ended", ended(e))
	own.set("order", orderOf(e))

	user, source, url, related, others := object{}, object{}, object{}, object{}, object{}
	var users []string
	if manual {
		user.set("name", e.By)
		users = append(users, e.By)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		value := e.Fields[name]
		switch {
		case name == "ip":
			source.set("address", value)
			if _, single := addressOf(e); single {
				source.set("ip", value)
				related["ip"] = []string{value}
			}
		case name == "user" && manual:
			user["target"] = object{"name": value}
			users = append(users, value)
		case name == "user":
			user.set("name", value)
			users = append(users, value)
		case name == "host":
			url.set("domain", value)
		case name == "path":
			url.set("path", value)
		default:
			others.set(name, value)
		}
	}
	related.set("user", users)
	own.set("fields", others)

	all := object{"@timestamp": blocklist.InstantText(e.At), "ecs": object{"version": ecsVersion}, "event": about, "rule": rule, "weir": own}
	all.set("source", source)
	all.set("user", user)
	all.set("url", url)
	all.set("related", related)
	return all
}

// denies reports whether the event makes or keeps a block by a rule.
func denies(e *Event) bool {
	return e.What == blocklist.EventBlocked || e.What == blocklist.EventExtended || e.What == blocklist.EventCorrected
}

func typeOf(e *Event) string {
	switch {
	case denies(e) && e.Mode == blocklist.Shadow:
		return "info"
	case denies(e):
		return "denied"
	case e.What == blocklist.EventOrdered:
		return "creation"
	case e.Source == blocklist.Manual:
		return "deletion"
	}
	return "allowed"
}

// The escapes of CEF: of its header, and of the values of its extension.
var (
	cefHeader = strings.NewReplacer(`\`, `\\`, `|`, `\|`, "\r", " ", "\n", " ")
	cefValue  = strings.NewReplacer(`\`, `\\`, `=`, `\=`, "\r", `\r`, "\n", `\n`)
)

// asCEF returns the event as a line of the Common Event Format.
func asCEF(e *Event) string {
	var b strings.Builder
	name := e.What + " by " + e.Rule
	if order := orderOf(e); order != "" {
		name = e.What + " " + order
	}
	fmt.Fprintf(&b, "CEF:0|Weir|weir|%d|%s|%s|%d|", blocklist.RecordVersion, cefHeader.Replace(e.What), cefHeader.Replace(name), severity(e))
	put := func(name, value string) {
		if value == "" {
			return
		}
		if !strings.HasSuffix(b.String(), "|") {
			b.WriteByte(' ')
		}
		b.WriteString(name + "=" + cefText(value))
	}
	milli := func(at int64) string { return strconv.FormatInt(at, 10) }

	put("rt", milli(e.At))
	put("act", e.What)
	put("externalId", e.ID)
	put("start", milli(e.From))
	if e.Until < blocklist.Never {
		put("end", milli(e.Until))
	}
	if text, single := addressOf(e); single {
		put("src", text)
	}
	if e.Source == blocklist.Manual {
		put("suser", e.By)
		put("duser", e.Fields["user"])
	} else {
		put("suser", e.Fields["user"])
	}
	put("dhost", e.Fields["host"])
	put("request", e.Fields["path"])
	put("reason", e.Why)
	if e.Source != blocklist.Manual {
		put("cnt", milli(e.Count))
	}
	for n, one := range [][2]string{{"rule", e.Rule}, {"key", e.Key}, {"limit", e.Limit}, {"mode", e.Mode.String()}, {"order", orderOf(e)}, {"ended", ended(e)}} {
		if one[1] != "" {
			put(fmt.Sprintf("cs%dLabel", n+1), one[0])
			put(fmt.Sprintf("cs%d", n+1), one[1])
		}
	}
	put("cn1Label", "level")
	put("cn1", strconv.Itoa(e.Level))
	if by := guardedBy(e); by != "" {
		put("flexString1Label", "guarded_by")
		put("flexString1", by)
	}
	return b.String()
}

// cefText escapes a value of the extension. Characters that cannot be printed, for which CEF has no escape, are \\x1b:
// a NUL can end the line for its reader, and an escape sequence can change a terminal.
func cefText(value string) string {
	var b strings.Builder
	for value != "" {
		at := strings.IndexAny(value, "\r\n")
		if at < 0 {
			at = len(value)
		}
		b.WriteString(cefValue.Replace(keytext.Shown(value[:at])))
		if at < len(value) {
			b.WriteString(cefValue.Replace(value[at : at+1]))
			at++
		}
		value = value[at:]
	}
	return b.String()
}

// severity is 0 to 10.
func severity(e *Event) int {
	switch {
	case (e.Order == blocklist.OrderPause || e.Order == blocklist.OrderConfirm) && e.What == blocklist.EventOrdered:
		return 8
	case e.Order == blocklist.OrderAllow && e.What == blocklist.EventOrdered:
		return 6
	case denies(e) && e.Mode == blocklist.Enforce:
		return 5
	case e.Source == blocklist.Manual:
		return 4
	}
	return 2
}

package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// document returns the root of the one document in data; an empty one is a null. It is nil when data is not YAML.
func (d *decoder) document(data []byte) *yaml.Node {
	if d.unreadable(data) {
		return nil
	}
	d.source = strings.Split(string(data), "\n")
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithV4Defaults())
	if err != nil {
		d.syntax(err)
		return nil
	}

	var first, second yaml.Node
	switch err := loader.Load(&first); {
	case errors.Is(err, io.EOF), err == nil && len(first.Content) == 0:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: 1, Column: 1}
	case err != nil:
		d.syntax(err)
		return nil
	}

	// A second document would be ignored without a word.
	switch err := loader.Load(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.syntax(err)
	default:
		d.faultAt(second.Line, second.Column, "keep each document in a file of its own", "a second document begins here")
	}

	return first.Content[0]
}

// unreadable finds bytes that are not allowed in YAML, because the YAML reader does not report their place.
func (d *decoder) unreadable(data []byte) bool {
	if len(data) > 1 && (data[0] == 0xff && data[1] == 0xfe || data[0] == 0xfe && data[1] == 0xff) {
		d.faultAt(1, 1, "save the file as UTF-8", "the file is UTF-16")
		return true
	}

	at := firstUnreadable(data)
	if at < 0 {
		return false
	}

	// Columns are characters, as editors count them.
	line := bytes.Count(data[:at], []byte("\n")) + 1
	column := utf8.RuneCount(data[bytes.LastIndexByte(data[:at], '\n')+1:at]) + 1
	if data[at] >= utf8.RuneSelf {
		d.faultAt(line, column, "save the file as UTF-8", "the byte 0x%02x is not UTF-8", data[at])
	} else {
		d.faultAt(line, column, "take it out", "there is an invisible control character (0x%02x) here", data[at])
	}

	return true
}

// firstUnreadable returns the place of the first byte that is not UTF-8 or is a control character; -1 when there is
// none.
func firstUnreadable(data []byte) int {
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if (r == utf8.RuneError && size == 1) || (r < ' ' && r != '\t' && r != '\r' && r != '\n') || r == 0x7f {
			return at
		}
		at += size
	}
	return -1
}

func (d *decoder) faultAt(line, column int, remedy, format string, args ...any) {
	fault := Fault{File: d.file, Line: line + d.lines, Column: column + d.columns, What: fmt.Sprintf(format, args...), Remedy: remedy}
	d.faults = append(d.faults, fault)
}

// syntax rewrites the YAML reader's error for a person who sees the line.
func (d *decoder) syntax(err error) {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		d.faults = append(d.faults, Fault{File: d.file, What: "this is no YAML: " + err.Error()})
		return
	}

	for _, mistake := range mistakes {
		if what, remedy, ok := mistake(load, d.source); ok {
			place := load.Mark
			if opened(load) {
				place = load.ContextMark
			}
			d.faultAt(max(place.Line, 1), max(place.Column, 1), remedy, "%s", what)
			return
		}
	}

	d.faultAt(max(load.Mark.Line, 1), max(load.Mark.Column, 1), "", "this is no YAML: %s", load.Message)
}

// opened reports whether the error's place is the beginning of something that does not end.
func opened(e *yaml.LoadError) bool {
	if e.ContextMark.Line < 1 || strings.HasPrefix(e.Message, "exceeded") || e.Message == "found character that cannot start any token" || e.Message == "did not find expected node content" {
		return false
	}
	return strings.Contains(e.ContextMsg, "flow") || strings.Contains(e.ContextMsg, "quoted scalar") && !strings.Contains(e.Message, "escape")
}

const quoteIt = "put the entire value in single quotes: "

// mistakes are the most frequent mistakes in YAML; the first that matches is reported.
var mistakes = []func(e *yaml.LoadError, lines []string) (what, remedy string, ok bool){
	tabIndents, wrongFirstCharacter, secondColon, wrongIndentation, textAfterQuote, backslash, missingValue, neverClosed, unknownAlias,
}

// rest returns the file's text from a place to the end of its line.
func rest(mark yaml.Mark, lines []string) (before, after string) {
	if mark.Line < 1 || mark.Line > len(lines) {
		return "", ""
	}
	line := strings.TrimRight(lines[mark.Line-1], "\r")
	at := 0
	for column := 1; column < mark.Column && at < len(line); column++ {
		_, size := utf8.DecodeRuneInString(line[at:])
		at += size
	}
	return line[:at], line[at:]
}

// single returns a value in single quotes.
func single(value string) string {
	return "'" + strings.ReplaceAll(strings.TrimSpace(value), "'", "''") + "'"
}

func tabIndents(e *yaml.LoadError, lines []string) (string, string, bool) {
	before, after := rest(e.Mark, lines)
	indents := strings.TrimLeft(before+after, " ")
	if !strings.HasPrefix(indents, "\t") || strings.TrimSpace(before) != "" {
		return "", "", false
	}
	return "a tab indents this line", "use spaces", true
}

func wrongFirstCharacter(e *yaml.LoadError, lines []string) (string, string, bool) {
	_, after := rest(e.Mark, lines)
	if e.Message != "found character that cannot start any token" || after == "" {
		return "", "", false
	}
	first, _ := utf8.DecodeRuneInString(after)
	return fmt.Sprintf("a value cannot begin with %c", first), quoteIt + single(after), true
}

func secondColon(e *yaml.LoadError, lines []string) (string, string, bool) {
	before, after := rest(e.Mark, lines)
	_, value, found := strings.Cut(before, ": ")
	if !found || e.Message != "mapping values are not allowed in this context" {
		return "", "", false
	}
	return "a second colon makes no sense to YAML here", quoteIt + single(value+after), true
}

func wrongIndentation(e *yaml.LoadError, lines []string) (string, string, bool) {
	switch e.Message {
	case "mapping values are not allowed in this context", "block sequence entries are not allowed in this context":
	case "did not find expected key", "did not find expected '-' indicator":
		if before, _ := rest(e.Mark, lines); strings.TrimSpace(before) != "" {
			return "", "", false
		}
	default:
		return "", "", false
	}
	return "this line does not fit the lines above", "line up the keys of one map, and the dashes of one list, in one column", true
}

func textAfterQuote(e *yaml.LoadError, lines []string) (string, string, bool) {
	before, after := rest(e.Mark, lines)
	_, value, found := strings.Cut(before, ": ")
	if !found || e.Message != "did not find expected key" {
		return "", "", false
	}
	return "there is text after the closing quote", quoteIt + single(value+after), true
}

func backslash(e *yaml.LoadError, _ []string) (string, string, bool) {
	return "in double quotes a backslash begins an escape, and this one is not known", "use single quotes, or double the backslash", e.Message == "found unknown escape character"
}

func missingValue(e *yaml.LoadError, _ []string) (string, string, bool) {
	return "a value is missing here, or a bracket above is not closed", "", e.Message == "did not find expected node content"
}

func neverClosed(e *yaml.LoadError, lines []string) (string, string, bool) {
	if !opened(e) {
		return "", "", false
	}
	_, after := rest(e.ContextMark, lines)
	_, where := rest(e.Mark, lines)
	switch {
	case strings.Contains(e.ContextMsg, "quoted scalar"):
		return "the quote that opens here is never closed", "close it, or leave it out", true
	case strings.Contains(after, "${"):
		return "${…} in brackets makes no sense to YAML without quotes", `write "${NAME}"`, true
	case where != "" && strings.ContainsAny(where[:1], "[{") && e.Mark.Line == e.ContextMark.Line:
		return "a bracket inside a value without quotes makes no sense to YAML here", "put the value in single quotes", true
	}

	closing := map[byte]string{'[': "]", '{': "}"}
	if after == "" || closing[after[0]] == "" {
		return "", "", false
	}
	return fmt.Sprintf("the %c that opens here is never closed, or a comma is missing after it", after[0]), "close it with " + closing[after[0]], true
}

func unknownAlias(e *yaml.LoadError, lines []string) (string, string, bool) {
	_, after := rest(e.Mark, lines)
	if strings.Contains(e.ContextMsg, "an alias") {
		_, after = rest(e.ContextMark, lines)
	}
	if !strings.HasPrefix(after, "*") {
		return "", "", false
	}
	return "a value that begins with * repeats one that was named with &, and there is none of that name", quoteIt + single(after), true
}

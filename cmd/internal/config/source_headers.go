package config

import (
	"maps"
	"slices"
	"strings"

	"weir/internal/yamlfile"
	"weir/pkg/request"
)

// headerPrefix is before the name of a record's header in fields.
const headerPrefix = "header:"

// LineFields are the fields that lines have, by our names.
func (s *Source) LineFields() map[string]string {
	fields := maps.Clone(s.Fields)
	maps.DeleteFunc(fields, func(_, theirs string) bool { return strings.HasPrefix(theirs, headerPrefix) })
	return fields
}

// HeaderFields are our names of the fields that headers of records have, sorted, and the names of these headers.
func (s *Source) HeaderFields() (ours, headers []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Fields)) {
		if header, is := strings.CutPrefix(s.Fields[name], headerPrefix); is {
			ours, headers = append(ours, name), append(headers, header)
		}
	}
	return ours, headers
}

// mostHeaders is how many fields of a source headers may have.
const mostHeaders = 16

// checkHeaders checks the fields that headers of records have.
func (s *Source) checkHeaders(v yamlfile.Value) {
	ours, headers := s.HeaderFields()
	place := v.Key("fields")
	if len(ours) > mostHeaders {
		place.Faultf("name only those that rules use", "%d fields come from headers, and at most %d may", len(ours), mostHeaders)
	}
	for i, name := range ours {
		switch {
		case s.Kind() != "kafka":
			place.Key(name).Faultf("leave it out", "only records of Kafka have headers, and the source is of the kind %s", s.Kind())
		case headers[i] == "":
			place.Key(name).Faultf("write it as header:tenant", "the header has no name")
		case !request.MayBeOuter(name):
			place.Key(name).Faultf("leave it out", "%s is what the line states, and no header", name)
		}
	}
}

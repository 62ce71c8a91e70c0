package request

import (
	"slices"
	"strings"
)

// linePresets are the presets whose lines have the fields of their format and no others.
var linePresets = []string{"combined", "common", "vhost_combined", "host_combined", "lighttpd", "main", "ingress-nginx", "combined-plus", "common-plus"}

// FieldsOf are the names of the fields that requests of a format can have, sorted. If they are not known before the log
// is read, then complete is false, and the names are those of Options.Fields. That is so for auto, for records of JSON,
// and for formats whose lines name their fields themselves.
func FieldsOf(format string, o Options) (names []string, complete bool) {
	for name := range o.Fields {
		names = append(names, name)
	}
	format = strings.TrimSpace(format)
	if complete = slices.Contains(linePresets, format) || !slices.Contains(Presets(), format); complete {
		parser, _ := NewParser(format, o)
		lines, ok := parser.(*scanner)
		if complete = ok; ok {
			for i := range lines.steps {
				names = append(names, lines.steps[i].fills...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), complete
}

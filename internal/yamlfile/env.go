package yamlfile

import (
	"regexp"
	"strings"
)

var variable = regexp.MustCompile(`\$?\$\{([^}]*)\}`)

// expand returns a scalar's text with its variables replaced.
func (d *decoder) expand(v Value) string {
	text := v.node.Value
	if d.env == nil || !strings.Contains(text, "${") {
		return text
	}
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "$$") {
			return found[1:]
		}
		name := found[2 : len(found)-1]
		value, ok := d.env(name)
		if !ok {
			v.Faultf("set it, or write $"+found+" for the text itself", "the environment variable %s is not set", name)
		}
		return value
	})
}

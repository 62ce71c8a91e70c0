package enforcer

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"weir/pkg/blocklist"
)

// ordersFor are the fields that orders may name with any rules: every check has them, and the user if enforcer.fields
// configures it.
var ordersFor = []string{"ip", "user", "host", "path", "method", "agent"}

// unasked returns why no check here would ever find an order, because none looks up its field. It is empty when one
// would.
func (e *Enforcer) unasked(o *blocklist.Order) string {
	ruling := e.ruling.Load()

	// The fields by which checks look up orders.
	further := make([]string, len(ruling.fields))
	for i, f := range ruling.fields {
		further[i] = f.field
	}
	slices.Sort(further)
	known := append(slices.Clone(ordersFor), further...)

	switch {
	case o.Scope == "user" && ruling.userHeader == "":
		return "checks here do not know the user: name the header that edges set in enforcer.fields, as {user: X-User}"
	case slices.Contains(known, o.Scope):
		return ""
	}
	return fmt.Sprintf("checks here look up %s, and not %s: if edges set a header for it, name that in enforcer.fields, as {%[2]s: X-Header}",
		strings.Join(known, ", "), o.Scope)
}

// findable refuses an order that no check would ever find. It accepts users, because lists for edges have them too.
func (e *Enforcer) findable(o *blocklist.Order) error {
	if why := e.unasked(o); why != "" && o.Scope != "user" {
		return problemf(http.StatusBadRequest, "%s", why)
	}
	return nil
}

package blocklist

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"weir/internal/address"
	"weir/pkg/request"
)

const (
	scopeIP   = "ip"
	scopeUser = "user"
	scopeHost = "host"
)

var scopeName = regexp.MustCompile(`^[\pL_@$][\pL\pN_@$.-]*$`)

// validScope reports whether a name can be a scope: a field's name that is not a reserved word.
func validScope(scope string) bool {
	return scope != pauseWord && scope != pardonWord && scopeName.MatchString(scope)
}

// ParseTarget reads the target of an order: an address or a prefix, or a field's name, a colon and its value:
// 203.0.113.7, 2001:db8::/64, user:alice, host:example.org. It returns addresses, prefixes and hosts in their canonical
// form. A value keeps its spaces: a client may be named "alice ", and that is not alice.
func ParseTarget(text string) (scope, value string, err error) {
	if prefix, err := address.Parse(strings.TrimSpace(text)); err == nil {
		return scopeIP, address.Text(prefix), nil
	}

	// An IPv6 address has colons too, but was read above.
	scope, value, found := strings.Cut(strings.TrimLeft(text, " \t"), ":")
	switch {
	case !found:
		return "", "", fmt.Errorf("%q is no address, prefix or field; write 203.0.113.7, 10.0.0.0/8, user:alice or host:example.org", text)
	case scope == scopeIP:
		return parseAddressTarget(value)
	case scope == scopeHost:
		value = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(value)), ".")
	case scope == "path":
		value, _ = request.PathForm{}.Normal(value, false, nil) // the form that checks ask for
	}

	if !validTarget(scope, value) {
		return "", "", fmt.Errorf("%q has no value; write the field, a colon and its value, as user:alice", text)
	}
	return scope, value, nil
}

func parseAddressTarget(text string) (scope, value string, err error) {
	prefix, err := address.Parse(strings.TrimSpace(text))
	if err != nil {
		return "", "", fmt.Errorf("%q is no address and no prefix", text)
	}
	return scopeIP, address.Text(prefix), nil
}

// ErrOrder refuses an impossible order.
var ErrOrder = errors.New("not an order")

// Prefix returns the prefix of an order of the scope ip; it is not valid for others.
func (o *Order) Prefix() netip.Prefix {
	if o.Scope != scopeIP {
		return netip.Prefix{}
	}
	prefix, _ := address.Parse(o.Value)
	return prefix
}

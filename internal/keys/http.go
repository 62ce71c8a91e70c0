package keys

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Why a request is not admitted: the first two are a 401, the last is a 403.
var (
	ErrNone    = errors.New("an API key is needed: send it as X-Api-Key, or as Authorization: Bearer")
	ErrUnknown = errors.New("the API key is not known")
	ErrRole    = errors.New("the API key may not do this")
)

// Admit is the key that a request bears, if its role is enough.
func (f *File) Admit(r *http.Request, want Role) (Key, error) {
	secret := presented(r)
	if secret == "" {
		return Key{}, ErrNone
	}
	key, ok := f.Find(secret)
	if !ok {
		return Key{}, ErrUnknown
	}
	if !key.Role.May(want) {
		return Key{}, fmt.Errorf("%w: %s has the role %s, and %s is needed", ErrRole, key.Name, key.Role, want)
	}
	return key, nil
}

// presented is the key that a request bears; empty when it bears none.
func presented(r *http.Request) string {
	if key := r.Header.Get("X-Api-Key"); key != "" {
		return key
	}
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(key)
}

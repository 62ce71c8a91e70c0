package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"weir/internal/keys"
	"weir/pkg/enforcer/console/provider"
)

const (
	beginPath  = root + "login/oidc"
	beginning  = "weir_console_login" // the cookie of a log-in that has begun
	maxAsking  = 16                   // calls of the provider at the same time
	cookieLast = 600                  // seconds, as long as the provider takes the cookie
)

// ReturnPath is the path that the provider's redirect leads to.
const ReturnPath = root + "login/callback"

// beginAt returns the address that begins a log-in with the provider; empty without one. It is at the host of the
// redirect, whatever host this request names: the cookie has to be where the provider leads back to.
func (c *Console) beginAt(next string) string {
	if c.config.Provider == nil {
		return ""
	}
	return strings.TrimSuffix(c.config.Redirect, ReturnPath) + beginPath + "?" + url.Values{"next": {nextOf(next)}}.Encode()
}

// beginOIDC sends a browser to the provider.
func (c *Console) beginOIDC(w http.ResponseWriter, r *http.Request) {
	next := nextOf(r.URL.Query().Get("next"))
	leave, ok := inLine(r, c.asking)
	if !ok {
		c.showLogin(w, r, http.StatusServiceUnavailable, next, "Too many log-ins at the same time. Try again.")
		return
	}
	address, cookie, err := c.config.Provider.Begin(r.Context(), next)
	leave()
	if err != nil {
		c.failedLogin(w, r, next, err)
		return
	}
	http.SetCookie(w, c.begunCookie(cookie, cookieLast))
	http.Redirect(w, r, address, http.StatusSeeOther)
}

// endOIDC begins the session of a person who comes back from the provider.
func (c *Console) endOIDC(w http.ResponseWriter, r *http.Request) {
	leave, ok := inLine(r, c.asking)
	if !ok {
		c.showLogin(w, r, http.StatusServiceUnavailable, "", "Too many log-ins at the same time. Try again.")
		return
	}
	begun := ""
	if cookie, err := r.Cookie(beginning); err == nil {
		begun = cookie.Value
	}
	person, next, err := c.config.Provider.End(r.Context(), begun, r.URL.Query().Get)
	leave()
	if err != nil {
		c.failedLogin(w, r, next, err)
		return
	}

	http.SetCookie(w, c.begunCookie("", -1))
	c.begin(w, r, person, true)
	// The provider's page led here, so browsers would leave the strict cookie out of a redirect. A page of our own that
	// leads on brings it.
	c.render(w, r, http.StatusOK, "again", &view{Title: "One moment", Body: nextOf(next)})
}

// failedLogin answers a log-in with the provider that failed. Its errors have a sentence for people.
func (c *Console) failedLogin(w http.ResponseWriter, r *http.Request, next string, err error) {
	c.faults.Note("login", fmt.Errorf("a log-in at the console failed, from %s: %w", c.config.Client(r), err))
	c.delay(r)
	text := "The log-in failed. The enforcer's log has the reason."
	if why := (*provider.LoginError)(nil); errors.As(err, &why) {
		text = why.Text
	}
	c.showLogin(w, r, http.StatusUnauthorized, next, text)
}

// begin begins a session, and gives the browser its cookie.
func (c *Console) begin(w http.ResponseWriter, r *http.Request, key keys.Key, keyless bool) {
	c.sessions.end(r)
	http.SetCookie(w, c.cookie(r, c.sessions.begin(key, keyless), int(lastEnd.Seconds())))
	c.config.Logger.Info("logged in at the console", "name", key.Name, "role", key.Role, "from", c.config.Client(r))
}

// begunCookie has to come back with the provider's redirect, so it is lax: another site's links send it, forms do not.
func (c *Console) begunCookie(value string, seconds int) *http.Cookie {
	return &http.Cookie{Name: beginning, Value: value, Path: root + "login/", MaxAge: seconds, HttpOnly: true, Secure: strings.HasPrefix(c.config.Redirect, "https:"), SameSite: http.SameSiteLaxMode}
}

package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"weir/internal/keys"
)

// Bounds of log-ins. Keys are too long to be guessed, and one that is right is accepted at any time: a bound by address
// would let others with the same address, such as that of a proxy, keep its owner out.
const (
	failureDelay  = time.Second
	maxDelayed    = 16      // answers to failures that are delayed at the same time
	maxLoginBytes = 8 << 10 // of the form
)

// delay makes the answer to a failure slow. Only a few answers wait at a time: the others would cost connections.
func (c *Console) delay(r *http.Request) {
	select {
	case c.delayed <- struct{}{}:
	default:
		return
	}
	defer func() { <-c.delayed }()
	timer := time.NewTimer(failureDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// A loginView is what the page of the log-in shows.
type loginView struct {
	Next    string
	Error   string
	Keys    bool   // there are keys to log in with
	Once    string // the secret of a link
	Begin   string // the address that begins a log-in with the provider; empty without one
	Local   bool   // users of this machine can log in by a link
	Reads   bool   // reading needs no log-in
	Expired bool
}

// sendToLogin answers a request that may not read.
func (c *Console) sendToLogin(w http.ResponseWriter, r *http.Request, why error) {
	// Browsers leave a strict cookie out when a link on another site leads here. The same address again, now asked for
	// by our own page, comes with it.
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Method == http.MethodGet && r.URL.Path != root+"live" {
		c.render(w, r, http.StatusOK, "again", &view{Title: "One moment", Body: r.URL.RequestURI()})
		return
	}
	if c.config.Keys == nil && c.config.Provider == nil || r.Method != http.MethodGet || r.URL.Path == root+"live" {
		c.fail(w, r, nil, problem{http.StatusUnauthorized, sentence(why.Error())})
		return
	}
	http.Redirect(w, r, root+"login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
}

// nextOf returns where a log-in leads: a page of the console.
func nextOf(next string) string {
	at, err := url.Parse(next)
	if err != nil || at.Host != "" || at.Scheme != "" || !strings.HasPrefix(at.Path, root) || strings.ContainsAny(next, "\\\r\n") || strings.Contains(at.Path, "/../") {
		return root
	}
	return next
}

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	c.showLogin(w, r, http.StatusOK, r.URL.Query().Get("next"), "")
}

func (c *Console) showLogin(w http.ResponseWriter, r *http.Request, status int, next, why string) {
	_, err := c.config.Admit(r)
	c.render(w, r, status, "login", &view{Title: "Log in", Body: &loginView{Next: nextOf(next), Error: why, Keys: c.config.Keys != nil, Once: r.URL.Query().Get("once"), Begin: c.beginAt(next), Local: c.config.Person != nil, Reads: err == nil}})
}

// login begins a session.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	if err := ownPage(r); err != nil {
		c.fail(w, r, nil, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginBytes)
	if err := r.ParseForm(); err != nil {
		c.fail(w, r, nil, problem{http.StatusBadRequest, "The form cannot be read."})
		return
	}

	from, next := c.config.Client(r), r.PostForm.Get("next")
	var key keys.Key
	var why string
	once := r.PostForm.Get("once")
	if once != "" {
		key, why = c.keyOfLink(once)
	} else {
		key, why = c.keyOf(strings.TrimSpace(r.PostForm.Get("key")))
	}
	if why != "" {
		c.faults.Note("login", fmt.Errorf("a log-in at the console failed, from %s: %s", from, why))
		c.delay(r)
		c.showLogin(w, r, http.StatusUnauthorized, next, why)
		return
	}

	c.begin(w, r, key, once != "")
	http.Redirect(w, r, nextOf(next), http.StatusSeeOther)
}

// keyOf returns the key with a secret, or why no one can log in with it.
func (c *Console) keyOf(secret string) (key keys.Key, why string) {
	if c.config.Keys == nil {
		return key, "This enforcer has no file of keys. Set enforcer.keys, and add a key with weir keys add."
	}
	key, ok := c.config.Keys.Find(secret)
	switch {
	case secret == "" || !ok:
		return key, "This key is not known."
	case !key.Role.May(keys.Read):
		return key, fmt.Sprintf("The key %s has the role %s. The console needs the role read, write or admin.", key.Name, key.Role)
	}
	return key, ""
}

// cookie is the session's. Where a proxy in front ends TLS, the browser still says how it sent the form, and the provider
// leads to the address that people open.
func (c *Console) cookie(r *http.Request, value string, seconds int) *http.Cookie {
	secure := r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https:") || r.URL.Path == ReturnPath && strings.HasPrefix(c.config.Redirect, "https:")
	return &http.Cookie{Name: cookieName, Value: value, Path: root, MaxAge: seconds, HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode}
}

// logout ends a session.
func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	if _, err := c.mayAct(w, r); err != nil && !errors.Is(err, errReader) {
		c.fail(w, r, nil, err)
		return
	}
	c.sessions.end(r)
	http.SetCookie(w, c.cookie(r, "", -1))
	http.Redirect(w, r, root, http.StatusSeeOther)
}

var errReader = problem{http.StatusForbidden, "Your key may only read. Actions need a key of the role write."}

// mayAct returns the visitor of a form's request: one of our pages sent it, with the token of the visitor's session. The
// error is errReader for a visitor who may only read. It reads the form.
func (c *Console) mayAct(w http.ResponseWriter, r *http.Request) (*visitor, error) {
	if err := ownPage(r); err != nil {
		return nil, err
	}
	v, err := c.visitor(r)
	if err != nil || v.session == nil {
		return nil, problem{http.StatusUnauthorized, "Log in first: actions need a key of the role write."}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
	if err := r.ParseForm(); err != nil {
		return nil, problem{http.StatusBadRequest, "The form cannot be read."}
	}
	if !v.session.issued(r.PostForm.Get("token")) {
		return nil, problem{http.StatusForbidden, "This form is of an earlier log-in. Go back, load the page again, and repeat the action."}
	}
	if !v.writes {
		return v, errReader
	}
	return v, nil
}

// maxFormBytes bounds the form of an action: a target, a reason, and a few words.
const maxFormBytes = 16 << 10

// ownPage refuses a form that no page of this origin sent. The enforcer has refused other origins; a form without an
// Origin is refused here, because every browser that the console supports sends it.
func ownPage(r *http.Request) error {
	from, err := url.Parse(r.Header.Get("Origin"))
	if err != nil || from.Host == "" || !strings.EqualFold(from.Host, r.Host) {
		return problem{http.StatusForbidden, "The console's own pages did not send this form."}
	}
	return nil
}

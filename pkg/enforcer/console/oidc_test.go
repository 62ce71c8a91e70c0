package console_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/pkg/enforcer/console"
	"weir/pkg/enforcer/console/provider"
)

// A standIn is no real provider: it gives whatever answers a test wants. test/console logs in with a real one.
type standIn struct {
	url       string
	key       *ecdsa.PrivateKey
	public    *ecdsa.PublicKey
	challenge string // of the log-in that has begun

	alg    string                                            // of the token
	change func(claims map[string]any)                       // of the token
	token  func(w http.ResponseWriter, r *http.Request) bool // answers instead
	finds  func(found map[string]any)
}

// hugeKey is how many bytes an RSA key has that takes a minute.
const hugeKey = 96 << 10

func newStandIn(t *testing.T) *standIn {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &standIn{key: key, public: &key.PublicKey, alg: "ES256", change: func(map[string]any) {}, token: func(http.ResponseWriter, *http.Request) bool { return false }, finds: func(map[string]any) {}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

func encoded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// signed is a token with the claims.
func (p *standIn) signed(claims map[string]any) string {
	header, _ := json.Marshal(map[string]any{"alg": p.alg, "kid": "one", "typ": "JWT"})
	body, _ := json.Marshal(claims)
	text := encoded(header) + "." + encoded(body)
	sum := sha256.Sum256([]byte(text))
	switch p.alg {
	case "none":
		return text + "."
	case "RS256":
		return text + "." + encoded(bytes.Repeat([]byte{1}, hugeKey))
	case "HS256": // with the public key as its secret
		public, _ := p.public.Bytes()
		mac := hmac.New(sha256.New, public)
		mac.Write([]byte(text))
		return text + "." + encoded(mac.Sum(nil))
	}
	r, s, _ := ecdsa.Sign(rand.Reader, p.key, sum[:])
	return text + "." + encoded(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// ServeHTTP answers as a provider.
func (p *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		found := map[string]any{"issuer": p.url, "authorization_endpoint": p.url + "/auth", "token_endpoint": p.url + "/token", "jwks_uri": p.url + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256", "none", "HS256"}}
		p.finds(found)
		_ = json.NewEncoder(w).Encode(found)
	case "/keys":
		if p.alg == "RS256" {
			fmt.Fprintf(w, `{"keys":[{"kty":"RSA","kid":"one","n":%q,"e":"f____w"}]}`, encoded(bytes.Repeat([]byte{255}, hugeKey)))
			return
		}
		point, _ := p.public.Bytes() // 4, x, y
		fmt.Fprintf(w, `{"keys":[{"kty":"EC","crv":"P-256","kid":"one","x":%q,"y":%q}]}`, encoded(point[1:33]), encoded(point[33:]))
	case "/token":
		if p.token(w, r) {
			return
		}
		user, secret, _ := r.BasicAuth()
		verifier := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		nonce, right := strings.CutPrefix(r.FormValue("code"), "the-code-")
		if user != "weir" || secret != "hush" || encoded(verifier[:]) != p.challenge || !right {
			http.Error(w, `{"error":"invalid_grant","error_description":"the-secret-of-nobody"}`, http.StatusBadRequest)
			return
		}
		claims := map[string]any{"iss": p.url, "aud": "weir", "sub": "ann", "nonce": nonce, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
			"email": "ann@example.com", "email_verified": true, "groups": []string{"staff", "operators"}}
		p.change(claims)
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "the-access-token", "token_type": "Bearer", "id_token": p.signed(claims)})
	}
}

// with gives a stand's console a log-in with the provider.
func (p *standIn) with(s *stand) (*stand, *locked) {
	log := &locked{}
	s.config.Logger = slog.New(slog.NewTextHandler(log, nil))
	s.config.Redirect = "http://127.0.0.1:1" + console.ReturnPath
	s.config.Provider = p.provider("groups")
	return s, log
}

func (p *standIn) provider(claim string) *provider.Provider {
	return provider.New(provider.Config{Issuer: p.url, ClientID: "weir", Secret: func() (string, error) { return "hush", nil }, Redirect: "http://127.0.0.1:1" + console.ReturnPath,
		Scopes: []string{"openid", "email"}, Claim: claim, Read: []string{"staff", "ann@example.com"}, Write: []string{"operators"}, Now: time.Now})
}

// A locked buffer is for a log.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends.
func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// String is all of it.
func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// begin begins a log-in, and returns the way back.
func (p *standIn) begin(s *stand, next string) (back string) {
	s.t.Helper()
	status, body, header := s.get("/console/login/oidc?next=" + url.QueryEscape(next))
	to, err := url.Parse(header.Get("Location"))
	if err != nil || status != http.StatusSeeOther {
		s.t.Fatalf("%d %s", status, body)
	}
	q := to.Query()
	if q.Get("redirect_uri") != s.config.Redirect || q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" || len(q.Get("state")) < 26 || len(q.Get("nonce")) < 26 || q.Get("state") == q.Get("nonce") {
		s.t.Errorf("it asks the provider for %s", to)
	}
	p.challenge = q.Get("code_challenge")
	return console.ReturnPath + "?" + url.Values{"state": {q.Get("state")}, "code": {"the-code-" + q.Get("nonce")}}.Encode()
}

// A person logs in with a provider: once for each beginning, and only in the browser that began.
func TestOIDC(t *testing.T) {
	p := newStandIn(t)
	s, log := p.with(newStand(t, true, ofIP("203.0.113.7")).withRules("x"))
	s.start()
	if _, body, _ := s.get("/console/login?next=%2Fconsole%2Frules"); !strings.Contains(body, `href="http://127.0.0.1:1/console/login/oidc?next=%2Fconsole%2Frules"`) {
		t.Error(body)
	}
	back := p.begin(s, "/console/rules")
	jar := s.client.Jar
	at, _ := url.Parse(s.url + "/console/login/callback")
	begun := jar.Cookies(at)

	s.client.Jar = nil // another browser
	if status, body, header := s.get(back); status != http.StatusUnauthorized || header.Get("Set-Cookie") != "" || !strings.Contains(body, "was not begun in this browser") {
		t.Errorf("in another browser: %d %s", status, body)
	}
	s.client.Jar = jar
	if status, _, header := s.get(strings.Replace(back, "state=", "state=x", 1)); status != http.StatusUnauthorized || header.Get("Set-Cookie") != "" {
		t.Errorf("another state: %d", status)
	}
	status, body, header := s.get(back)
	if cookie := strings.Join(header.Values("Set-Cookie"), "; "); status != http.StatusOK || !strings.Contains(body, `content="0; url=/console/rules"`) || !strings.Contains(cookie, "SameSite=Strict") {
		t.Fatalf("%d %s %s", status, cookie, body)
	}
	if _, body, _ := s.get("/console/"); !strings.Contains(body, "ann@example.com <small>write</small>") {
		t.Error(body)
	}
	form := url.Values{"token": {s.token()}, "action": {"block"}, "target": {"203.0.113.0/24"}, "for": {"1h"}, "why": {"because"}, "step": {"do"}}
	if status, _, _ := s.post("/console/act", form); status != http.StatusSeeOther || len(s.orders) != 1 || !strings.HasSuffix(s.orders[0], " by ann@example.com write") {
		t.Errorf("%d %q", status, s.orders)
	}

	jar.SetCookies(at, begun)
	if status, body, _ := s.get(back); status != http.StatusUnauthorized || !strings.Contains(body, "is complete already") {
		t.Errorf("a second time: %d %s", status, body)
	}
	if text := log.String(); !strings.Contains(text, "name=ann@example.com") || strings.Contains(text, "the-code") || strings.Contains(text, "the-access-token") || strings.Contains(text, "eyJ") || strings.Contains(text, "hush") {
		t.Error(text)
	}
}

// No answer of a provider gives a person more rights than it states.
func TestHostileAnswersOfAProvider(t *testing.T) {
	set := func(name string, value any) func(*standIn) {
		return func(p *standIn) { p.change = func(claims map[string]any) { claims[name] = value } }
	}
	for name, test := range map[string]struct {
		change func(*standIn)
		page   string
		log    string
	}{
		"another nonce":    {set("nonce", "other"), "token is not accepted", "nonce is that of another log-in"},
		"no nonce":         {set("nonce", ""), "token is not accepted", "nonce"},
		"expired":          {set("exp", 1), "has expired. Compare the clocks", "expired"},
		"another audience": {set("aud", "other"), "token is not accepted", "expected audience"},
		"another party":    {set("azp", "other"), "is for another program", "authorized party other"},
		"another issuer":   {set("iss", "https://evil.example"), "token is not accepted", "issued by a different provider"},
		"no signature":     {func(p *standIn) { p.alg = "none" }, "token is not accepted", "unexpected signature algorithm"},
		"a public secret":  {func(p *standIn) { p.alg = "HS256" }, "token is not accepted", "unexpected signature algorithm"},
		"a huge key": {func(p *standIn) {
			p.alg = "RS256"
			p.finds = func(found map[string]any) { found["id_token_signing_alg_values_supported"] = []string{"RS256"} }
		}, "token is not accepted", "its signature is too long"},
		"another key":     {func(p *standIn) { p.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }, "token is not accepted", "failed to verify"},
		"no group":        {set("groups", []string{"guests"}), "ann@example.com may not log in here", "may not log in"},
		"groups in a map": {set("groups", map[string]any{"operators": true}), "may not log in here", "may not log in"},
		"no subject":      {set("sub", ""), "token is not accepted", "no subject"},
		"a hostile name":  {set("email", "a\u202e@example.com\n"), "characters that cannot be shown", "u202e"},
		"a huge answer": {func(p *standIn) {
			p.token = func(w http.ResponseWriter, _ *http.Request) bool {
				_, _ = w.Write(bytes.Repeat([]byte("x"), 3<<20))
				return true
			}
		}, "cannot be asked", ""},
		"a refusal": {func(p *standIn) {
			p.token = func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
				return true
			}
		}, "did not accept the log-in", "400 Bad Request: invalid_grant"},
		"a hang": {func(p *standIn) {
			p.token = func(_ http.ResponseWriter, r *http.Request) bool {
				_ = r.ParseForm() // only then the server notices that the client leaves
				<-r.Context().Done()
				return true
			}
		}, "cannot be asked", "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newStandIn(t)
			test.change(p)
			s, log := p.with(newStand(t, true))
			s.start()
			status, body, header := s.get(p.begin(s, "/console/"))
			if status != http.StatusUnauthorized || strings.Contains(strings.Join(header.Values("Set-Cookie"), ""), "weir_console=") || !strings.Contains(body, test.page) {
				t.Errorf("%d %s", status, body)
			}
			if text := log.String(); !strings.Contains(text, test.log) || strings.Contains(text, "eyJ") || strings.Contains(text, "the-code") || len(text) > 2000 {
				t.Error(text)
			}
		})
	}
}

// A log-in waits while others ask the provider: strangers who ask all the time do not keep people out.
func TestLogInsWaitForTheirTurn(t *testing.T) {
	p := newStandIn(t)
	asked, let := make(chan struct{}), make(chan struct{})
	p.token = func(w http.ResponseWriter, _ *http.Request) bool {
		select {
		case asked <- struct{}{}:
		case <-let: // it asks again in another way
		}
		<-let
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return true
	}
	s, _ := p.with(newStand(t, true))
	s.start()
	back := p.begin(s, "/console/")
	var strangers sync.WaitGroup
	for range 16 {
		strangers.Go(func() { s.get(back) })
		<-asked
	}

	began := make(chan int, 1)
	strangers.Go(func() {
		status, _, _ := s.get("/console/login/oidc")
		began <- status
	})
	s.get("/console/login")
	close(let)
	if status := <-began; status != http.StatusSeeOther {
		t.Errorf("a log-in among those of strangers: %d", status)
	}
	strangers.Wait()
}

// A provider that is away, or that names another issuer or an address without encryption, begins no log-in.
func TestHostileDiscovery(t *testing.T) {
	for name, test := range map[string]struct {
		find func(map[string]any)
		log  string
	}{
		"another issuer": {func(found map[string]any) { found["issuer"] = "https://evil.example" }, "did not match"},
		"no address":     {func(found map[string]any) { found["authorization_endpoint"] = "javascript:alert(1)" }, "not encrypted"},
		"huge":           {func(found map[string]any) { found["x"] = strings.Repeat("x", 2<<20) }, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newStandIn(t)
			p.finds = test.find
			s, log := p.with(newStand(t, true))
			s.start()
			status, body, header := s.get("/console/login/oidc")
			if status != http.StatusUnauthorized || header.Get("Location") != "" || !strings.Contains(body, "cannot be asked. The enforcer&#39;s log has the reason.") || !strings.Contains(log.String(), test.log) {
				t.Errorf("%d %s %s", status, body, log.String())
			}
		})
	}
}

// An address that the provider has not checked gives no rights, and is no name.
func TestEmailsHaveToBeVerified(t *testing.T) {
	for verified, want := range map[any]string{true: "ann@example.com <small>read", "true": "ann@example.com <small>read", false: "oidc:ann may not log in here", nil: "oidc:ann may not log in here"} {
		p := newStandIn(t)
		p.change = func(claims map[string]any) { claims["email_verified"] = verified }
		s, _ := p.with(newStand(t, true))
		s.config.Provider = p.provider("email")
		s.start()
		_, body, _ := s.get(p.begin(s, "/console/"))
		if verified == true || verified == "true" {
			_, body, _ = s.get("/console/")
		}
		if !strings.Contains(body, want) {
			t.Errorf("%v: %s", verified, body)
		}
	}
}

// Where a proxy in front of the console ends TLS, browsers keep the session's cookie for TLS, too.
func TestTheCookieBehindAProxyWithTLS(t *testing.T) {
	p := newStandIn(t)
	s, _ := p.with(newStand(t, true))
	s.config.Redirect = "https://127.0.0.1:1" + console.ReturnPath
	s.start()
	for scheme, want := range map[string]bool{"http": false, "https": true} {
		_, _, header := s.post("/console/login", url.Values{"key": {"ann's"}}, "Origin", strings.Replace(s.url, "http", scheme, 1))
		if cookie := header.Get("Set-Cookie"); !strings.Contains(cookie, "weir_console=") || strings.Contains(cookie, "; Secure") != want {
			t.Errorf("%s: %s", scheme, cookie)
		}
	}

	_, _, header := s.get("/console/login/oidc")
	to, err := url.Parse(header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	p.challenge = to.Query().Get("code_challenge")
	back := console.ReturnPath + "?" + url.Values{"state": {to.Query().Get("state")}, "code": {"the-code-" + to.Query().Get("nonce")}}.Encode()
	begun, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	s.client.Jar = nil
	status, body, header := s.do(http.MethodGet, back, nil, []string{"Cookie", begun})
	cookies := header.Values("Set-Cookie")
	if status != http.StatusOK || len(cookies) != 2 || !strings.HasPrefix(cookies[1], "weir_console=") || !strings.Contains(cookies[1], "; Secure") {
		t.Errorf("%d %s %s", status, cookies, body)
	}
}

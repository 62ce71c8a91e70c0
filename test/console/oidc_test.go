package console

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	pages "weir/pkg/enforcer/console"
	"weir/pkg/enforcer/console/provider"
	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// startProvider starts a real provider, and returns its issuer. Its host is another site than the console's.
func startProvider(t *testing.T, address, redirect string) (issuer string) {
	t.Helper()
	node := real.Program(t, "node", "nodejs")
	home, _ := os.UserCacheDir()
	library := filepath.Join(home, "weir", "edges", "node_modules", "oidc-provider", "lib", "index.js")
	if _, err := os.Stat(library); err != nil {
		real.Missing(t, "oidc-provider: npm install --prefix ~/.cache/weir/edges oidc-provider@9.13.3")
	}
	_, number, _ := net.SplitHostPort(address)
	command := exec.Command(node, "testdata/provider.mjs", library, number, redirect)
	command.Stdout, command.Stderr = t.Output(), t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	wait.Until(t, "the provider listens", func() bool {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			connection.Close()
		}
		return err == nil
	})
	return "http://localhost:" + number
}

// People log in with a provider on another site: one may act, one may read, and both get the page that they asked for.
// Their orders have their names.
func TestLogInWithAProvider(t *testing.T) {
	address := port.Reserve(t, "127.0.0.1")
	s := newStandWith(t, func(own string, c *pages.Config) {
		c.Redirect = "http://" + own + pages.ReturnPath
		c.Provider = provider.New(provider.Config{
			Issuer: startProvider(t, address, c.Redirect), ClientID: "weir", Secret: func() (string, error) { return "the client's secret", nil }, Redirect: c.Redirect,
			Scopes: []string{"openid", "email", "groups"}, Claim: "groups", Read: []string{"guests"}, Write: []string{"operators"}, Now: time.Now,
		})
	}, sample()...)

	s.provided("ann", "key?key=203.0.113.99", `location.pathname + location.search === "/console/key?key=203.0.113.99" && document.querySelector("h1.mono") !== null`)
	if who := value[string](s, `document.querySelector(".who").innerText`); !strings.Contains(who, "ann@example.com write") {
		t.Error(who)
	}
	const form = `//form[.//input[@value="unblock"]]`
	s.do("an action", keysInto(form+`//input[@name="why"]`, "a customer\r"), shows(`form.row button`), click(`form.row button`), shows(`.banner.good[role=status]`))
	s.do("its page", s.open("key?key=203.0.113.99"), shows("h1.mono"))
	if text := value[string](s, `document.querySelector("main").innerText`); !strings.Contains(text, "ann@example.com") {
		t.Error(text)
	}

	other := newBrowser(s)
	other.provided("bob", "", `document.querySelector("#list") !== null`)
	if who := value[string](other, `document.querySelector(".who").innerText`); !strings.Contains(who, "bob@example.com read") {
		t.Error(who)
	}
	other.do("a key", other.open("key?key=203.0.113.66"), shows("h1.mono"))
	if forms := value[int](other, `document.querySelectorAll("form[action='/console/act']").length`); forms != 0 {
		t.Errorf("bob sees %d actions", forms)
	}
	other.do("logging out", click(".who button"), shows("input[name=key]"))
	if found := other.axe(); found != "" {
		t.Error(found)
	}
}

// newBrowser is another browser at the same console.
func newBrowser(s *stand) *stand {
	other := &stand{t: s.t, enforcer: s.enforcer, url: s.url}
	other.browse(real.Program(s.t, "chromium", "chromium"))
	return other
}

// provided opens a page without a session, and logs in with the provider.
func (s *stand) provided(name, page, arrived string) {
	s.t.Helper()
	s.do("the log-in", s.open(page), click(`main a.button`), shows("input[name=login]"))
	s.do("at the provider", chromedp.SendKeys(css("input[name=login]"), name), chromedp.SendKeys(css("input[name=password]"), "any\r"))
	s.until("it asks for consent", `location.hostname === "localhost" && document.body.innerText.includes("Authorize")`)
	s.do("consent", click("button[type=submit]"))
	s.until(fmt.Sprintf("%s is back", name), arrived+` && document.readyState === "complete"`)
}

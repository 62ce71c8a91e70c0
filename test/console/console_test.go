package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"weir/test/running"
	"weir/test/wait"
)

// A person logs in, sees a block arrive, finds out about it and lets the key in: then nginx lets it through. Somebody who
// may only read sees no actions.
func TestAPersonLetsAKeyIn(t *testing.T) {
	s := newStand(t, sample()...)
	get := s.nginx()
	s.login("ann's")

	s.until("the list is live", `document.querySelector("[data-status]").textContent === "live"`)
	s.enforcer.Put(running.BlockedNow("per-ip", "203.0.113.200", map[string]string{"ip": "203.0.113.200"}))
	s.until("a block arrives", fmt.Sprintf(rowOf, "203.0.113.200"))
	wait.Until(t, "nginx refuses it", func() bool { return get("203.0.113.200") == http.StatusForbidden })

	s.until("the page counts the refusals", `document.querySelector("[data-figure=refused]").textContent !== "0"`)

	s.until("its row too", `[...document.querySelectorAll("#list tbody tr")].some((tr) => tr.textContent.includes("203.0.113.200") && Number(tr.querySelector("[data-f=refused]").textContent) > 0)`)

	s.do("its page", clickPath(`//td/a[text()="203.0.113.200"]`), shows("h1.mono"))
	s.screenshot("key")
	const form = `//form[.//input[@value="unblock"]]`
	s.do("the form", keysInto(form+`//input[@name="why"]`, "a customer"), clickPath(form+`//button`), shows(`form.row button`))
	s.until("the preview", `document.body.textContent.includes("1 entry ends at once, and its count begins at zero. 11 requests had counted.")`)
	s.screenshot("preview")
	if get("203.0.113.200") != http.StatusForbidden {
		t.Error("the preview has let it in")
	}
	s.do("the action", click(`form.row button`), shows(`.banner.good[role=status]`))
	if text := value[string](s, `document.querySelector(".banner.good").textContent`); !strings.HasPrefix(text, "203.0.113.200 is let in: 1 entry ended. It is allowed for 1h.") {
		t.Error(text)
	}
	wait.Until(t, "nginx lets it through", func() bool { return get("203.0.113.200") == http.StatusOK })
	for _, o := range s.enforcer.Set.Pending() {
		if o.By != "ann" || o.Why != "a customer" {
			t.Errorf("%+v", o)
		}
	}

	// The other way round: a block by hand, with the keyboard alone.
	const block = `//form[.//input[@value="block"]]`
	s.do("a block", s.open("key?key=203.0.113.201"), keysInto(block+`//input[@name="why"]`, "a scraper\r"), shows(`form.row button:focus`),
		chromedp.KeyEvent("\r"), shows(`.banner.good[role=status]`))
	wait.Until(t, "nginx refuses it", func() bool { return get("203.0.113.201") == http.StatusForbidden })

	// The console asks once more before a block of a wide network.
	s.do("a wide block", s.open("key?key=127.0.0.0/8"), keysInto(block+`//input[@name="why"]`, "a slip\r"), shows(`form.row button:focus`),
		chromedp.KeyEvent("\r"))
	s.until("it asks again", `document.querySelector("input[name=confirm]") !== null`)
	if text := value[string](s, `document.querySelector("main").textContent`); !strings.Contains(text, "Your own address, 127.0.0.1.") {
		t.Error(text)
	}

	s.do("logging out", click(".who button"), shows("input[name=key]"))
	s.login("rob's")
	for _, page := range []string{"", "key?key=203.0.113.66", "rules", "parts", "audit"} {
		s.do(page, s.open(page), shows("main"))
		if forms := value[int](s, `document.querySelectorAll("form[action='/console/act']").length`); forms != 0 {
			t.Errorf("%s: rob sees %d actions", page, forms)
		}
	}
}

// Filters are in the address: they survive a reload and the back button, also while the list is live.
func TestFiltersStay(t *testing.T) {
	s := newStand(t, sample()...)
	s.login("rob's")
	s.do("a search", chromedp.SendKeys(css("input[name=q]"), "203.0.113.0/24\r"))
	s.until("it is found", `location.search === "?q=203.0.113.0%2F24" && document.querySelectorAll("#list tbody tr").length === 2 && document.readyState === "complete"`)
	s.do("a rule", chromedp.SendKeys(css("select[name=rule]"), "per-ip"))
	s.until("the rule", `location.search.includes("rule=per-ip") && location.search.includes("q=203")`)
	s.do("a reload", chromedp.Reload())
	s.until("the same", `document.querySelector("[name=q]").value === "203.0.113.0/24" && document.querySelector("[name=rule]").value === "per-ip" && document.querySelectorAll("#list tbody tr").length === 2`)

	s.until("it is live", `document.querySelector("[data-status]").textContent === "live"`)
	s.enforcer.Put(running.BlockedNow("per-ip", "198.51.100.250", map[string]string{"ip": "198.51.100.250"}), running.BlockedNow("per-ip", "203.0.113.250", map[string]string{"ip": "203.0.113.250"}))
	s.until("what is selected arrives", fmt.Sprintf(rowOf, "203.0.113.250"))
	if value[bool](s, fmt.Sprintf(rowOf, "198.51.100.250")) {
		t.Error("what is not selected has arrived too")
	}

	s.do("back", chromedp.NavigateBack())
	s.until("without the rule", `location.search === "?q=203.0.113.0%2F24" && document.querySelector("[name=rule]").value === ""`)
	s.do("back", chromedp.NavigateBack())
	s.until("without a filter", `location.search === "" && document.querySelectorAll("#list tbody tr").length > 5`)

	// Under the mouse and after Pause the list stands still, and counts what waits.
	s.do("pause", click("[data-pause]"))
	s.enforcer.Put(running.BlockedNow("per-ip", "203.0.113.251", map[string]string{"ip": "203.0.113.251"}))
	s.until("it waits", `document.querySelector("[data-status]").textContent.includes("1 new")`)
	if value[bool](s, fmt.Sprintf(rowOf, "203.0.113.251")) {
		t.Error("a list that is paused has changed")
	}
	s.do("resume", click("[data-pause]"))
	s.until("it is shown", fmt.Sprintf(rowOf, "203.0.113.251"))
}

// Every page is legible in both schemes, at any width, and for screen readers.
func TestEveryPageIsLegible(t *testing.T) {
	s := newStand(t, sample()...)
	s.login("ann's")
	for name, page := range map[string]string{"now": "", "groups": "?group=network", "refused": "?group=refused", "key": "key?key=203.0.113.66", "rules": "rules", "whatif": "whatif?rule=per-ip&limits=20/min&since=6h", "parts": "parts", "audit": "audit", "login": "login", "none": "nothing"} {
		for _, scheme := range []string{"light", "dark"} {
			s.scheme(scheme)
			for _, width := range []int64{1280, 360} {
				s.size(width, 800)
				s.do(page, s.open(page), shows("main"))
				if over := value[int](s, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
					t.Errorf("%s at %d pixels: %d pixels too wide", name, width, over)
				}
				if found := s.axe(); found != "" {
					t.Errorf("%s, %s, %d pixels: %s", name, scheme, width, found)
				}
				s.screenshot(fmt.Sprintf("%s-%s-%d", name, scheme, width))
			}
		}
	}
}

// Hostile keys are text, also where a script writes them.
func TestHostileKeysInTheBrowser(t *testing.T) {
	hostile := []string{`<script>window.ran=1</script>`, `<img src=x onerror="window.ran=1">`, `"><svg onload=window.ran=1>`, "a\u202egnp.exe", strings.Repeat("x", 900), `javascript:window.ran=1`}
	s := newStand(t)
	s.login("ann's")
	s.until("the list is live", `document.querySelector("[data-status]").textContent === "live"`)
	for i, key := range hostile {
		e := running.BlockedNow("per-ip", key, map[string]string{"agent": key})
		e.Limit = fmt.Sprintf("%d/min", i+1)
		s.enforcer.Put(e)
		s.until("it arrives", fmt.Sprintf(rowOf, "broke "+e.Limit))
	}
	if rows := value[int](s, `document.querySelectorAll("#list tbody tr").length`); rows != len(hostile) {
		t.Errorf("%d rows", rows)
	}
	if links := value[[]string](s, `[...document.querySelectorAll("#list tbody a")].map((a) => a.protocol + a.pathname)`); strings.Contains(strings.Join(links, " "), "javascript") {
		t.Error(links)
	}
	s.do("the page of one", clickPath(`//td/a[starts-with(text(), "<script>")]`), shows("h1.mono"))
	if value[bool](s, `"ran" in window || document.querySelector("main script, main img, main svg") !== null`) {
		t.Error("a key is markup")
	}
	if key := value[string](s, `document.querySelector("h1").textContent`); key != hostile[0] {
		t.Error(key)
	}
}

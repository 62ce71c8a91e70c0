package daemon

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A collector whose folder is gone logs an error and is not ready until the folder is back.
func TestACollectorWhoseFolderIsDeleted(t *testing.T) {
	p := newPlace(t, "")
	p.start()
	is := func(code int, text string) func() bool {
		return func() bool {
			got, says := p.get("/readyz")
			return got == code && strings.Contains(says, text)
		}
	}
	p.await("ready", is(http.StatusOK, "ready"))
	folder := filepath.Join(p.process.Config.Data, "collector")
	for _, gone := range []string{folder, p.process.Config.Data} {
		if err := os.Rename(gone, gone+".away"); err != nil {
			t.Fatal(err)
		}
		p.await("not ready", is(http.StatusServiceUnavailable, "was deleted or replaced"))
		if _, says := p.get("/status"); !strings.Contains(says, `"caught_up": false`) || !strings.Contains(says, "was deleted or replaced") {
			t.Errorf("the status: %s", says)
		}
		if err := os.MkdirAll(gone, 0o700); err != nil {
			t.Fatal(err)
		}
		if !is(http.StatusServiceUnavailable, folder)() {
			t.Error("ready with another folder")
		}
		if err := os.Remove(gone); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(gone+".away", gone); err != nil {
			t.Fatal(err)
		}
		p.await("ready again", is(http.StatusOK, "ready"))
		if _, says := p.get("/status"); strings.Contains(says, "was deleted or replaced") {
			t.Errorf("when it is back, the status: %s", says)
		}
	}
}

// An enforcer whose folder is gone is not ready until it has written its files again. It goes on taking manual entries.
func TestAnEnforcerWhoseFolderIsDeleted(t *testing.T) {
	t.Parallel()
	broker := newMortal(t)
	e := newEdge(t, broker.yaml(), "").start()
	e.await("ready", e.ready)
	e.order("POST", "/v1/blocks", `{"target":"198.51.100.1","why":"w"}`)
	seen := make(chan string, 100)
	e.process.Health.OnChange(func(unready string) { seen <- unready })
	if err := os.Rename(e.process.Config.Data, e.process.Config.Data+".away"); err != nil {
		t.Fatal(err)
	}
	// On a busy machine it may be unready for another reason for a moment, such as a list that waits for Kafka.
	for why := <-seen; !strings.Contains(why, "was deleted or replaced"); why = <-seen {
		t.Logf("it is not ready because %q", why)
	}
	broker.stop()
	e.order("POST", "/v1/blocks", `{"target":"198.51.100.2","why":"w"}`)
	e.await("ready again", e.ready)
	again, code := killed(t, e, ""), 0
	again.await("its first answer", func() bool { code = again.check("198.51.100.2"); return code != 0 })
	if code != http.StatusTooManyRequests {
		t.Errorf("after a start on the new folder: %d", code)
	}
}

// A file that is lost between its opening and the first look is noticed at that look.
func TestAFileThatIsLostBeforeTheFirstLook(t *testing.T) {
	t.Parallel()
	for _, renewed := range []bool{false, true} {
		var p Process
		folder := filepath.Join(t.TempDir(), "collector")
		opens := func() {
			for _, err := range []error{os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "lock"), nil, 0o600)} {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		opens()
		deleted, replaced := p.keeps(renewed, "r", folder, "lock"), p.keeps(renewed, "r", folder, "lock")
		if err := os.Rename(folder, folder+".away"); err != nil {
			t.Fatal(err)
		}
		early := p.keeps(renewed, "r", folder, "lock") // deleted while the part was still opening
		if err := deleted.look(); err == nil || !strings.Contains(err.Error(), "was deleted or replaced") {
			t.Errorf("deleted, renewed %v: %v", renewed, err)
		}
		// A part that renews its folder may make it later, so a missing one is no loss.
		if err := early.look(); (err == nil) != renewed {
			t.Errorf("deleted early, renewed %v: %v", renewed, err)
		}
		opens()
		if replaced.look() == nil {
			t.Errorf("replaced, renewed %v: not noticed", renewed)
		}
		if again := replaced.look(); (again == nil) != renewed {
			t.Errorf("at the second look, renewed %v: %v", renewed, again)
		}
	}
}

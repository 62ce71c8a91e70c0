package daemon

import (
	"fmt"
	"testing"

	"weir/cmd/internal/config"
)

// A file of rules that is written slowly is read when it is complete: half of it is a valid file without the mode.
func TestRulesThatAreHalfWrittenAreNotRead(t *testing.T) {
	p := &place{t: t, folder: t.TempDir()}
	p.write("weir.yaml", "collector: {sources: [{file: access.log}]}\n")
	p.write("rules.yaml", oneRule)
	c, _, err := config.Load(p.options())
	if err != nil {
		t.Fatal(err)
	}

	r := &reloader{current: c, files: look(c)}
	const half = "rules:\n  - name: half\n    key: ip\n    limits: [5/min]\n"
	for _, step := range []struct {
		rules string // "" leaves the file as it is
		read  bool
	}{
		{"", false}, {"", false},
		{half, false}, {half + "    mode: shadow\n", false}, {"", true},
	} {
		if step.rules != "" {
			p.write("rules.yaml", step.rules)
		}
		if read := r.changed(look(c)); read != step.read {
			t.Errorf("after %q: read %v", step.rules, read)
		}
	}

	// After a look that found them settled they are current, and a file that never settles is read all the same.
	r.files, r.changes = look(c), 0
	reads := 0
	for n := range 3 * unsettledLooks {
		p.write("rules.yaml", fmt.Sprintf("%s# version %d\n", half, n))
		if r.changed(look(c)) {
			r.files, r.changes = look(c), 0
			reads++
		}
	}
	if reads != 2 {
		t.Errorf("a file that changes at each of %d looks is read %d times", 3*unsettledLooks, reads)
	}
}

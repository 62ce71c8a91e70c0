package backtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"weir/internal/regular"
	"weir/internal/yamlfile"
	"weir/pkg/geoip"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// RunTests reads a file of tests (docs/testing-rules.md) and runs them. An error means that the file, or one that it
// names, could not be read. It is yamlfile.Faults if the places of the mistakes are known.
func RunTests(ctx context.Context, path string) (*TestReport, error) {
	data, err := regular.ReadFile(path)
	if err != nil {
		return nil, err
	}

	file := testFile{path: path}
	if faults := yamlfile.Decode(path, data, &file); len(faults) > 0 {
		return nil, faults
	}
	if file.Rules.GeoIP, err = file.GeoIP.open(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if file.set, _, err = file.Rules.Load(filepath.Dir(path)); err != nil {
		return nil, err
	}

	// A rule's name that is misspelled would make "never blocked" true for ever.
	if faults := file.checkRules(); len(faults) > 0 {
		return nil, faults
	}

	report := &TestReport{File: path, Cases: []CaseReport{}}
	for _, r := range file.set.Rules {
		if isLeftOut(r) {
			report.Inline = append(report.Inline, r.Name)
		}
	}
	for i := range file.Tests {
		c, err := file.run(ctx, &file.Tests[i])
		if err != nil {
			return nil, err
		}
		report.Cases = append(report.Cases, c)
	}

	return report, nil
}

// open opens the databases; relative paths are relative to folder.
func (g geoipSpec) open(folder string) (*geoip.Databases, error) {
	paths := slices.Clone(g.Databases)
	for i, path := range paths {
		if !filepath.IsAbs(path) {
			paths[i] = filepath.Join(folder, path)
		}
	}
	var opened geoip.Opened
	all, errs := opened.Open(paths)
	return geoip.Join(all...), errors.Join(errs...)
}

// checkRules finds names of rules that do not exist, and keys that their rules cannot have.
func (f *testFile) checkRules() (faults yamlfile.Faults) {
	for i := range f.Tests {
		t := &f.Tests[i]
		for _, who := range slices.Concat(t.whoBlocked(), t.Never.whom) {
			if err := f.checkWho(who); err != "" {
				fault := who.place
				fault.What = err
				faults = append(faults, fault)
			}
		}
	}
	return faults
}

func (f *testFile) checkWho(w who) (fault string) {
	rules := f.rulesOf(w)
	if len(rules) == 0 {
		return fmt.Sprintf("there is no rule %s", w.Rule)
	}
	if rules = slices.DeleteFunc(rules, isLeftOut); len(rules) == 0 {
		return leftOut(cmp.Or(w.Rule, f.set.Rules[0].Name))
	}
	var err error
	for _, r := range rules {
		if _, err = r.Key.Canonical(w.Key); err == nil {
			return ""
		}
	}
	return err.Error()
}

// isLeftOut reports whether a rule is decided inline, and not by the log.
func isLeftOut(r *rule.Rule) bool { return r.Inline && !r.AlsoLog }

// rulesOf are the rules that w names.
func (f *testFile) rulesOf(w who) []*rule.Rule {
	if w.Rule == "" {
		return slices.Clone(f.set.Rules)
	}
	r, _ := f.set.Rule(w.Rule)
	if r == nil {
		return nil
	}
	return []*rule.Rule{r}
}

// run runs one test.
func (f *testFile) run(ctx context.Context, t *testSpec) (CaseReport, error) {
	c := CaseReport{Name: t.Name, Line: t.place.Line, Failures: []TestFailure{}}
	var report *Report
	var err error
	start := f.startOf(t)
	if t.Log != "" {
		report, err = f.readLog(ctx, t)
	} else {
		report, err = judgeRequests(Config{Rules: f.set}, t.expand(start))
	}

	if err != nil {
		return c, fmt.Errorf("%s: the test %q: %w", f.path, t.Name, err)
	}
	v := testRun{file: f, test: t, start: start, report: report}
	c.Failures = append(c.Failures, v.failures()...)
	return c, nil
}

// readLog runs the rules over the log of a test. A log that is not completely read proves nothing.
func (f *testFile) readLog(ctx context.Context, t *testSpec) (*Report, error) {
	path := t.Log
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(f.path), path)
	}

	report, err := Run(ctx, Config{Rules: f.set, Inputs: []Input{{Path: path}}, Format: t.Format})
	switch {
	case err != nil:
		return nil, err
	case len(report.Faults) > 0:
		return nil, fmt.Errorf("%s", report.Faults[0])
	case len(report.Samples) > 0:
		s := report.Samples[0]
		return nil, fmt.Errorf("%s:%d cannot be read (%s): %s", s.Input, s.Line, s.Reason, s.Text)
	}

	return report, nil
}

func (f *testFile) startOf(t *testSpec) time.Time {
	for _, start := range []instantSpec{t.Start, f.Start} {
		if !time.Time(start).IsZero() {
			return time.Time(start)
		}
	}
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
}

// judgeRequests runs rules over requests instead of logs.
func judgeRequests(c Config, requests []request.Request) (*Report, error) {
	c.setDefaults()
	p, err := newPass(&c)
	if err != nil {
		return nil, err
	}

	// The requests are one log with one chunk, without a feed and without a merge: they are sorted already.
	p.logs = []*log{{Input: Input{Path: "requests"}}}
	p.total = newTotal(1, seriesBars)
	w, all := p.newWorker(), &chunk{log: p.logs[0]}
	w.chunk = all
	for i := range requests {
		w.record(&requests[i], nil)
	}

	if err := p.chunk(all); err != nil {
		return nil, err
	}
	key := uint32(0)
	for i := range all.hits {
		h := &all.hits[i]
		if err := p.hit(all, h, all.keys[key:h.keyEnd]); err != nil {
			return nil, err
		}
		key = h.keyEnd
	}

	p.counters[0].countRest()
	return p.report(), nil
}

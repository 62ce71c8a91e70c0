package rule

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/duration"
	"weir/internal/nearest"
	"weir/internal/yamlfile"
	"weir/pkg/window"
)

// The contents of a rules file, as written.

type fileSpec struct {
	Rules []ruleSpec  `yaml:"rules"`
	Allow []allowSpec `yaml:"allow"`
	Paths pathsSpec   `yaml:"paths"`
	Users usersWord   `yaml:"users"`
}

type ruleSpec struct {
	Name        string        `yaml:"name"`
	Description string        `yaml:"description"`
	Match       matchSpec     `yaml:"match"`
	Key         Key           `yaml:"key"`
	Limits      limitsSpec    `yaml:"limits"`
	Algorithm   algorithmSpec `yaml:"algorithm"`
	Cost        costSpec      `yaml:"cost"`
	Count       Count         `yaml:"count"`
	Block       blockSpec     `yaml:"block"`
	Mode        Mode          `yaml:"mode"`
	Remember    rememberSpec  `yaml:"remember"`

	place yamlfile.Fault
}

type blockSpec struct {
	For    duration.OrForever `yaml:"for"`
	Then   thenSpec           `yaml:"then"`
	Forget duration.Duration  `yaml:"forget"`
	Extend bool               `yaml:"extend"`
	Covers Covers             `yaml:"covers"`
	Until  untilWord          `yaml:"until"`
}

func newRuleSpec() ruleSpec {
	return ruleSpec{Block: blockSpec{For: duration.OrForever(DefaultFor), Forget: duration.Duration(DefaultForget)}}
}

// FromYAML reads one rule.
func (r *ruleSpec) FromYAML(v yamlfile.Value) {
	// plain has no methods, or Decode would call FromYAML again.
	type plain ruleSpec
	*r = newRuleSpec()
	v.Decode((*plain)(r))
	if _, isMap := v.Map(); !isMap {
		return
	}

	r.place = v.Key("name").Place()
	r.checkName(v)
	for _, needed := range []struct{ key, remedy string }{{"key", "write what to count by, such as key: ip"}, {"limits", "write how many are allowed, such as limits: [10/min]"}} {
		if !v.Given(needed.key) {
			v.Faultf(needed.remedy, "%s has no %s", r.called(), needed.key)
		}
	}

	// Checks of keys together need keys that could be read: one mistake is reported once.
	if !v.Key("limits").Faulty() && !v.Key("algorithm").Faulty() {
		r.checkLimits(v)
	}
	if !v.Key("block").Faulty() {
		r.checkBlock(v)
	}
}

var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (r *ruleSpec) called() string {
	if r.Name == "" {
		return "the rule"
	}
	return "the rule " + r.Name
}

func (r *ruleSpec) checkName(v yamlfile.Value) {
	const maxBytes = 64
	place := v.Key("name")
	switch {
	case !v.Given("name"):
		v.Faultf("write name: and a word, such as per-ip", "the rule has no name")
	case place.Faulty():
	case !goodName.MatchString(r.Name) || len(r.Name) > maxBytes:
		place.Faultf("use letters, digits and . _ - only, at most 64, beginning with a letter or digit", "%q is no name for a rule", r.Name)
	case r.Name == "manual":
		place.Faultf("choose another", "the name manual is reserved for manual entries")
	}
}

// checkLimits finds limits that the algorithm cannot count, and those without effect.
func (r *ruleSpec) checkLimits(v yamlfile.Value) {
	if len(r.Limits) == 0 {
		return
	}
	rule := r.rule()

	// The block has checks of its own, with places of its own.
	rule.Block = Block{For: DefaultFor}
	if _, err := rule.Policy(0, 0); err != nil {
		v.Key("limits").Faultf("", "%s", strings.ReplaceAll(err.Error(), "\n", ", "))
	}

	places, _ := v.Key("limits").List()
	for i := range r.Limits {
		if why := unreachable(rule.Algorithm, r.Limits, i); why != "" {
			places[i].Warnf("leave it out", "%s", why)
		}
	}

	r.checkRemember(v, places)
}

const notExact = "%s is above the %d hits of a key that are remembered: it is broken up to 1/64 of its window late"

// checkRemember finds limits that are not counted exactly, and names the value of remember that they need.
func (r *ruleSpec) checkRemember(v yamlfile.Value, places []yamlfile.Value) {
	if r.Algorithm.Name != window.Sliding {
		if v.Has("remember") {
			v.Key("remember").Faultf("leave it out", "only sliding remembers hits, %s does not", r.Algorithm.Name)
		}
		return
	}

	for i, limit := range r.Limits {
		switch {
		case limit.Hits <= r.remembered():
		case r.Remember.Exact && limit.Hits > window.MostRemember:
			v.Key("remember").Faultf("leave it out", "%s is not exact: at most %d hits of a key can be remembered", limit, window.MostRemember)
		case limit.Hits <= window.MostRemember:
			places[i].Warnf(fmt.Sprintf("for an exact one write remember: exact (a key takes up to %d KB then), or algorithm: token", limit.Hits*window.BytesOfHit(limit.Hits)/1000+1),
				notExact, limit, r.remembered())
		default:
			places[i].Warnf(fmt.Sprintf("more than %d cannot be: write algorithm: token", window.MostRemember), notExact, limit, r.remembered())
		}
	}
}

// remembered is how many hits of a key are remembered.
func (r *ruleSpec) remembered() int64 {
	remembered := int64(window.DefaultRemember)
	if r.Remember.Hits > 0 {
		remembered = r.Remember.Hits
	}
	for _, limit := range r.Limits {
		if r.Remember.Exact && limit.Hits <= window.MostRemember {
			remembered = max(remembered, limit.Hits)
		}
	}
	return remembered
}

func (r *ruleSpec) checkBlock(v yamlfile.Value) {
	block := v.Key("block")
	// It comes first, because it may set the duration that the checks below compare.
	if r.Block.Until {
		r.checkUntil(v, block)
	}

	first := time.Duration(r.Block.For)
	r.checkShort(v)
	if first == 0 {
		block.Key("for").Faultf("write how long, such as 10m, or mode: shadow for none at all", "a block of 0s blocks nothing")
	}

	for i, then := range r.Block.Then {
		places, _ := block.Key("then").List()
		switch {
		case then == 0:
			places[i].Faultf("write how long, such as 1h", "a block of 0s blocks nothing")
		case time.Duration(then) < first:
			places[i].Warnf("", "offence %d is blocked for %v, shorter than the one before it", i+2, then)
		}

		// Each is compared with the one before.
		first = time.Duration(then)
	}

	if len(r.Block.Then) > 0 && r.Block.Forget == 0 {
		block.Key("forget").Warnf("write how long, such as 24h", "forget: 0s makes every offence the first, so then never applies")
	}
	if r.Block.Covers == CoversMatch && !v.Key("match").Faulty() {
		r.checkCovers(v, block.Key("covers"))
	}
}

// checkUntil finds settings that exclude until: clear. With it a block has no minimum duration, unless one is given.
func (r *ruleSpec) checkUntil(v, block yamlfile.Value) {
	switch {
	case r.Algorithm.Name != window.Sliding && !v.Key("algorithm").Faulty():
		block.Key("until").Faultf("leave until out, or write algorithm: sliding", "until: clear needs the times of hits, which %s does not remember", r.Algorithm.Name)
	case r.Block.Extend:
		block.Key("extend").Faultf("leave one of them out", "until: clear and extend: true do not go together")
	case !block.Has("for"):
		r.Block.For = duration.OrForever(time.Millisecond)
	}
}

// muchShorter is the ratio of window to block above which checkShort warns.
const muchShorter = 24

// checkShort finds windows that are much longer than the blocks: a client that comes back starts at zero.
func (r *ruleSpec) checkShort(v yamlfile.Value) {
	lasts := time.Duration(r.Block.For)
	if len(r.Block.Then) > 0 {
		lasts = max(lasts, time.Duration(r.Block.Then[0]))
	}

	// Here nothing begins at zero after a block, or the block itself is wrong, which is reported elsewhere.
	if bool(r.Block.Until) || r.Block.Extend || lasts == 0 || v.Key("limits").Faulty() {
		return
	}

	places, _ := v.Key("limits").List()
	for i, limit := range r.Limits {
		if limit.Per/muchShorter > lasts {
			places[i].Warnf("write block: {until: clear}, or a longer block",
				"the block of %v is much shorter than the window of %s, and after a block counting begins at zero, so a client gets more than that",
				duration.OrForever(lasts), limit)
		}
	}
}

func (r *ruleSpec) checkCovers(v, place yamlfile.Value) {
	if !v.Has("match") {
		place.Warnf("leave covers out, or write a match", "covers: match covers all, because the rule has no match")
		return
	}
	if _, everything := beforehand(r.Match.compiled); everything {
		place.Warnf("", "covers: match covers all, because match has no condition that is known before the response")
	}
}

// rule is the rule of a spec without mistakes.
func (r *ruleSpec) rule() *Rule {
	rule := &Rule{
		Name: r.Name, Description: r.Description, Match: r.Match.written, Key: r.Key, Limits: r.Limits,
		Algorithm: r.Algorithm.Name, Subwindows: r.Algorithm.Subwindows, Burst: r.Algorithm.Burst,
		Cost: "1", Count: r.Count, Mode: r.Mode,
		Block: Block{For: time.Duration(r.Block.For), Forget: time.Duration(r.Block.Forget), Extend: r.Block.Extend, Clear: bool(r.Block.Until), Covers: r.Block.Covers},
		match: r.Match.compiled, place: r.place,
	}

	for _, then := range r.Block.Then {
		rule.Block.Then = append(rule.Block.Then, time.Duration(then))
	}

	// A cost that is written as 1 is no cost: without an expression, hits are single requests (window.Config.Ones).
	if r.Cost.compiled != nil && r.Cost.written != rule.Cost {
		rule.Cost, rule.cost = r.Cost.written, r.Cost.compiled
	}

	// The default stays 0, so that it stays out of the fingerprint.
	if remembered := r.remembered(); remembered != window.DefaultRemember {
		rule.Remember = int(remembered)
	}
	if rule.Block.Covers == CoversMatch && rule.match != nil {
		rule.cover, _ = beforehand(rule.match)
	}

	return rule
}

type limitsSpec []Limit

// FromYAML reads a list of limits.
func (l *limitsSpec) FromYAML(v yamlfile.Value) {
	if text, ok := v.Scalar(); ok {
		if _, err := ParseLimit(text); err == nil {
			v.Faultf("write ["+text+"]", "limits is a list")
			return
		}
	}
	var limits []Limit
	if v.Decode(&limits); len(limits) == 0 && !v.Faulty() {
		v.Faultf("write how many are allowed, such as [10/min]", "limits is empty")
	}
	*l = limits
}

// An untilWord is true if a block lasts until the window is clear.
type untilWord bool

// FromYAML reads clear.
func (u *untilWord) FromYAML(v yamlfile.Value) {
	*u = word(v, "end of a block", []string{"clear"}) == 0
}

// A rememberSpec is how many hits of a key are remembered.
type rememberSpec struct {
	Exact bool
	Hits  int64
}

// FromYAML reads exact, or a number of hits.
func (r *rememberSpec) FromYAML(v yamlfile.Value) {
	text, _ := v.Scalar()
	if text == "exact" {
		r.Exact = true
		return
	}
	hits, err := strconv.ParseInt(text, 10, 64)
	if err != nil || hits < window.LeastRemember || hits > window.MostRemember {
		v.Faultf(fmt.Sprintf("write exact, or a number of hits: %d to %d", window.LeastRemember, window.MostRemember), "%q is no number of hits to remember", text)
		return
	}
	r.Hits = hits
}

type thenSpec []duration.OrForever

// FromYAML reads a duration or a list of them.
func (t *thenSpec) FromYAML(v yamlfile.Value) {
	if _, ok := v.Scalar(); ok {
		*t = make(thenSpec, 1)
		v.Faultf("write [1h, 24h]: how long the second offence lasts, the third and so on", "then is a list")
		return
	}
	v.Decode((*[]duration.OrForever)(t))
}

// An expressionSpec is an expression as written, and compiled.
type expressionSpec struct {
	written  string
	compiled *expression
}

func (e *expressionSpec) read(v yamlfile.Value, text string, wanted reflect.Kind) {
	if strings.TrimSpace(text) == "" {
		v.Faultf("write an expression, or leave the key out", "the expression is empty")
		return
	}
	compiled, complaints := compile(text, wanted)
	for _, c := range complaints {
		if c.remedy == "" && v.Comment() != "" && !v.Quoted() {
			c.remedy = "YAML takes what stands behind # for a comment: put the expression in single quotes"
		}
		v.At(c.line, c.column).Faultf(c.remedy, "%s", c.what)
	}
	e.written, e.compiled = strings.TrimSpace(text), compiled
}

type matchSpec struct{ expressionSpec }

// FromYAML reads a condition.
func (m *matchSpec) FromYAML(v yamlfile.Value) {
	if text := v.Text(); !v.Faulty() {
		m.read(v, text, reflect.Bool)
	}
}

type costSpec struct{ expressionSpec }

// FromYAML reads a number or an expression.
func (c *costSpec) FromYAML(v yamlfile.Value) {
	text, ok := v.Scalar()
	if !ok {
		v.Faultf("write a number, or an expression such as 'bytes / 1024'", "%s where a cost is wanted", v.Found())
		return
	}

	c.read(v, text, reflect.Float64)

	// Only a constant can be checked here; the cost of an expression is checked for each request.
	number, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	switch {
	case err != nil:
	case number < 1:
		v.Faultf("write at least 1, or leave cost out", "a cost of %s counts nothing", text)
	case number > MaxCost:
		v.Faultf("write at most 1000000000", "a cost of %s is too high", text)
	}
}

type algorithmSpec struct {
	Name       window.Algorithm
	Subwindows int
	Burst      int64
}

type algorithmMap struct {
	Name       algorithmName `yaml:"name"`
	Subwindows int           `yaml:"subwindows"`
	Burst      int64         `yaml:"burst"`
}

// FromYAML reads an algorithm's name, or a map of its name and its own keys.
func (a *algorithmSpec) FromYAML(v yamlfile.Value) {
	if _, ok := v.Map(); !ok {
		a.setName(v)
		a.Subwindows = DefaultSubwindows
		return
	}

	long := algorithmMap{Subwindows: DefaultSubwindows}
	v.Decode(&long)
	a.Name, a.Subwindows, a.Burst = window.Algorithm(long.Name), long.Subwindows, long.Burst
	if !v.Has("name") {
		v.Faultf("write {name: counter, …}", "the algorithm has no name")
		return
	}

	if !v.Key("name").Faulty() {
		a.check(v)
	}
}

func (a *algorithmSpec) check(v yamlfile.Value) {
	if v.Has("subwindows") {
		switch place := v.Key("subwindows"); {
		case a.Name != window.Counter:
			place.Faultf("leave it out", "only counter has subwindows, %s has none", a.Name)
		case (a.Subwindows < 1 || a.Subwindows > 1000) && !place.Faulty():
			place.Faultf("write 1 to 1000", "a window of %d parts is not possible", a.Subwindows)
		}
	}

	if v.Has("burst") {
		switch place := v.Key("burst"); {
		case a.Name != window.Token && a.Name != window.Uniform:
			place.Faultf("leave it out", "only token and uniform have a burst, %s has none", a.Name)
		case a.Burst < 1 && !place.Faulty():
			place.Faultf("write at least 1, or leave it out", "a burst of %d is not possible", a.Burst)
		}
	}
}

func (a *algorithmSpec) setName(v yamlfile.Value) {
	var name algorithmName
	name.FromYAML(v)
	a.Name = window.Algorithm(name)
}

type algorithmName window.Algorithm

// FromYAML reads an algorithm's name.
func (a *algorithmName) FromYAML(v yamlfile.Value) {
	var names []string
	for _, algorithm := range window.Algorithms() {
		names = append(names, algorithm.String())
	}
	if at := word(v, "algorithm", names); at >= 0 {
		*a = algorithmName(window.Algorithms()[at])
	}
}

// word reads one of a few words and returns its index; -1 after an error.
func word(v yamlfile.Value, what string, words []string) int {
	text, ok := v.Scalar()
	if !ok {
		v.Faultf("write "+strings.Join(words, ", "), "%s where one word is wanted", v.Found())
		return -1
	}
	at := slices.Index(words, text)
	if at < 0 {
		v.Faultf(nearest.Suggest(text, words, "write "), "%q is no %s", text, what)
	}
	return at
}

// FromYAML reads enforce or shadow.
func (m *Mode) FromYAML(v yamlfile.Value) { *m = Mode(max(0, word(v, "mode", modeWords))) }

// FromYAML reads all or served.
func (c *Count) FromYAML(v yamlfile.Value) { *c = Count(max(0, word(v, "count", countWords))) }

// FromYAML reads all or match.
func (c *Covers) FromYAML(v yamlfile.Value) { *c = Covers(max(0, word(v, "cover", coversWords))) }

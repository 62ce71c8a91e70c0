package rule

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"weir/internal/yamlfile"
	"weir/pkg/request"
)

// Claims of clients must not decide anything that protects. A client that can choose a value escapes a rule that
// excludes the value, has others blocked by a rule that counts by it, and passes by an allow entry that only requires
// it. This file finds such rules and entries and warns of them.

// claimable are the fields that any client sends as it likes. Path and method are not among them: a client that changes
// these gets another response, except as headless and excused describe.
var claimable = []string{"user", "host", "agent", "referrer", "query"}

// isClaimed reports whether a client chooses a field. A further field is a header, a cookie or a part of the query if its
// name shows it.
func isClaimed(name string, usersChecked bool) bool {
	if name == "user" {
		return !usersChecked
	}
	return slices.Contains(claimable, name) || isHeader(name)
}

// headers are the beginnings of such names: of nginx's variables, and of fields in Caddy's log.
var headers = []string{"http_", "cookie_", "arg_", "request.headers."}

func isHeader(name string) bool {
	// Traefik's begin with request_ and a capital letter, as in request_X-Tenant; request_id and the like are nginx's.
	if traefiks, ok := strings.CutPrefix(name, "request_"); ok {
		return traefiks != "" && traefiks[0] >= 'A' && traefiks[0] <= 'Z'
	}
	return slices.ContainsFunc(headers, func(beginning string) bool { return strings.HasPrefix(name, beginning) })
}

const checkUsers = `have edges log a user only after checking it (docs/edges.md, Users), and write users: checked at the top of the file`

// claims warns of rules and entries that depend on claims of clients.
func (l *loader) claims(set *Set) {
	for _, r := range set.Rules {
		// One warning a rule, the gravest first: innocent users blocked, then clients that escape.
		what, remedy := r.framed(l.usersChecked)
		if what == "" {
			what, remedy = r.escaped(l.usersChecked)
		}
		if what == "" {
			what, remedy = r.cheapened(l.usersChecked)
		}
		if what == "" {
			what, remedy = r.renamed(set)
		}
		if what == "" {
			what, remedy = r.respelled()
		}
		if what == "" {
			what, remedy = r.headless()
		}
		if what == "" {
			what, remedy = r.excused()
		}
		l.warn(r.place, what, remedy)
		what, remedy = r.unguarded(l.usersChecked)
		l.warn(r.place, what, remedy)
	}

	for i := range l.allows {
		if set.Allows[i].isMasterKey(l.usersChecked) {
			l.warn(l.allows[i].place, "any client can claim what this entry requires, and is then left alone",
				"add the addresses that it is for, as ip: 10.0.0.0/8, or the requests, as match: 'path == \"/health\"'")
		}
	}
}

func (l *loader) warn(place yamlfile.Fault, what, remedy string) {
	if what == "" {
		return
	}
	place.What, place.Remedy = what, remedy
	l.warnings = append(l.warnings, place)
}

// framed describes how a client can have others blocked by its claims.
func (r *Rule) framed(usersChecked bool) (what, remedy string) {
	if !r.Key.has("user") {
		return "", ""
	}
	// An inline rule has no status to ask for.
	if !r.Inline && r.mayMatch([]string{"status"}, &request.Request{Status: 401}) {
		return "the rule " + r.Name + " counts requests with status 401 by a user that was not authenticated: anyone can have that user blocked",
			"write match: 'status != 401', together with what is there"
	}
	if !usersChecked {
		return "the rule " + r.Name + " counts by a user that anyone can claim where an edge logs it unchecked, as nginx's $remote_user: anyone can have that user " + r.stopped(),
			checkUsers
	}
	return "", ""
}

// stopped is the consequence of a broken limit for a client.
func (r *Rule) stopped() string {
	if r.CountsLog() {
		return "blocked"
	}
	return "refused"
}

// escaped describes which claim of a client keeps it from being counted.
func (r *Rule) escaped(usersChecked bool) (what, remedy string) {
	name, value := r.avoided(usersChecked)
	what, word := "the rule %s does not count a client that sends the %s %q", "match"
	if name == "" && r.CountsShare() {
		condition := Rule{match: r.Share.of}
		name, value = condition.avoided(usersChecked)
		what, word = "the share of the rule %s does not count a client that sends the %s %q", "of"
	}
	if name == "" {
		return "", ""
	}
	remedy = "leave the " + name + " out of " + word + ", and allow addresses (allow: [{ip: 10.0.0.0/8}]) where some are not to be counted"
	if name == "user" {
		remedy = "leave the user out of " + word + ": a rule by address counts whoever the user is; or " + checkUsers
	}
	return fmt.Sprintf(what, r.Name, name, value), remedy
}

// avoided is a claim that makes the match false of a client whose requests otherwise meet it; without a name there is none.
func (r *Rule) avoided(usersChecked bool) (name, value string) {
	if r.match == nil {
		return "", ""
	}
	for _, name := range r.match.claims(usersChecked) {
		texts := r.textsWith(name)
		counts := func(value string) bool { return r.mayMatch([]string{name}, specimenWith(name, value)) }
		// A match that requires any value, as agent != "", is avoided by the values that it excludes just as well.
		if texts == nil || !counts("") && !counts("anyone") {
			continue
		}

		for _, value := range texts {
			if value != "" && !counts(value) {
				return name, value
			}
		}
	}

	return "", ""
}

// claims are the names in an expression whose values a client chooses. The host is not among them: a client that sends
// another one gets another response.
func (e *expression) claims(usersChecked bool) []string {
	all := slices.Sorted(slices.Values(e.names()))
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool { return name == "host" || !isClaimed(name, usersChecked) })
}

// specimenWith is a request with one field that a client chose.
func specimenWith(name, value string) *request.Request {
	r := &request.Request{Status: 200, Bytes: 1 << 20}
	switch name {
	case "user":
		r.User = value
	case "agent":
		r.Agent = value
	case "referrer":
		r.Referrer = value
	case "query":
		r.Query = value
	default:
		r.Fields = []request.Field{{Name: name, Value: value}}
	}
	return r
}

// cheapened describes which claim of a client makes its requests cost less than they cost without it, or nothing.
func (r *Rule) cheapened(usersChecked bool) (what, remedy string) {
	if r.cost == nil {
		return "", ""
	}
	texts := &textFinder{}
	ast.Walk(&r.cost.tree, texts)
	for _, name := range r.cost.claims(usersChecked) {
		costs := func(value string) (int64, bool) { return r.costOf(&subject{Request: specimenWith(name, value)}) }
		remedy = "leave the " + name + " out of cost"
		without, ok := costs("")
		if !ok {
			if r.cost.computes(name) {
				return fmt.Sprintf("the rule %s does not count a client that sends no %s: its cost cannot be computed then", r.Name, name), remedy
			}
			continue
		}
		for _, value := range append([]string{"anyone"}, texts.all[:min(len(texts.all), maxTexts)]...) {
			if cost, ok := costs(value); !ok || cost < without {
				return fmt.Sprintf("the rule %s counts a client that sends the %s %q as %d instead of %d", r.Name, name, value, max(cost, 0), without), remedy
			}
		}
	}
	return "", ""
}

// computes reports whether the expression needs no further field but this one, so that a failure is due to it.
func (e *expression) computes(name string) bool {
	named := namesIn{}
	ast.Walk(&e.tree, &named)
	return named.dynamic == 0 && !slices.ContainsFunc(named.further, func(other string) bool { return other != name })
}

// isAtWill reports whether a client can change a part of the key with each request and still get the same response. A
// host is such a part, unless the match requires certain ones: a server answers to unknown ones too.
func (r *Rule) isAtWill(p part) bool {
	switch p.name {
	case "agent", "referrer", "query", "raw_path":
		return true
	case "host":
		return r.mayMatch([]string{"host"}, &request.Request{Host: "anyone.example"})
	}
	return isHeader(p.name)
}

// renamed describes how a client can have another key with each request: its key has a part that the client writes as
// it likes, and no other rule counts the same requests without that part.
func (r *Rule) renamed(set *Set) (what, remedy string) {
	first := slices.IndexFunc(r.Key.parts, r.isAtWill)
	if first < 0 {
		return "", ""
	}

	name := r.Key.parts[first].name
	what = fmt.Sprintf("the rule %s counts by %s, and a client that sends another one with each request is never %s", r.Name, name, r.stopped())
	// Without any part that is the client's own, the key is shared by everybody who sends the same text.
	if !slices.ContainsFunc(r.Key.parts, func(p part) bool { return !r.isAtWill(p) }) {
		return what + ", and a client that sends the same one as others can get them " + r.stopped(), "write key: ip, or key: [ip, " + name + "] next to a rule with key: ip"
	}

	// A rule that counts at least the same requests, by a part of the same key that the client cannot change.
	counts := func(other *Rule) bool {
		return (other.match == nil || other.Match == r.Match) && !other.HasValues() && !slices.ContainsFunc(other.Key.parts, func(p part) bool { return other.isAtWill(p) || !r.Key.has(p.name) })
	}
	if slices.ContainsFunc(set.Rules, counts) {
		return "", ""
	}

	return what, "add a rule that counts the same requests without the " + name + ", as key: ip, and may allow more"
}

// unguarded describes how a client can use the rule's guard: with values of its own it begins more blocks than the guard
// allows, and further ones are not enforced.
func (r *Rule) unguarded(usersChecked bool) (what, remedy string) {
	if r.Guard.Off() {
		return "", ""
	}
	values := "many"
	if r.Guard.MostNew > 0 {
		values = fmt.Sprint(r.Guard.MostNew + 1)
	}
	for _, p := range r.Key.parts {
		if r.isAtWill(p) || p.name == "user" && !usersChecked || p.name == "path" && r.countsAnyPath() {
			return fmt.Sprintf("the rule %s has a guard and counts by %s: one client that breaks the limit with %s of its own values in a minute keeps all others from being blocked", r.Name, p.name, values),
				"write guard: off in the rule"
		}
	}
	return "", ""
}

// countsAnyPath reports whether a client can make up paths that the rule counts.
func (r *Rule) countsAnyPath() bool {
	if r.match == nil {
		return true
	}
	counts := func(path string) bool { return r.mayMatch([]string{"path"}, &request.Request{Path: path}) }
	return slices.ContainsFunc(append([]string{"/"}, r.textsWith("path")...), func(text string) bool {
		return counts(text+"anything") && counts(text+"something")
	})
}

// respelled describes how a client with one credential can have several keys: servers read the name of the scheme in any
// case of letters, and with several spaces behind it.
func (r *Rule) respelled() (what, remedy string) {
	for _, p := range r.Key.parts {
		if strings.HasSuffix(strings.ToLower(p.name), "authorization") {
			return fmt.Sprintf("the rule %s counts by %s, and a client can write one credential in many ways, as with bearer for Bearer, or with two spaces: each counts for itself", r.Name, p.name),
				"have the edge log the token alone, and count by that field"
		}
	}
	return "", ""
}

// headless describes a rule that counts GET only: servers do the same work for HEAD.
func (r *Rule) headless() (what, remedy string) {
	counts := func(method string) bool {
		return r.mayMatch([]string{"method"}, &request.Request{Method: method})
	}
	if !counts("GET") || counts("HEAD") {
		return "", ""
	}
	return "the rule " + r.Name + " counts GET and not HEAD, and servers do the same work for HEAD", `write method in ["GET", "HEAD"], or leave the method out of match`
}

// maxExcused bounds the paths, and the endings, that are tried.
const maxExcused = 4

// excused describes how a client avoids a match that excludes paths by their end, as those of pictures. Applications
// that take the rest of a path for a parameter or a format serve /search/x.png or /search.png as /search.
func (r *Rule) excused() (what, remedy string) {
	if r.match == nil {
		return "", ""
	}
	paths, ends := []string{"/a"}, []string{".css", ".js", ".png"}
	for _, text := range r.textsWith("path") {
		if strings.HasPrefix(text, "/") && len(paths) < maxExcused {
			paths = append(paths, strings.TrimSuffix(text, "/")+"/a")
		} else if strings.HasPrefix(text, ".") && len(ends) < 2*maxExcused {
			ends = append(ends, text)
		}
	}

	counts := func(path string) bool { return r.mayMatch([]string{"path"}, &request.Request{Path: path}) }
	for _, path := range paths {
		if !counts(path) || !counts(path+"/x") || !counts(path+"/x.end") {
			continue
		}
		for _, end := range ends {
			if avoids := path + "/x" + end; !counts(avoids) {
				return fmt.Sprintf("a client can avoid the match by %q, which many applications serve as %q", avoids, path),
					`exclude folders instead, as not (path startsWith "/static/"), or count these requests too`
			}
		}
	}
	return "", ""
}

// isMasterKey reports whether the entry applies to anyone who sends the right claims, from any address and for any
// target.
func (a *Allow) isMasterKey(usersChecked bool) bool {
	switch {
	case len(a.Prefixes) > 0, usersChecked && len(a.Users) > 0:
		return false
	case a.match == nil:
		return true
	}

	isClaim := func(name string) bool { return isClaimed(name, usersChecked) }
	claims := len(a.Users)+len(a.Hosts) > 0 || slices.ContainsFunc(a.match.names(), isClaim)
	return a.takesOnlyClaims(isClaim, nil) || claims && slices.ContainsFunc(usual, func(r *request.Request) bool { return a.takesOnlyClaims(isClaim, r) })
}

// usual are requests as everyone sends them. A condition that is true of one, such as method == "GET" or
// path startsWith "/", keeps no client from an entry.
var usual = []*request.Request{
	{Method: "GET", Path: "/a/page", Status: 200, Bytes: 4096},
	{Method: "POST", Path: "/a/page", Status: 200, Bytes: 4096},
}

// takesOnlyClaims reports whether claims are all that the match takes, of a request like specimen if there is one. Every
// condition that claims can meet is taken as met, and every other one as not met, unless the specimen decides it.
func (a *Allow) takesOnlyClaims(isClaim func(string) bool, specimen *request.Request) bool {
	assumed := substitute(a.match.tree, true, func(n ast.Node, holds bool) ast.Node {
		named := namesIn{}
		ast.Walk(&n, &named)
		if named.dynamic > 0 || len(named.all) == 0 {
			return &ast.BoolNode{Value: !holds}
		}
		known := func(name string) bool {
			return slices.Contains([]string{"method", "path", "raw_path", "status", "bytes"}, name)
		}
		if specimen != nil && !slices.ContainsFunc(named.all, func(name string) bool { return !known(name) }) {
			if part, complaints := compile(n.String(), reflect.Bool); complaints == nil {
				matches, ok := part.matches(&subject{Request: specimen})
				return &ast.BoolNode{Value: matches && ok}
			}
		}
		free := !slices.ContainsFunc(named.all, func(name string) bool { return !isClaim(name) })
		return &ast.BoolNode{Value: free == holds}
	})

	constant, ok := assumed.(*ast.BoolNode)
	return ok && constant.Value
}

// names are the names in an expression.
func (e *expression) names() []string {
	named := namesIn{}
	ast.Walk(&e.tree, &named)
	return named.all
}

// mayMatch reports whether the rule's match may be true for a request. Only the known names have the specimen's values.
func (r *Rule) mayMatch(known []string, specimen *request.Request) bool {
	if r.match == nil {
		return true
	}
	s := &subject{Request: specimen}
	assumed := substitute(r.match.tree, true, func(n ast.Node, holds bool) ast.Node {
		named := namesIn{}
		ast.Walk(&n, &named)
		named.all = slices.DeleteFunc(named.all, func(name string) bool { return name == inNetwork })
		// A condition on something unknown may have either value: it gets the one that makes the match true.
		if named.dynamic > 0 || slices.ContainsFunc(named.all, func(name string) bool { return !slices.Contains(known, name) }) {
			return &ast.BoolNode{Value: holds}
		}
		part, complaints := compile(n.String(), reflect.Bool)
		if complaints != nil {
			return &ast.BoolNode{Value: holds}
		}
		matches, ok := part.matches(s)
		return &ast.BoolNode{Value: matches && ok}
	})

	constant, ok := assumed.(*ast.BoolNode)
	return !ok || constant.Value
}

// maxTexts bounds the values of a name that are tried: each costs an evaluation of its condition.
const maxTexts = 64

// textsWith are possible values of a name: any, and those in conditions on it. There are none if the match does not use
// the name.
func (r *Rule) textsWith(name string) []string {
	texts := &textFinder{}
	asked := false
	substitute(r.match.tree, true, func(n ast.Node, holds bool) ast.Node {
		named := namesIn{}
		ast.Walk(&n, &named)
		if slices.Contains(named.all, name) {
			asked = true
			ast.Walk(&n, texts)
		}
		return &ast.BoolNode{Value: holds}
	})

	if !asked {
		return nil
	}

	// A value that the match does not name stands for all others.
	return append([]string{"anyone"}, texts.all[:min(len(texts.all), maxTexts)]...)
}

type textFinder struct{ all []string }

// Visit collects a text.
func (f *textFinder) Visit(node *ast.Node) {
	if text, ok := (*node).(*ast.StringNode); ok {
		f.all = append(f.all, text.Value)
	}
}

// substitute replaces each condition by the result of atom; holds is the value of the condition that makes the complete
// expression true.
func substitute(n ast.Node, holds bool, atom func(n ast.Node, holds bool) ast.Node) ast.Node {
	switch n := n.(type) {
	case *ast.BoolNode:
		return n
	case *ast.BinaryNode:
		switch n.Operator {
		case "and", "&&":
			return both(substitute(n.Left, holds, atom), substitute(n.Right, holds, atom))
		case "or", "||":
			return either(substitute(n.Left, holds, atom), substitute(n.Right, holds, atom))
		}
	case *ast.UnaryNode:
		// Under a not, a condition makes the expression true by being false.
		if n.Operator == "not" || n.Operator == "!" {
			return negated(substitute(n.Node, !holds, atom))
		}
	}

	return atom(n, holds)
}

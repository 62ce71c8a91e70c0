package rule

import (
	"net/netip"
	"strings"
	"unsafe"

	"github.com/expr-lang/expr/vm"

	"weir/internal/address"
	"weir/pkg/geoip"
	"weir/pkg/request"
)

// A subject is the current request of expressions, with their memory. One goroutine uses it.
type subject struct {
	*request.Request
	address      [64]byte
	addressBytes int // of address; 0 is not yet written
	machine      vm.VM
	environment  environment
	lowered      []byte // the host, if it had to be changed
	raised       []byte // the method, if it had to be changed
	filled       bool   // whether environment is of this request
	paths        request.PathForm
	normal       string // the path in that form; valid until the next request
	normalBytes  []byte // of normal, if it had to be changed
	normalized   bool   // whether normal is of this request
	hider        *hider // nil until a secret is hidden
	valuer       valuer
	finder       *geoip.Finder // nil without databases
	place        geoip.Place   // of the client
	isLocated    bool          // whether place is of this request
	digits       [10]byte      // of its number
}

// about makes r the current request.
func (s *subject) about(r *request.Request) {
	s.Request = r
	s.addressBytes = 0
	s.filled = false
	s.normalized = false
	s.isLocated = false
}

// ip is the client's address as text, valid until the next request; "" when it is not known.
func (s *subject) ip() string {
	if s.addressBytes == 0 && s.IP.IsValid() {
		s.addressBytes = len(s.plainIP().AppendTo(s.address[:0]))
	}
	return unsafe.String(&s.address[0], s.addressBytes)
}

func (s *subject) plainIP() netip.Addr { return address.Plain(s.IP) }

// host is the host in the form of keys, valid until the next request.
func (s *subject) host() string {
	bare := bareHost(s.Host)
	if strings.IndexFunc(bare, isUpper) < 0 {
		return bare
	}
	s.lowered = appendLower(s.lowered[:0], bare)
	return unsafe.String(&s.lowered[0], len(s.lowered))
}

// method is the method in upper case, valid until the next request: many servers pass on "post" unchanged, and many
// applications treat it as POST.
func (s *subject) method() string {
	if strings.IndexFunc(s.Method, isLower) < 0 {
		return s.Method
	}
	s.raised = appendUpper(s.raised[:0], s.Method)
	return unsafe.String(&s.raised[0], len(s.raised))
}

// path is the path in the form that the rules require, valid until the next request.
func (s *subject) path() string {
	if !s.normalized {
		s.normal, s.normalBytes = s.paths.Normal(s.Path, s.PathDecoded, s.normalBytes)
		s.normalized = true
	}
	return s.normal
}

func (s *subject) bytes() int { return int(max(s.Bytes, 0)) }

// verdict is that of an attempt at an inline rule; "" of a request of a log.
func (s *subject) verdict() string {
	if s.Take == nil {
		return ""
	}
	return s.Take.Verdict
}

// rule is the inline rule of an attempt; "" of a request of a log.
func (s *subject) rule() string {
	if s.Take == nil {
		return ""
	}
	return s.Take.Rule
}

// run runs a program in the virtual machine.
func (s *subject) run(program *vm.Program) (any, error) {
	if !s.filled {
		s.fill()
	}
	return s.machine.Run(program, &s.environment)
}

func (s *subject) fill() {
	fields := s.environment.Fields
	if fields == nil {
		fields = map[string]string{}
	}

	clear(fields)

	// Of fields of one name the first counts, as in keys (field).
	for _, f := range s.Fields {
		if _, twice := fields[f.Name]; !twice {
			fields[f.Name] = f.Value
		}
	}

	s.environment = environment{
		IP: s.ip(), User: s.User, Method: s.method(), Host: s.host(), Path: s.path(), RawPath: s.Path, Query: s.Query,
		Status: s.Status, Bytes: s.bytes(), Agent: s.Agent, Referrer: s.Referrer, Verdict: s.verdict(), Rule: s.rule(), Fields: fields,
	}
	if s.finder != nil {
		place := s.located()
		s.environment.ASN, s.environment.ASName = int(place.Number()), place.Text(geoip.ASName)
		s.environment.Country, s.environment.City = place.Text(geoip.Country), place.Text(geoip.City)
	}

	s.filled = true
}

// matches is a match's result; ok is false when the expression failed on this request.
func (e *expression) matches(s *subject) (matches, ok bool) {
	if e.boolean != nil {
		return e.boolean(s), true
	}
	answer, err := s.run(e.program)
	if err != nil {
		return false, false
	}
	matches, ok = answer.(bool)
	return matches, ok
}

// amount is a cost's result, not yet rounded; ok is false when the expression failed on this request.
func (e *expression) amount(s *subject) (amount float64, ok bool) {
	if e.number != nil {
		return e.number(s), true
	}
	answer, err := s.run(e.program)
	if err != nil {
		return 0, false
	}
	amount, ok = answer.(float64)
	return amount, ok
}

package rule

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"weir/pkg/request"
)

// meaning counts the changes in how rules decide: in the forms of keys, in the results of expressions. With such a
// change an unchanged file gets another fingerprint.
const meaning = 3 // 2: path is in one spelling; an address that carries IPv4 is that. 3: a path has no newline at its end, a . may be one

// The deciding parts, in the forms that are hashed. A field that is added here changes every fingerprint.

type decidingSet struct {
	Meaning int
	Rules   []decidingRule
	Allows  []decidingAllow
	Paths   request.PathForm
	Secret  string   `json:",omitempty"` // a hash of the key
	GeoIP   []string `json:",omitempty"` // hashes of the databases, if rules use them

	Crawlers []string `json:",omitempty"`
}

type decidingRule struct {
	Name, Match, Cost string
	Key               []string
	Limits            [][2]int64
	Algorithm         string
	Subwindows        int
	Burst             int64
	Count, Mode       string
	For, Forget       time.Duration
	Then              []time.Duration
	Extend            bool
	Covers            string
	Clear             bool `json:",omitempty"` // left out if it is not given, as are the following fields: older fingerprints stay
	Remember          int  `json:",omitempty"`
	Inline, AlsoLog   bool `json:",omitempty"`

	AtOnce []int         `json:",omitempty"`
	Ends   bool          `json:",omitempty"`
	Queue  string        `json:",omitempty"` // its bound is the last of Limits
	After  int64         `json:",omitempty"`
	Within time.Duration `json:",omitempty"`
	Secret bool          `json:",omitempty"`
	Guard  int64         `json:",omitempty"`
	Share  float64       `json:",omitempty"` // of the guard

	Distinct []string       `json:",omitempty"`
	ShareOf  *decidingShare `json:",omitempty"`
	Blocked  bool           `json:",omitempty"`
	Above    string         `json:",omitempty"`
	Late     *time.Duration `json:",omitempty"`
}

type decidingShare struct {
	Of   string
	Over int64
	Late time.Duration
}

type decidingAllow struct {
	Prefixes, Users, Hosts, Rules []string
	Match                         string
	Until                         int64
}

// fingerprint hashes the deciding parts.
func fingerprint(s *Set) string {
	d := decidingSet{Meaning: meaning, Paths: s.Paths, Secret: s.secret.sum(), Crawlers: s.decidingCrawlers()}
	for _, database := range s.GeoIP().All() {
		d.GeoIP = append(d.GeoIP, database.Sum)
	}
	for _, r := range s.Rules {
		d.Rules = append(d.Rules, r.deciding())
	}

	for _, a := range s.Allows {
		d.Allows = append(d.Allows, a.deciding())
	}
	encoded, err := json.Marshal(d)
	if err != nil {
		panic(err) // plain fields only
	}

	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8])
}

func (r *Rule) deciding() decidingRule {
	d := decidingRule{
		Name: r.Name, Match: r.match.canonical(), Cost: r.cost.canonical(), Key: r.Key.Words(), Algorithm: r.Algorithm.String(),
		Burst: r.Burst, Count: r.Count.String(), Mode: r.Mode.String(), For: r.Block.For, Forget: r.Block.Forget,
		Then: r.Block.Then, Extend: r.Block.Extend, Covers: r.Block.Covers.String(),
		Clear: r.Block.Clear, Remember: r.Remember, Inline: r.Inline, AlsoLog: r.AlsoLog,
		After: r.Block.After, Within: r.Block.Within, AtOnce: atOnce(r.Limits), Secret: r.Secret, Ends: r.EndsByLog, Guard: r.Guard.MostNew, Share: r.Guard.MostShare,
		Blocked: r.onBlocked, Above: r.Above, Late: r.Lateness,
	}

	if r.CountsDistinct() {
		d.Distinct = r.Distinct.Words()
	}
	if r.CountsShare() {
		d.ShareOf = &decidingShare{r.Share.of.canonical(), r.Share.millionths(), r.Share.Late}
	}
	if r.Queue != nil {
		d.Queue = r.Queue.Stream
	}
	// Other algorithms have no sub-windows: their default must not decide about the fingerprint.
	if r.Algorithm.String() == "counter" {
		d.Subwindows = r.Subwindows
	}
	for _, limit := range r.Limits {
		d.Limits = append(d.Limits, [2]int64{limit.Hits, int64(limit.Per)})
	}

	return d
}

func (a *Allow) deciding() decidingAllow {
	d := decidingAllow{Users: sorted(a.Users), Hosts: sorted(a.Hosts), Rules: sorted(a.Rules), Match: a.match.canonical()}
	for _, prefix := range a.Prefixes {
		d.Prefixes = append(d.Prefixes, prefix.String())
	}
	if !a.Until.IsZero() {
		d.Until = a.Until.UnixMilli()
	}
	return d
}

func sorted(words []string) []string { return slices.Compact(slices.Sorted(slices.Values(words))) }

// canonical is the expression in one form, "" of none.
func (e *expression) canonical() string {
	if e == nil {
		return ""
	}
	return e.text
}

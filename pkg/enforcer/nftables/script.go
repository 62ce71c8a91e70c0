package nftables

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"weir/internal/address"
	"weir/pkg/enforcer/cidr"
)

// script writes the changes in nft's language.
type script struct {
	to   io.Writer
	made bool
}

func (s *script) untouched() (bool, error) { return true, nil }

func (s *script) touched() <-chan struct{} { return nil }

// read returns an empty table before the first transaction.
func (s *script) read() ([]cidr.Block, bool, error) { return nil, s.made, nil }

func (s *script) remove() error {
	_, err := fmt.Fprintf(s.to, "delete table inet %s\n", tableName)
	return err
}

func (s *script) close() {}

func (s *script) commit(p plan) error {
	out := bufio.NewWriter(s.to)
	if p.recreate {
		s.made = true
		writeTable(out)
	}
	for _, step := range p.steps {
		writeElements(out, "add", step.before)
		writeElements(out, "delete", step.out)
		writeElements(out, "add", step.in)
	}
	return out.Flush()
}

func writeTable(out io.Writer) {
	fmt.Fprintf(out, "add table inet %s\ndelete table inet %s\nadd table inet %s\n", tableName, tableName, tableName)
	fmt.Fprintf(out, "add set inet %s %s { type ipv4_addr; flags interval, timeout; }\n", tableName, set4)
	fmt.Fprintf(out, "add set inet %s %s { type ipv6_addr; flags interval, timeout; }\n", tableName, set6)
	for _, chain := range chains {
		fmt.Fprintf(out, "add chain inet %s %s { type filter hook %s priority %d; policy accept; }\n", tableName, chain, chain, priority)
		fmt.Fprintf(out, "add rule inet %s %s iif != lo ip saddr @%s counter drop\n", tableName, chain, set4)
		fmt.Fprintf(out, "add rule inet %s %s iif != lo meta l4proto != ipv6-icmp ip6 saddr @%s counter drop\n", tableName, chain, set6)
	}
}

// writeElements writes one line per set.
func writeElements(out io.Writer, verb string, all []element) {
	lists := map[string][]string{}
	for _, e := range all {
		text := address.Text(e.Prefix)
		if verb == "add" && e.timeout > 0 {
			text += " timeout " + milliseconds(e.timeout)
		}
		name := setOf(e.Block)
		lists[name] = append(lists[name], text)
	}

	for _, name := range []string{set4, set6} {
		if list := lists[name]; len(list) > 0 {
			fmt.Fprintf(out, "%s element inet %s %s { %s }\n", verb, tableName, name, strings.Join(list, ", "))
		}
	}
}

// milliseconds writes a duration for nft, which refuses numbers of more than eight digits.
func milliseconds(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day {
		return fmt.Sprintf("%dd%dms", d/day, (d % day).Milliseconds())
	}
	return fmt.Sprintf("%dms", d.Milliseconds())
}

func setOf(b cidr.Block) string {
	if b.Prefix.Addr().Is4() {
		return set4
	}
	return set6
}

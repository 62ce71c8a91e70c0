package nftables

import (
	"bytes"
	"errors"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

func newTable() *nftables.Table {
	return &nftables.Table{Family: nftables.TableFamilyINet, Name: tableName}
}

// newSets returns the sets of IPv4 and of IPv6.
func newSets() [2]*nftables.Set {
	of := func(name string, kind nftables.SetDatatype) *nftables.Set {
		return &nftables.Set{Table: newTable(), Name: name, KeyType: kind, Interval: true, HasTimeout: true}
	}
	return [2]*nftables.Set{of(set4, nftables.TypeIPAddr), of(set6, nftables.TypeIP6Addr)}
}

func newChain(name string) *nftables.Chain {
	hook := nftables.ChainHookInput
	if name == "forward" {
		hook = nftables.ChainHookForward
	}
	accept := nftables.ChainPolicyAccept
	return &nftables.Chain{Table: newTable(), Name: name, Type: nftables.ChainTypeFilter, Hooknum: hook,
		Priority: nftables.ChainPriorityRef(priority), Policy: &accept}
}

// loopback is the index of the interface lo, in every network. Through it the machine reaches its own addresses, also
// one in a blocked network.
const loopback = 1

// newRules returns the rules that drop packets from sources in the sets, of IPv6 all but ICMPv6, and none that the machine
// sends to itself. Their comments name weir as the owner.
func newRules(chain *nftables.Chain, sets [2]*nftables.Set) [2]*nftables.Rule {
	of := func(set *nftables.Set, protocol byte, sourceOffset, sourceBytes uint32) *nftables.Rule {
		return &nftables.Rule{Table: chain.Table, Chain: chain,
			UserData: userdata.AppendString(nil, userdata.TypeComment, tableName+" "+set.Name),
			Exprs: []expr.Any{
				&expr.Meta{Key: expr.MetaKeyIIF, Register: 1},
				&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(loopback)},
				&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
				&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{protocol}},
				&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: sourceOffset, Len: sourceBytes},
				&expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID},
				&expr.Counter{},
				&expr.Verdict{Kind: expr.VerdictDrop},
			}}
	}

	rules := [2]*nftables.Rule{of(sets[0], unix.NFPROTO_IPV4, 12, 4), of(sets[1], unix.NFPROTO_IPV6, 8, 16)}

	// By ICMPv6 the machine and its router find each other. Without it, a block of the network that they share, or of
	// fe80::/64, would cut off all clients.
	notICMPv6 := []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{unix.IPPROTO_ICMPV6}}}
	rules[1].Exprs = slices.Insert(rules[1].Exprs, 4, notICMPv6...)
	return rules
}

// addTable creates the table again with everything but elements.
func addTable(conn *nftables.Conn, sets [2]*nftables.Set) error {
	conn.AddTable(newTable()) // so that there is one to delete
	conn.DelTable(newTable())
	conn.AddTable(newTable())
	for _, set := range sets {
		if err := conn.AddSet(set, nil); err != nil {
			return err
		}
	}

	for _, name := range chains {
		chain := conn.AddChain(newChain(name))
		for _, rule := range newRules(chain, sets) {
			conn.AddRule(rule)
		}
	}

	return nil
}

// isIntact reports whether the table is as addTable makes it.
func isIntact(conn *nftables.Conn) (bool, error) {
	table, err := conn.ListTableOfFamily(tableName, nftables.TableFamilyINet)
	if err != nil || table.Flags != 0 {
		return false, unlessMissing(err)
	}

	sets := newSets()

	// A missing set or chain is no error: the table is then made again.
	for _, want := range sets {
		set, err := conn.GetSetByName(table, want.Name)
		if err != nil || !set.Interval || !set.HasTimeout || set.Timeout != 0 || set.KeyType.Name != want.KeyType.Name {
			return false, unlessMissing(err)
		}
	}

	for _, name := range chains {
		if intact, err := isChainIntact(conn, newChain(name), sets); !intact {
			return false, unlessMissing(err)
		}
	}

	return true, nil
}

func isChainIntact(conn *nftables.Conn, want *nftables.Chain, sets [2]*nftables.Set) (bool, error) {
	chain, err := conn.ListChain(want.Table, want.Name)
	if err != nil {
		return false, err
	}
	if chain.Hooknum == nil || *chain.Hooknum != *want.Hooknum || *chain.Priority != *want.Priority || chain.Type != want.Type ||
		chain.Policy == nil || *chain.Policy != *want.Policy {
		return false, nil
	}

	rules, err := conn.GetRules(want.Table, want)
	if err != nil {
		return false, err
	}

	wanted := newRules(want, sets)
	if len(rules) != len(wanted) {
		return false, nil
	}

	// Only comments and the number of expressions are compared, because counters differ. That finds accidents, not a
	// program that imitates us.
	for i, rule := range rules {
		if !bytes.Equal(rule.UserData, wanted[i].UserData) || len(rule.Exprs) != len(wanted[i].Exprs) {
			return false, nil
		}
	}

	return true, nil
}

func unlessMissing(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

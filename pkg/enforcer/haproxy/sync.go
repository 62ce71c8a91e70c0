package haproxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/address"
	"weir/pkg/enforcer/cidr"
)

const (
	// payloadBytes is the most bytes of a command: HAProxy reads one into a buffer of 16 KiB by default.
	payloadBytes = 8 << 10
	// fewChanges is how many changes are made one by one; more of them replace the complete list.
	fewChanges = 1000
	// changesAtOnce is how many entries a command changes or removes. HAProxy 2.6 searches the complete list for each of
	// them: some 40 ms in 300,000 entries.
	changesAtOnce = 8
	// Changing and removing may take fewPatience, or as long as a swap of the list, which takes about entryPatience for
	// each entry. Then the list is swapped.
	fewPatience   = 100 * time.Millisecond
	entryPatience = 3 * time.Microsecond

	versionMade = "New version created: "
)

// errRefused reports an unexpected answer.
var errRefused = errors.New("HAProxy refused")

func refused(command, answer string) error {
	first, _, _ := strings.Cut(strings.TrimSpace(answer), "\n")
	verb, _, _ := strings.Cut(command, "\n")
	return fmt.Errorf("%w %.60q: %.200s", errRefused, verb, first)
}

// replace swaps the complete list in.
func (a *Agent) replace(ctx context.Context, want []cidr.Block) error {
	command := "prepare map " + a.c.Map
	answer, err := a.runtime.ask(ctx, command)
	if err != nil {
		return err
	}

	version, made := strings.CutPrefix(strings.TrimSpace(answer), versionMade)
	if !made {
		return refused(command, answer)
	}
	if err := a.add(ctx, "@"+version+" ", want); err != nil {
		_, _ = a.runtime.ask(ctx, "clear map @"+version+" "+a.c.Map) // the next active version removes it too
		return err
	}

	return a.do(ctx, "commit map @"+version+" "+a.c.Map)
}

// change leads from the map's blocks to the wanted ones. When that takes longer than swapping in the complete list, it
// does so: further blocks wait until it is done.
func (a *Agent) change(ctx context.Context, want []cidr.Block) error {
	gone, come, changed := cidr.Diff(a.have, want)
	if count := len(gone) + len(come) + len(changed); count > fewChanges {
		return a.replace(ctx, want)
	}
	if err := a.add(ctx, "", come); err != nil {
		return err
	}

	// Additions are done by now: the parts of a prefix that was split are in the map before the prefix leaves it.
	var commands []string
	for _, b := range changed {
		commands = append(commands, "set map "+a.c.Map+" "+address.Text(b.Prefix)+" "+a.c.Value.of(b))
	}

	for _, b := range gone {
		commands = append(commands, "del map "+a.c.Map+" "+address.Text(b.Prefix))
	}

	began, enough := time.Now(), max(fewPatience, time.Duration(len(a.have))*entryPatience)
	for few := range slices.Chunk(commands, changesAtOnce) {
		if time.Since(began) > enough {
			return a.replace(ctx, want)
		}
		if err := a.each(few, "; ", func(line string) error { return a.do(ctx, line) }); err != nil {
			return err
		}
	}
	return nil
}

// add adds entries to a version of the map (with a space after it), or to the active one when version is empty.
func (a *Agent) add(ctx context.Context, version string, blocks []cidr.Block) error {
	entries := make([]string, len(blocks))
	for i, b := range blocks {
		entries[i] = a.c.Value.entry(b)
	}
	return a.each(entries, "\n", func(payload string) error {
		return a.do(ctx, "add map "+version+a.c.Map+" <<\n"+payload+"\n")
	})
}

// each passes the words joined, as many at once as fit into payloadBytes.
func (a *Agent) each(words []string, between string, do func(string) error) error {
	for len(words) > 0 {
		count, bytes := 1, len(words[0])
		for count < len(words) && bytes+len(between)+len(words[count]) <= payloadBytes {
			bytes += len(between) + len(words[count])
			count++
		}
		if err := do(strings.Join(words[:count], between)); err != nil {
			return err
		}
		words = words[count:]
	}
	return nil
}

// do sends a command to which HAProxy answers nothing when it succeeds.
func (a *Agent) do(ctx context.Context, command string) error {
	answer, err := a.runtime.ask(ctx, command)
	if err == nil && strings.TrimSpace(answer) != "" {
		err = refused(command, answer)
	}
	return err
}

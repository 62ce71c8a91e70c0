package haproxy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"weir/pkg/enforcer/cidr"
)

const (
	// payloadBytes is what a command has at most: HAProxy reads one into a buffer of 16 KiB unless configured.
	payloadBytes = 8 << 10
	// fewChanges are made one by one; with more of them the whole list is swapped in.
	fewChanges = 1000

	versionMade = "New version created: "
)

// errRefused is what another answer than the wanted one is.
var errRefused = errors.New("HAProxy refused")

func refused(command, answer string) error {
	first, _, _ := strings.Cut(strings.TrimSpace(answer), "\n")
	verb, _, _ := strings.Cut(command, "\n")
	return fmt.Errorf("%w %.60q: %.200s", errRefused, verb, first)
}

// replace swaps the whole list in.
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
		_, _ = a.runtime.ask(ctx, "clear map @"+version+" "+a.c.Map) // the next version in force takes it away too
		return err
	}

	return a.do(ctx, "commit map @"+version+" "+a.c.Map)
}

// change leads from what the map has to what is wanted.
func (a *Agent) change(ctx context.Context, want []cidr.Block) error {
	gone, come, changed := cidr.Diff(a.have, want)
	if count := len(gone) + len(come) + len(changed); count > fewChanges {
		return a.replace(ctx, want)
	}
	if err := a.add(ctx, "", come); err != nil {
		return err
	}

	var commands []string
	for _, b := range changed {
		commands = append(commands, "set map "+a.c.Map+" "+text(b.Prefix)+" "+a.c.Value.of(b))
	}

	for _, b := range gone {
		commands = append(commands, "del map "+a.c.Map+" "+text(b.Prefix))
	}
	return a.each(commands, "; ", func(line string) error { return a.do(ctx, line) })
}

// add adds entries to a version of the map, which ends with a space; to that in force when it is empty.
func (a *Agent) add(ctx context.Context, version string, blocks []cidr.Block) error {
	entries := make([]string, len(blocks))
	for i, b := range blocks {
		entries[i] = a.c.Value.entry(b)
	}
	return a.each(entries, "\n", func(payload string) error {
		return a.do(ctx, "add map "+version+a.c.Map+" <<\n"+payload+"\n")
	})
}

// each gives the words joined, as many at once as payloadBytes hold.
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

// do sends commands to which HAProxy answers nothing when all is well.
func (a *Agent) do(ctx context.Context, command string) error {
	answer, err := a.runtime.ask(ctx, command)
	if err == nil && strings.TrimSpace(answer) != "" {
		err = refused(command, answer)
	}
	return err
}

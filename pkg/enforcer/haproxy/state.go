package haproxy

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const (
	showInfo = "show info"
	showMap  = "show map"
)

// state is HAProxy's report about itself and the map.
type state struct {
	instance string // another one after each reload and restart
	entries  int    // in the map; -1 when HAProxy does not report it
}

var entryCount = regexp.MustCompile(`\bentry_cnt=(\d+)`)

// state asks for the process, and for the number of entries in the map.
func (a *Agent) state(ctx context.Context) (state, error) {
	if a.c.DryRun != nil {
		return state{"dry run", -1}, nil
	}
	info, err := a.runtime.ask(ctx, showInfo)
	if err != nil {
		return state{}, err
	}

	// A pid alone may be used again, and in a container is often the same.
	s := state{instance: "pid " + field(info, "Pid") + " since " + field(info, "Start_time_sec"), entries: -1}
	if field(info, "Pid") == "" {
		return state{}, refused(showInfo, info)
	}

	maps, err := a.runtime.ask(ctx, showMap)
	if err != nil {
		return state{}, err
	}

	for line := range strings.Lines(maps) {
		if !strings.Contains(line, " ("+a.c.Map+") ") {
			continue
		}

		// Older versions do not report it; then only reloads are noticed.
		if count := entryCount.FindStringSubmatch(line); count != nil {
			s.entries, err = strconv.Atoi(count[1])
		}
		return s, err
	}

	return state{}, fmt.Errorf("%w: it has no map %s; name it in HAProxy's configuration as docs/agents.md says, and reload HAProxy", errRefused, a.c.Map)
}

// field returns the text after a name and a colon on a line.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

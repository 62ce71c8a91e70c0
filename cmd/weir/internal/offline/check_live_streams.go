package offline

import (
	"context"
	"errors"
	"fmt"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/cmd/weir/internal/output"
	"weir/pkg/collector/ordered"
)

// streams looks at the logs of a source that another server keeps.
func (l *liveCheck) streams(ctx context.Context, s *config.Source) {
	thing := "source " + s.Name
	logs, err := daemon.OpenStreams(ctx, s)
	if err != nil {
		l.judge(thing, err, "")
		return
	}
	for _, log := range logs {
		l.stream(ctx, thing, s.Kind(), log)
	}
}

func (l *liveCheck) stream(ctx context.Context, thing, kind string, log ordered.Log) {
	defer log.Close()
	ctx, cancel := context.WithTimeout(ctx, livePatience)
	defer cancel()
	extent, err := log.Extent(ctx, nil)
	if errors.Is(err, ordered.ErrMissing) {
		l.judge(thing, nil, fmt.Sprintf("%s does not exist; it is read once it exists", log))
		return
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", log, err)
	}
	switch kind {
	case "s3", "hdfs":
		l.judge(thing, err, fmt.Sprintf("%s can be listed", log))
		return
	case "kinesis": // the server counts no records
		l.judge(thing, err, fmt.Sprintf("%s can be read", log))
		return
	}
	l.judge(thing, err, fmt.Sprintf("%s has %s", log, output.Counted(int(extent.Last.Position-extent.First.Position), "entry")))
}

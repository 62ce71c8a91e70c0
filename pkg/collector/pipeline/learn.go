package pipeline

import (
	"errors"
	"fmt"

	"weir/pkg/request"
)

const (
	SampleLines   = 1000 // that Learn is given at most
	probeLines    = 20   // to check whether a choice still fits
	rechooseLines = 100  // to find another choice
)

// beginReading makes the first decoder of the stream, if the format is known. Where only the envelope is unknown, lines
// outside of any envelope are read.
func (s *Stream) beginReading() {
	f := form{s.in.config.Envelope, s.in.config.Format}
	if s.in.unknown() {
		f.envelope = "none"
	}
	if f.format != "auto" && s.read(f) == nil { // NewIntake has returned the error, or the format needs an envelope
		s.learned = !s.in.unknown()
	}
}

// read decodes records in a form from now on. A decoder of that form stays: it may contain a part of a line.
func (s *Stream) read(f form) error {
	if s.decoder != nil && s.form == f {
		return nil
	}
	decoder, err := request.NewDecoder(f.envelope, f.format, s.in.config.Options)
	if err != nil {
		return err
	}
	decoder.Share(s.in.pipeline.parts)
	s.dropParts()
	s.decoder, s.form = decoder, f
	s.want()
	return nil
}

// Learns reports whether Learn has to find out the form of the next records. Cuts that are made again keep their form.
func (s *Stream) Learns() bool { return !s.learned && len(s.again) == 0 }

// Reads reports whether a line has the client and the time of a request.
func (s *Stream) Reads(line []byte) bool {
	return s.decoder != nil && s.decoder.Decode(request.Text(line), new(request.Request)) == nil
}

// Learn finds out the form from the first records, where it is not configured. It takes the choice like if that reads
// most of them. Until Learn succeeds, records count as unread, or are read as lines in no envelope where the format is
// known. It returns the choice.
func (s *Stream) Learn(sample []string, like *request.Choice) *request.Choice {
	if s.learned || len(sample) == 0 {
		return like
	}
	if like != nil && s.in.allows(like) && s.readsMost(like, sample) && s.read(formOf(like)) == nil {
		s.learned = true
		return like
	}

	choice, err := request.Choose(s.in.config.Envelope, s.in.config.Format, sample, s.in.config.Options)
	if choice.Format != "" && choice.Sure() {
		err = s.read(formOf(&choice))
	} else if s.decoder != nil || errors.Is(err, request.ErrNoRequest) {
		return like
	}
	if err != nil {
		s.in.TroubleOf(s.log, "format", fmt.Errorf("finding out the format of %s: %w", s.log, err))
		return like
	}

	s.learned = true
	s.in.MendedOf(s.log, "format")
	s.in.choice.Store(&choice)
	if !s.found[s.form] {
		s.found[s.form] = true
		s.in.logger.Info("found out the format", "log", s.log, "format", choice.String())
		if doubt := choice.Doubt(); doubt != "" {
			s.in.logger.Warn(doubt, "log", s.log)
		}
	}

	return &choice
}

// Relearn is Learn for groups of records, such as bodies, that may each have another form. It keeps the choice like as
// long as that reads most of the first records of a group, or no other choice does. sample returns those first
// records.
func (s *Stream) Relearn(sample func(most int) []string, like *request.Choice) *request.Choice {
	if !s.in.unknown() || like != nil && s.readsMost(like, sample(probeLines)) {
		return like
	}
	most := SampleLines
	if like != nil {
		most = rechooseLines
	}
	s.learned = false
	if choice := s.Learn(sample(most), nil); choice != nil {
		return choice
	}
	return like
}

// allows reports whether a choice, which may come from another configuration, fits this one.
func (in *Intake) allows(choice *request.Choice) bool {
	return (in.config.Envelope == "auto" || in.config.Envelope == choice.Envelope) && (in.config.Format == "auto" || in.config.Format == choice.Format)
}

// readsMost reports whether a choice reads at least half of a sample.
func (s *Stream) readsMost(choice *request.Choice, sample []string) bool {
	return choice.Holds(s.in.config.Format, sample, s.in.config.Options)
}

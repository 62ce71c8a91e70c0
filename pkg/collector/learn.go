package collector

import (
	"errors"
	"fmt"

	"weir/pkg/request"
)

const (
	learnLines    = 1000
	probeLines    = 20  // by which it is seen whether a choice still holds
	rechooseLines = 100 // by which another is found
)

// A form is how records are read.
type form struct{ envelope, format string }

func formOf(c *request.Choice) form { return form{c.Envelope, c.Format} }

// unknown says whether something has to be found out of how records are read.
func (in *intake) unknown() bool { return in.config.Envelope == "auto" || in.config.Format == "auto" }

// firstForm is how records are read to begin with; ok is false when nothing can be read yet. Where only the envelope
// has to be found out, lines are read that are in none.
func (in *intake) firstForm() (f form, ok bool) {
	if in.unknown() {
		return form{"none", in.config.Format}, in.config.Format != "auto"
	}
	return form{in.config.Envelope, in.config.Format}, true
}

// beginReading makes the decoder that the stream begins with, if there is one.
func (s *stream) beginReading() {
	f, ok := s.firstForm()
	if ok && s.read(f) == nil { // newIntake has seen to the fault; or the format goes with an envelope only
		s.learned = !s.unknown()
	}
}

// read reads records in a form from now on. The decoder that does so already stays: it may hold a part of a line.
func (s *stream) read(f form) error {
	if s.decoder != nil && s.form == f {
		return nil
	}
	decoder, err := request.NewDecoder(f.envelope, f.format, s.config.Options)
	if err != nil {
		return err
	}
	s.decoder, s.form = decoder, f
	s.want()
	return nil
}

// learn finds out what the records look like from the first of them, where that is not configured; like is a choice to
// be taken if it reads most of them. Until it succeeds records are counted as unread, or are read as lines in no
// envelope where the format is known. It gives back what was chosen.
func (s *stream) learn(sample []string, like *request.Choice) *request.Choice {
	if s.learned || len(sample) == 0 {
		return like
	}
	if like != nil && s.allows(like) && s.readsMost(like, sample) && s.read(formOf(like)) == nil {
		s.learned = true
		return like
	}

	choice, err := request.Choose(s.config.Envelope, s.config.Format, sample, s.config.Options)
	if choice.Format != "" && choice.Sure() {
		err = s.read(formOf(&choice))
	} else if s.decoder != nil || errors.Is(err, request.ErrNoRequest) {
		return like
	}
	if err != nil {
		s.trouble("format", fmt.Errorf("finding out the format of %s: %w", s.log, err))
		return like
	}

	s.learned = true
	s.mended("format")
	s.choice.Store(&choice)
	if !s.found[s.form] {
		s.found[s.form] = true
		s.logger.Info("found out the format", "log", s.log, "format", choice.String())
	}

	return &choice
}

// relearn is learn for records of which each lot may have another form: like holds as long as it reads most of the
// first of a lot, and while nothing else reads most of it. sample gives the first of the lot.
func (s *stream) relearn(sample func(most int) []string, like *request.Choice) *request.Choice {
	if !s.unknown() || like != nil && s.readsMost(like, sample(probeLines)) {
		return like
	}
	most := learnLines
	if like != nil {
		most = rechooseLines
	}
	s.learned = false
	if choice := s.learn(sample(most), nil); choice != nil {
		return choice
	}
	return like
}

// allows says whether a choice, which may have been made under another configuration, goes with this one.
func (in *intake) allows(choice *request.Choice) bool {
	return (in.config.Envelope == "auto" || in.config.Envelope == choice.Envelope) && (in.config.Format == "auto" || in.config.Format == choice.Format)
}

// readsMost says whether a choice reads at least half of a sample.
func (s *stream) readsMost(choice *request.Choice, sample []string) bool {
	return choice.Holds(s.config.Format, sample, s.config.Options)
}

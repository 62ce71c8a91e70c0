package offline

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/internal/logfile"
	"weir/pkg/backtest"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// A parseCommand contains the flags of `weir parse`.
type parseCommand struct {
	read   command.Reading
	rules  []string
	geoip  geoipFlag
	output command.Output

	options request.Options
	client  *request.Client
	set     *rule.Set   // nil without --rules
	judge   *rule.Judge // of set
	writer  *lineWriter
}

func newParse() *cobra.Command {
	p := &parseCommand{}
	c := &cobra.Command{
		Use:   "parse [flags] FILE...|-",
		Short: "Show the fields of each line, and the rules that it would hit",
		Long: `Parse shows the fields of each line, or why it was not read. With --rules it also shows the rules that the line hits,
with the key and the cost, and the reason why it does not hit the others.`,
		Example: `  weir parse access.log
  tail -n 20 /var/log/nginx/access.log | weir parse --rules rules.yaml -
  weir parse --format '$remote_addr [$time_local] "$request"' --json access.log`,
		Args: command.Files,
		RunE: func(c *cobra.Command, files []string) error { return p.run(c, files) },
	}

	p.read.Add(c)
	p.geoip.add(c)
	c.Flags().StringArrayVar(&p.rules, "rules", nil, "read rules from `FILE`, or a glob; may be repeated")
	p.output.Add(c, "text", "json", "plain")
	return c
}

func (p *parseCommand) run(c *cobra.Command, files []string) error {
	if err := p.prepare(c); err != nil {
		return err
	}
	out := bufio.NewWriter(c.OutOrStdout())
	p.writer = newLineWriter(out, p.output.Form)
	for _, file := range files {
		if err := p.file(c, file); err != nil {
			return errors.Join(out.Flush(), fmt.Errorf("%s: %w", file, err))
		}
	}

	p.writer.end()
	if err := out.Flush(); err != nil {
		return err
	}
	return p.writer.outcome()
}

func (p *parseCommand) prepare(c *cobra.Command) error {
	if p.output.Form == "plain" && len(p.rules) == 0 {
		return exit.Wrongf("-o plain shows the keys of rules; add --rules rules.yaml")
	}

	var err error
	if p.options, err = p.read.Options(); err != nil {
		return err
	}
	if p.client, err = p.read.Client(); err != nil {
		return err
	}

	if len(p.rules) > 0 {
		databases, err := p.geoip.open(nil)
		if err != nil {
			return err
		}
		if p.set, err = loadRules(c, databases, p.rules...); err != nil {
			return err
		}
		p.judge = p.set.NewJudge()
	}

	return nil
}

// file reads one input to its end. It flushes the output whenever no more input is waiting, so that a log can be followed
// through a pipe.
func (p *parseCommand) file(c *cobra.Command, name string) error {
	input := backtest.Input{Path: name}
	if name == "-" {
		input.Path, input.Reader = "standard input", c.InOrStdin()
	}

	source, err := backtest.Open(c.Context(), input)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // it was only read
	lines := bufio.NewReaderSize(source, 1<<20)
	if _, err := lines.Peek(1); errors.Is(err, io.EOF) {
		p.writer.empty(input.Path)
		return nil
	}

	decoder, err := p.decoder(input.Path, lines)
	if err != nil {
		return err
	}

	for number := 1; ; number++ {
		text, fits, err := nextLine(lines, number == 1)
		switch {
		case !fits:
			// Show a line that is too long to be parsed.
			p.writer.write(&line{Input: input.Path, Line: number, Unread: "long",
				Why: fmt.Sprintf("the line is longer than %d MiB", logfile.MaxLine>>20), Sample: request.Sample(text)})
		case text != "":
			p.line(decoder, strings.TrimRight(text, "\r\n"), input.Path, number)
		}

		if errors.Is(err, io.EOF) {
			return nil
		}
		// The next read may wait, so the lines so far are shown first.
		if err == nil && lines.Buffered() == 0 {
			err = p.writer.out.Flush()
		}
		if err != nil {
			return err
		}
	}
}

// nextLine reads a line with its end, without a byte order mark and the like. Of a line that is too long it returns the
// beginning, and fits is false.
func nextLine(lines *bufio.Reader, first bool) (text string, fits bool, err error) {
	var line []byte
	for fits = true; ; {
		part, err := lines.ReadSlice('\n')
		if fits {
			line = logfile.Line(append(line, part...), first)
			fits = len(bytes.TrimSuffix(line, []byte{'\n'})) <= logfile.MaxLine
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return string(line), fits, err
		}
	}
}

// decoder detects the format by the lines that have come so far.
func (p *parseCommand) decoder(input string, lines *bufio.Reader) (*request.Decoder, error) {
	if _, err := lines.Peek(1); err != nil {
		return nil, err
	}
	// Wait for at least one complete line, and no longer, so that a slow pipe is shown at once.
	head, err := lines.Peek(lines.Buffered())
	for err == nil && bytes.IndexByte(head, '\n') < 0 && len(head) < lines.Size() {
		if head, err = lines.Peek(len(head) + 1); err == nil {
			head, err = lines.Peek(lines.Buffered())
		}
	}

	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	sample := string(logfile.Line(head, true))
	if end := strings.LastIndexByte(sample, '\n'); end >= 0 {
		sample = sample[:end] // the last line may not be complete yet
	}

	choice, err := request.Choose(p.read.Envelope, p.read.Format, strings.Split(sample, "\n"), p.options)
	if err != nil && p.read.Format != "auto" {
		choice, err = request.Choice{Envelope: "none", Format: p.read.Format}, nil // each line then shows why it is not read
	}
	if errors.Is(err, request.ErrNoRequest) {
		return nil, errors.New("no line has a request, so the format cannot be detected; name it with --format")
	}
	if err != nil {
		return nil, err
	}

	p.writer.choice(input, choice)
	return request.NewDecoder(choice.Envelope, choice.Format, p.options)
}

// line shows one line, with all its requests when there are several.
func (p *parseCommand) line(decoder *request.Decoder, text, input string, number int) {
	decoder.DecodeEach(text, func(r *request.Request, err error) {
		l := &line{Input: input, Line: number, text: text}
		if err != nil {
			l.fail(err)
		} else {
			l.Proxy = p.client.Resolve(r)
			l.fill(r)
			p.judged(l, r)
		}
		p.writer.write(l)
	})
}

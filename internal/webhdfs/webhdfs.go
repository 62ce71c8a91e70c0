// Package webhdfs lists and reads the files of an HDFS, over WebHDFS. It knows no Kerberos: a user is only named.
//
// A file is known by the number of its inode, which no other file gets, under whatever name it is. It is opened at the
// length that the name node has for it, so lines that are added meanwhile are not read in part. A file that is being
// written is read by OpenFrom only, up to what its data nodes show of it: the name node learns of that only now and then.
//
// Bounds. An answer of a name node has at most 16 MiB, and 100,000 files and folders. A listing has at most 1,000,000 files and folders, 64 deep. A call
// whose server sends nothing for 30 s ends with an error. A redirect is followed once, to a data node's WebHDFS, with the
// scheme of the name node; nothing of ours is sent there.
//
// A method starts no goroutine that outlives it. A Files is used by one goroutine at a time.
package webhdfs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"weir/internal/bucket"
)

const (
	answerMost   = 16 << 20
	deepest      = 64
	longestPath  = 32_000 // bytes; HDFS has paths of up to 8,000 characters
	longestError = 300
	root         = "/webhdfs/v1"
)

// Tests lower them.
var (
	patience  = 30 * time.Second
	mostFiles = 1_000_000
)

// Options name files.
type Options struct {
	URLs []string // of all name nodes, http://host:9870; one is active
	Path string   // a folder, or a pattern: * within a name, ** for folders
	User string   // empty: the server's own
}

// Files are the files of a path.
type Files struct {
	options Options
	pattern pattern
	active  int // of the URLs
	client  *http.Client
}

// New names files. It does not connect yet.
func New(o Options) (*Files, error) {
	pattern, err := parsePattern(o.Path)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout, transport.DisableCompression = patience, true
	return &Files{options: o, pattern: pattern, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, err
}

// A status is a file or a folder as the name node has it.
type status struct {
	Name     string `json:"pathSuffix"` // empty where the file itself was asked for
	Kind     string `json:"type"`
	ID       int64  `json:"fileId"`
	Length   int64  `json:"length"`
	Modified int64  `json:"modificationTime"` // Unix ms
}

// mostAtOnce bounds how many a name node lists in an answer (dfs.ls.limit, by default 1,000).
const mostAtOnce = 100_000

type statuses []status

// UnmarshalJSON reads one by one: an empty one has three bytes, and takes much more memory.
func (s *statuses) UnmarshalJSON(text []byte) error {
	in := json.NewDecoder(bytes.NewReader(text))
	if _, err := in.Token(); err != nil {
		return err
	}
	for in.More() {
		if len(*s) == mostAtOnce {
			return fmt.Errorf("it has more than %d files and folders", mostAtOnce)
		}
		*s = append(*s, status{})
		if err := in.Decode(&(*s)[len(*s)-1]); err != nil {
			return err
		}
	}
	return nil
}

func (s *status) object(at string) bucket.Object {
	return bucket.Object{
		Key: at, ID: strconv.FormatInt(s.ID, 10), ETag: fmt.Sprintf("%d-%d", s.Length, s.Modified),
		Size: s.Length, Modified: time.UnixMilli(s.Modified),
	}
}

// Look makes sure that there is the folder, and that it can be listed.
func (f *Files) Look(ctx context.Context, _ string) error {
	_, _, err := f.list(ctx, f.pattern.base, "")
	return err
}

// List calls each for every file.
func (f *Files) List(ctx context.Context, _ string, each func(bucket.Object) error) error {
	left := mostFiles
	return f.walk(ctx, f.pattern.base, 0, &left, each)
}

func (f *Files) walk(ctx context.Context, folder string, depth int, left *int, each func(bucket.Object) error) error {
	if depth > deepest {
		return fmt.Errorf("%s: the folders are more than %d deep", folder, deepest)
	}
	after := ""
	for {
		some, more, err := f.list(ctx, folder, after)
		switch {
		case errors.Is(err, bucket.ErrMissing) && depth > 0: // it was deleted meanwhile
			return nil
		case err != nil:
			return err
		}
		if *left -= len(some); *left < 0 {
			return fmt.Errorf("%s has more than %d files and folders; name a narrower path", f.options.Path, mostFiles)
		}
		for i := range some {
			s := &some[i]
			if s.Name == "" || s.Name == "." || s.Name == ".." || strings.Contains(s.Name, "/") {
				return fmt.Errorf("the server lists %q in %s, which cannot be", s.Name, folder)
			}
			at := path.Join(folder, s.Name)
			if len(at) > longestPath {
				return fmt.Errorf("the server lists a path of %d bytes in %s, which cannot be", len(at), f.pattern.base)
			}
			switch {
			case strings.HasPrefix(s.Name, ".") || strings.HasPrefix(s.Name, "_"): // Hadoop's own
			case s.Kind == "DIRECTORY" && f.pattern.within(at):
				err = f.walk(ctx, at, depth+1, left, each)
			case s.Kind == "FILE" && f.pattern.matches(at) && s.ID <= 0:
				err = fmt.Errorf("the server gives no number of the inode of %s; name a name node", at)
			case s.Kind == "FILE" && f.pattern.matches(at):
				err = each(s.object(at))
			}
			if err != nil {
				return err
			}
		}
		if !more || len(some) == 0 {
			return nil
		}
		after = some[len(some)-1].Name
	}
}

// list returns some entries of a folder, after one of them.
func (f *Files) list(ctx context.Context, folder, after string) (some []status, more bool, err error) {
	var answer struct {
		DirectoryListing struct {
			Partial struct {
				FileStatuses struct{ FileStatus statuses }
			} `json:"partialListing"`
			Remaining int64 `json:"remainingEntries"`
		}
	}
	query := url.Values{"op": {"LISTSTATUS_BATCH"}}
	if after != "" {
		query.Set("startAfter", after)
	}
	err = f.ask(ctx, folder, query, &answer)
	return answer.DirectoryListing.Partial.FileStatuses.FileStatus, answer.DirectoryListing.Remaining > 0, err
}

// Open opens a file. The error is bucket.ErrUnready while it is being written.
func (f *Files) Open(ctx context.Context, o *bucket.Object) (*bucket.Body, error) {
	at := "/.reserved/.inodes/" + o.ID
	now, open, err := f.state(ctx, at, o)
	if err == nil && open {
		err = bucket.ErrUnready
	}
	if err != nil {
		return nil, err
	}
	return f.transfer(ctx, now, func(ctx context.Context) (*exact, error) {
		return f.read(ctx, at, url.Values{"length": {strconv.FormatInt(now.Size, 10)}}, 0, now.Size)
	})
}

// OpenFrom opens a file at one of its bytes, also while it is being written. Its Size is then what could be read when it
// was opened. The error is bucket.ErrUnready where a file that is being written cannot be read now, as after the end of
// its data node. From the end of a file and behind it, there is nothing to read.
func (f *Files) OpenFrom(ctx context.Context, o *bucket.Object, from int64) (*bucket.Body, error) {
	at := "/.reserved/.inodes/" + o.ID
	now, open, err := f.state(ctx, at, o)
	switch {
	case err != nil:
		return nil, err
	case !open && from >= now.Size:
		return bucket.NewBody(now, http.NoBody, func() {}), nil
	case !open:
		left := now.Size - from
		return f.transfer(ctx, now, func(ctx context.Context) (*exact, error) {
			return f.read(ctx, at, url.Values{"offset": {strconv.FormatInt(from, 10)}, "length": {strconv.FormatInt(left, 10)}}, 0, left)
		})
	}

	now.ETag, now.Size, now.Open = "", from, true
	body, err := f.transfer(ctx, now, func(ctx context.Context) (*exact, error) { return f.read(ctx, at, url.Values{}, from, -1) })
	switch {
	case errors.Is(err, errBehind):
		return bucket.NewBody(now, http.NoBody, func() {}), nil
	case errors.Is(err, bucket.ErrMissing):
		return nil, bucket.ErrGone
	case err != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("%w, and it cannot be read now: %w", bucket.ErrUnready, err)
	case err != nil:
		return nil, err
	}
	return body, nil
}

// state asks whether a file is being written, and then for the file: one that was closed before has the time of that.
func (f *Files) state(ctx context.Context, at string, o *bucket.Object) (now bucket.Object, open bool, err error) {
	var file struct{ FileStatus status }
	var blocks struct {
		LocatedBlocks struct {
			Length  int64 `json:"fileLength"`
			Written bool  `json:"isUnderConstruction"`
		}
	}
	err = f.ask(ctx, at, url.Values{"op": {"GET_BLOCK_LOCATIONS"}}, &blocks)
	if err == nil {
		err = f.ask(ctx, at, url.Values{"op": {"GETFILESTATUS"}}, &file)
	}
	switch {
	case errors.Is(err, bucket.ErrMissing):
		return now, false, bucket.ErrGone
	case err != nil:
		return now, false, err
	case file.FileStatus.Length < 0:
		return now, false, fmt.Errorf("the name node has a length of %d", file.FileStatus.Length)
	}
	file.FileStatus.ID, _ = strconv.ParseInt(o.ID, 10, 64)
	return file.FileStatus.object(o.Key), blocks.LocatedBlocks.Written || blocks.LocatedBlocks.Length != file.FileStatus.Length, nil
}

// transfer begins a transfer.
func (f *Files) transfer(ctx context.Context, now bucket.Object, read func(context.Context) (*exact, error)) (*bucket.Body, error) {
	ctx, cancel := context.WithCancel(ctx)
	hangs := time.AfterFunc(patience, cancel)
	from, err := read(ctx)
	hangs.Stop()
	if err != nil {
		cancel()
		return nil, err
	}
	if now.Open {
		now.Size += from.left
	}
	return bucket.NewBody(now, from, cancel), nil
}

// read returns the bytes of a file, from a data node. With an offset, that is asked of the data node alone, because the
// name node refuses one that is behind the length that it knows; the answer tells how many bytes follow.
func (f *Files) read(ctx context.Context, at string, query url.Values, offset, length int64) (*exact, error) {
	query.Set("op", "OPEN")
	answer, err := f.get(ctx, f.url(at, query))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusTemporaryRedirect {
		if err := fault(answer); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("the name node answers %s in place of a redirect", answer.Status)
	}
	to, err := url.Parse(answer.Header.Get("Location"))
	if err != nil || to.Scheme != answer.Request.URL.Scheme || to.Host == "" || to.User != nil || !strings.HasPrefix(to.Path, root+"/") {
		return nil, errors.New("the name node redirects to a place that is no data node")
	}
	if offset > 0 {
		query := to.Query()
		query.Set("offset", strconv.FormatInt(offset, 10))
		to.RawQuery = query.Encode()
	}
	body, err := f.get(ctx, to.String())
	if err != nil {
		return nil, err
	}
	if body.StatusCode != http.StatusOK {
		defer body.Body.Close()
		if err := fault(body); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("the data node answers %s", body.Status)
	}
	if length < 0 {
		length = body.ContentLength
	}
	if length < 0 {
		_ = body.Body.Close()
		return nil, errors.New("the data node gives no length")
	}
	return &exact{body.Body, length}, nil
}

// exact are as many bytes as a file has.
type exact struct {
	io.ReadCloser
	left int64
}

func (e *exact) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.ReadCloser.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	if errors.Is(err, io.EOF) && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (f *Files) url(at string, query url.Values) string {
	if f.options.User != "" {
		query.Set("user.name", f.options.User)
	}
	to := url.URL{Path: root + at, RawQuery: query.Encode()}
	return strings.TrimSuffix(f.options.URLs[f.active], "/") + to.EscapedPath() + "?" + to.RawQuery
}

func (f *Files) get(ctx context.Context, to string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		return nil, err
	}
	return f.client.Do(request)
}

// ask asks the active name node, or else the next one.
func (f *Files) ask(ctx context.Context, at string, query url.Values, answer any) (err error) {
	for range f.options.URLs {
		err = f.askOne(ctx, f.url(at, query), answer)
		var network *url.Error
		if err == nil || ctx.Err() != nil || !errors.Is(err, errStandby) && !errors.As(err, &network) {
			return err
		}
		f.active = (f.active + 1) % len(f.options.URLs)
	}
	return err
}

func (f *Files) askOne(ctx context.Context, to string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := f.get(ctx, to)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		if err := fault(answer); err != nil {
			return err
		}
		return fmt.Errorf("the name node answers %s", answer.Status)
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, answer.Body, answerMost)).Decode(into); err != nil {
		return fmt.Errorf("the name node's answer: %w", err)
	}
	return nil
}

var (
	errStandby = errors.New("the name node is not the active one")
	errBehind  = errors.New("the offset is behind the end")
)

// fault is the error that an answer describes, if it is one of WebHDFS.
func fault(answer *http.Response) error {
	if answer.StatusCode == http.StatusUnauthorized && strings.Contains(answer.Header.Get("WWW-Authenticate"), "Negotiate") {
		return errors.New("the cluster requires Kerberos, which Weir does not have; copy the files out of it, or read them where they are written")
	}
	var of struct {
		RemoteException struct{ Exception, Message string }
	}
	_ = json.NewDecoder(io.LimitReader(answer.Body, 64<<10)).Decode(&of) // what is no JSON describes nothing
	if of.RemoteException.Exception == "" {
		return nil
	}
	message, _, _ := strings.Cut(of.RemoteException.Message, "\n")
	message = message[:min(len(message), longestError)]
	switch of.RemoteException.Exception {
	case "FileNotFoundException":
		return bucket.ErrMissing
	case "StandbyException", "RetriableException":
		return fmt.Errorf("%w: %s", errStandby, message)
	case "EOFException":
		return fmt.Errorf("%w: %s", errBehind, message)
	case "AccessControlException":
		return fmt.Errorf("the user may not read it: %s", message)
	}
	return fmt.Errorf("%s: %s", of.RemoteException.Exception, message)
}

// Package bucket lists and reads objects of S3, and receives messages of SQS. Its logins are those of package amazon.
//
// Bounds. A page of a listing has 1,000 objects. A call whose server sends nothing for 30 s ends with an error, and so does
// an answer of more than 32 MiB that is no object.
//
// A method starts no goroutine that outlives it. Buckets and queues are used by one goroutine at a time.
package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"weir/internal/amazon"
)

var (
	// ErrMissing means that there is no such bucket.
	ErrMissing = errors.New("it does not exist")
	// ErrGone means that there is no such object.
	ErrGone = errors.New("the object was deleted")
	// ErrArchived means that an object has to be restored from an archive before it can be read.
	ErrArchived = errors.New("the object is in an archive")
	// ErrUnready means that an object is still being written.
	ErrUnready = errors.New("it is being written")
	// ErrUnreadable means that the server gives the object to no one like us: its key is not possible there, or it was
	// encrypted with a key of its writer.
	ErrUnreadable = errors.New("the server cannot give the object")
)

// Options name a server.
type Options = amazon.Options

// Parse reads s3://bucket/prefix.
func Parse(text string) (name, prefix string, err error) {
	rest, ok := strings.CutPrefix(text, "s3://")
	name, prefix, _ = strings.Cut(rest, "/")
	if !ok || name == "" || strings.ContainsAny(name, "@:?#") {
		return "", "", fmt.Errorf("%q is not a place in S3: write s3://bucket/prefix/", text)
	}
	return name, prefix, nil
}

// An Object is an object as a listing has it.
type Object struct {
	Key, ETag string
	ID        string // by which it is known under any key; empty: its key is
	Size      int64
	Modified  time.Time
	Open      bool // it is being written; never set by a bucket or a listing
}

// Identity is what tells the object from others.
func (o *Object) Identity() string { return cmp.Or(o.ID, o.Key) }

// A Bucket is a bucket.
type Bucket struct {
	options Options
	name    string
	client  *s3.Client // nil: it has to be made
}

// New names a bucket. It does not connect yet.
func New(name string, o Options) *Bucket { return &Bucket{options: o, name: name} }

func (b *Bucket) connect(ctx context.Context) (*s3.Client, error) {
	if b.client != nil {
		return b.client, nil
	}
	loaded, err := amazon.Load(ctx, &b.options)
	if err != nil {
		return nil, err
	}
	b.client = s3.NewFromConfig(loaded, func(o *s3.Options) {
		o.UsePathStyle = b.options.Endpoint != "" || loaded.BaseEndpoint != nil
		o.DisableLogOutputChecksumValidationSkipped = true
	})
	return b.client, nil
}

// List calls each for every object whose key begins with a prefix, in the order of their keys. The server encodes the
// keys: XML cannot have every character of them.
func (b *Bucket) List(ctx context.Context, prefix string, each func(Object) error) error {
	client, err := b.connect(ctx)
	if err != nil {
		return err
	}
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix, EncodingType: types.EncodingTypeUrl},
		func(o *s3.ListObjectsV2PaginatorOptions) { o.StopOnDuplicateToken = true })
	more := false
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return b.explain(err, "s3:ListBucket")
		}
		more = aws.ToBool(page.IsTruncated)
		for i := range page.Contents {
			o := &page.Contents[i]
			key := aws.ToString(o.Key)
			if page.EncodingType == types.EncodingTypeUrl {
				if key, err = url.QueryUnescape(key); err != nil {
					return fmt.Errorf("the listing has a key that is not encoded: %w", err)
				}
			}
			if err := each(Object{Key: key, ETag: plain(o.ETag), Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified)}); err != nil {
				return err
			}
		}
	}
	if more {
		return errors.New("the server repeats a page of its listing")
	}
	return nil
}

// plain is an ETag without quotes, as events have it.
func plain(etag *string) string { return strings.Trim(aws.ToString(etag), "\"") }

// Look makes sure that there is the bucket, and that it can be listed.
func (b *Bucket) Look(ctx context.Context, prefix string) error {
	client, err := b.connect(ctx)
	if err != nil {
		return err
	}
	_, err = client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix, MaxKeys: aws.Int32(1), EncodingType: types.EncodingTypeUrl})
	return b.explain(err, "s3:ListBucket")
}

// A Body is an open object.
type Body struct {
	Object
	from   io.ReadCloser
	cancel context.CancelFunc
	stuck  *time.Timer
}

// NewBody is an object that is open. cancel ends its transfer.
func NewBody(o Object, from io.ReadCloser, cancel context.CancelFunc) *Body {
	return &Body{Object: o, from: from, cancel: cancel, stuck: time.AfterFunc(amazon.Patience, cancel)}
}

// Open opens an object.
func (b *Bucket) Open(ctx context.Context, o *Object) (*Body, error) {
	key := o.Key
	client, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key}, func(o *s3.Options) { o.HTTPClient = amazon.Streaming(o.HTTPClient) })
	if err != nil {
		cancel()
		if unprintable(key) && answeredGone(err) {
			return nil, ErrGone
		}
		return nil, b.explain(err, "s3:GetObject")
	}
	return NewBody(Object{Key: key, ETag: plain(out.ETag), Size: aws.ToInt64(out.ContentLength), Modified: aws.ToTime(out.LastModified)}, out.Body, cancel), nil
}

// unprintable reports whether a key has characters that XML cannot have. Then the answer that there is no such object
// cannot be parsed, because it has the key.
func unprintable(key string) bool {
	return strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0xfffe || r == 0xffff })
}

func answeredGone(err error) bool {
	var answer *awshttp.ResponseError
	return errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusNotFound
}

// Read reads.
func (b *Body) Read(p []byte) (int, error) {
	b.stuck.Reset(amazon.Patience)
	defer b.stuck.Stop()
	return b.from.Read(p)
}

// Close ends the transfer.
func (b *Body) Close() error {
	b.stuck.Stop()
	b.cancel()
	return b.from.Close()
}

// explain translates an error. action is the right that the call needs.
func (b *Bucket) explain(err error, action string) error {
	return explain(err, action+" on "+b.name, func() { b.client = nil })
}

// explain translates an error, and adds what can be done about it. It calls refused if the credentials are the cause.
func explain(err error, right string, refused func()) error {
	err = translate(err, right)
	if errors.Is(err, amazon.ErrRefused) {
		refused()
	}
	return err
}

func translate(err error, right string) error {
	var known smithy.APIError
	if !errors.As(err, &known) {
		return err
	}
	switch code := known.ErrorCode(); code {
	case "NoSuchBucket":
		return ErrMissing
	case "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue":
		return errors.New("the queue does not exist")
	case "NoSuchKey":
		return ErrGone
	case "InvalidObjectState":
		return ErrArchived
	case "InvalidRequest", "InvalidURI", "KeyTooLongError", "XMinioInvalidObjectName":
		return fmt.Errorf("%w: %s: %s", ErrUnreadable, code, known.ErrorMessage())
	}
	return amazon.Explain(err, right)
}

// Package bucket lists and reads objects of S3, and receives messages of SQS. It is the one package that knows Amazon's
// SDK. Region, endpoint and credentials are those of the SDK's environment and files, unless Options name them. When the
// server refuses the credentials, they are read again for the next call.
//
// Bounds. A page of a listing has 1,000 objects. A call whose server sends nothing for 30 s ends with an error.
//
// A method starts no goroutine that outlives it. Buckets and queues are used by one goroutine at a time.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

const patience = 30 * time.Second // without a byte

var (
	// ErrMissing means that there is no such bucket.
	ErrMissing = errors.New("it does not exist")
	// ErrGone means that there is no such object.
	ErrGone = errors.New("the object was deleted")
	// ErrArchived means that an object has to be restored from an archive before it can be read.
	ErrArchived = errors.New("the object is in an archive")
	// ErrUnreadable means that the server gives the object to no one like us: its key is not possible there, or it was
	// encrypted with a key of its writer.
	ErrUnreadable = errors.New("the server cannot give the object")
)

// Options name a place.
type Options struct {
	Region   string // empty is the environment's
	Endpoint string // of a server other than Amazon's, as http://host:port; empty is the environment's
}

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
	Size      int64
	Modified  time.Time
}

// A Bucket is a bucket.
type Bucket struct {
	options Options
	name    string
	client  *s3.Client // nil: it has to be made
}

// New names a bucket. It does not connect yet.
func New(name string, o Options) *Bucket { return &Bucket{options: o, name: name} }

// load reads the environment and the files of the SDK.
func load(ctx context.Context, o *Options) (aws.Config, error) {
	transport := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.ResponseHeaderTimeout = patience })
	loaded, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(transport),
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts, r.MaxBackoff = 2, time.Second })
		}))
	if o.Region != "" {
		loaded.Region = o.Region
	}
	if o.Endpoint != "" {
		loaded.BaseEndpoint = aws.String(o.Endpoint)
	}
	if err == nil && loaded.Region == "" {
		err = errors.New("no region is known: set region, or AWS_REGION")
	}
	return loaded, err
}

func (b *Bucket) connect(ctx context.Context) (*s3.Client, error) {
	if b.client != nil {
		return b.client, nil
	}
	loaded, err := load(ctx, &b.options)
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
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix, EncodingType: types.EncodingTypeUrl})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return b.explain(err, "s3:ListBucket")
		}
		for i := range page.Contents {
			o := &page.Contents[i]
			key := aws.ToString(o.Key)
			if page.EncodingType == types.EncodingTypeUrl {
				if key, err = url.QueryUnescape(key); err != nil {
					return fmt.Errorf("the listing has a key that is not encoded: %w", err)
				}
			}
			if err := each(Object{key, plain(o.ETag), aws.ToInt64(o.Size), aws.ToTime(o.LastModified)}); err != nil {
				return err
			}
		}
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

// Open opens an object.
func (b *Bucket) Open(ctx context.Context, key string) (*Body, error) {
	client, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key})
	if err != nil {
		cancel()
		if unprintable(key) && answeredGone(err) {
			return nil, ErrGone
		}
		return nil, b.explain(err, "s3:GetObject")
	}
	return &Body{
		Object: Object{key, plain(out.ETag), aws.ToInt64(out.ContentLength), aws.ToTime(out.LastModified)},
		from:   out.Body, cancel: cancel, stuck: time.AfterFunc(patience, cancel),
	}, nil
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
	b.stuck.Reset(patience)
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

var errRefused = errors.New("the server refuses the credentials")

// explain translates an error, and adds what can be done about it. It calls refused if the credentials are the cause.
func explain(err error, right string, refused func()) error {
	err = translate(err, right)
	if errors.Is(err, errRefused) {
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
	case "AccessDenied", "AccessDeniedException", "Forbidden":
		return fmt.Errorf("%w (%s): an administrator permits %s", errRefused, code, right)
	case "ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidClientTokenId", "SignatureDoesNotMatch", "InvalidToken", "TokenRefreshRequired":
		return fmt.Errorf("%w (%s); they are read again from the environment and the files", errRefused, code)
	default:
		return fmt.Errorf("%s: %s", code, known.ErrorMessage())
	}
}

// CheckEndpoint checks the address of a server.
func CheckEndpoint(text string) error {
	at, err := url.Parse(text)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil {
		return fmt.Errorf("%q is not the address of a server: write https://host:port", strings.ReplaceAll(text, "@", "…"))
	}
	return nil
}

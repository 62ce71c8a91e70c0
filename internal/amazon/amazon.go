// Package amazon has what the clients of Amazon's services share: region, endpoint and credentials, which are those of
// the SDK's environment and files unless Options name them, and the words for the server's errors. When the server
// refuses the credentials, their client is made again for the next call, which reads them again.
//
// A call whose server sends nothing for 30 s ends with an error. So does an answer of more than 32 MiB, or of
// about half a million values.
package amazon

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
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
)

// Patience is how long a server may send nothing.
const Patience = 30 * time.Second

// Options name a server.
type Options struct {
	Region   string // empty is the environment's
	Endpoint string // of a server other than Amazon's, as http://host:port; empty is the environment's
}

// Load reads the environment and the files of the SDK.
func Load(ctx context.Context, o *Options) (aws.Config, error) {
	transport := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.ResponseHeaderTimeout, t.MaxIdleConnsPerHost = Patience, t.MaxIdleConns // the calls of many shards come together
	})
	loaded, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(transport),
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts, r.MaxBackoff = 2, time.Second })
		}))
	if client, ok := loaded.HTTPClient.(*awshttp.BuildableClient); ok { // with the certificates of the environment
		loaded.HTTPClient = bounded{&http.Client{Transport: client.GetTransport(), CheckRedirect: follow}, false}
	}
	loaded.Logger = logging.Nop{}
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

// Bounds of an answer. A value takes some hundred bytes of memory: the SDK makes objects of all.
const (
	mostAnswer = 32 << 20
	mostValues = 1 << 19 // by the characters before or between them; real answers have some ten thousand
)

var errValues = errors.New("the answer has too many values")

// bounded bounds answers: the SDK keeps all of them in memory.
type bounded struct {
	aws.HTTPClient
	streams bool // those of success are read piece by piece
}

// Do sends a request.
func (b bounded) Do(r *http.Request) (*http.Response, error) {
	answer, err := b.HTTPClient.Do(r)
	if err == nil && (!b.streams || answer.StatusCode/100 != 2) {
		answer.Body = &counted{ReadCloser: http.MaxBytesReader(nil, answer.Body, mostAnswer)}
	}
	return answer, err
}

// A counted body ends at too many values. Characters in texts do not count: those who write records choose them.
type counted struct {
	io.ReadCloser
	first   byte // of the body, after white space: JSON begins with { or [
	within  bool // a text of JSON, or a tag of XML
	escaped bool // so is the next character of a text
	values  int
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	for _, one := range b[:n] {
		c.see(one)
	}
	if c.values > mostValues {
		return 0, errValues
	}
	return n, err
}

func (c *counted) see(one byte) {
	if c.first == 0 && strings.IndexByte(" \t\r\n", one) < 0 {
		c.first = one
	}
	switch json := c.first == '{' || c.first == '['; {
	case c.escaped:
		c.escaped = false
	case json && one == '"':
		c.within = !c.within
	case json && c.within:
		c.escaped = one == '\\'
	case json && (one == '{' || one == '[' || one == ','):
		c.values++
	case json:
	case one == '<':
		c.within = true
		c.values++
	case one == '>':
		c.within = false
	case one == '=' && c.within:
		c.values++
	}
}

// Streaming is the client of a call whose answer is read piece by piece, which may have any length.
func Streaming(client aws.HTTPClient) aws.HTTPClient {
	if b, ok := client.(bounded); ok {
		b.streams = true
		return b
	}
	return client
}

const mostRedirects = 10

// follow follows redirects that keep the method of a call, and stay at its server: calls have signatures and tokens. The SDK
// follows any number of them.
func follow(r *http.Request, via []*http.Request) error {
	keeps := r.Response.StatusCode == http.StatusTemporaryRedirect || r.Response.StatusCode == http.StatusPermanentRedirect
	if !keeps || r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme || len(via) > mostRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

// ErrRefused means that the server refuses the credentials, or that they lack a right.
var ErrRefused = errors.New("the server refuses the credentials")

// Explain says what can be done about an error of any service. right is what the call needs.
func Explain(err error, right string) error {
	var known smithy.APIError
	if !errors.As(err, &known) {
		return err
	}
	switch code := known.ErrorCode(); code {
	case "AccessDenied", "AccessDeniedException", "Forbidden":
		return fmt.Errorf("%w (%s): an administrator permits %s", ErrRefused, code, right)
	case "ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException",
		"SignatureDoesNotMatch", "InvalidSignatureException", "IncompleteSignatureException", "InvalidToken", "TokenRefreshRequired":
		return fmt.Errorf("%w (%s); they are read again from the environment and the files", ErrRefused, code)
	default:
		return fmt.Errorf("%s: %s", code, known.ErrorMessage())
	}
}

// CheckEndpoint checks the address of a server.
func CheckEndpoint(text string) error {
	at, err := url.Parse(text)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil {
		return fmt.Errorf("%q is not the address of a server: write https://host:port", text)
	}
	return nil
}

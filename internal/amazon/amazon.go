// Package amazon has what the clients of Amazon's services share: region, endpoint and credentials, which are those of
// the SDK's environment and files unless Options name them, and the words for the server's errors. When the server
// refuses the credentials, their client is made again for the next call, which reads them again.
//
// A call whose server sends nothing for 30 s ends with an error. So does an answer of more than 32 MiB.
package amazon

import (
	"context"
	"errors"
	"fmt"
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

const mostAnswer = 32 << 20

// bounded bounds the bytes of answers: the SDK keeps all of them in memory.
type bounded struct {
	aws.HTTPClient
	streams bool // those of success are read piece by piece
}

// Do sends a request.
func (b bounded) Do(r *http.Request) (*http.Response, error) {
	answer, err := b.HTTPClient.Do(r)
	if err == nil && (!b.streams || answer.StatusCode/100 != 2) {
		answer.Body = http.MaxBytesReader(nil, answer.Body, mostAnswer)
	}
	return answer, err
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
		return fmt.Errorf("%q is not the address of a server: write https://host:port", strings.ReplaceAll(text, "@", "…"))
	}
	return nil
}

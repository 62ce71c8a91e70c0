package ask

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/live"
	"weir/internal/origin"
	"weir/internal/regular"
	"weir/internal/yamlfile"
)

// A Flags selects the enforcer that a command asks.
type Flags struct {
	Live    live.Flags
	url     string
	keyFile string
}

// Add adds the flags to a command.
func (f *Flags) Add(c *cobra.Command) {
	f.Live.Add(c)
	c.Flags().StringVar(&f.url, "url", "", "ask the enforcer at `URL` (default $WEIR_URL, ~/.config/weir/client.yaml, then the one on this machine)")
	c.Flags().StringVar(&f.keyFile, "key-file", "", "send the API key in `FILE` (default $WEIR_KEY_FILE; the enforcer's socket needs none)")
}

// A place is an address at which an enforcer may listen.
type place struct {
	url    string // without the path of an endpoint
	socket string // the unix socket to connect to; empty means TCP
	named  string // where it was named: --url, WEIR_URL, a file
}

func (p place) String() string {
	if p.socket != "" {
		return p.socket + " (" + p.named + ")"
	}
	return p.url + " (" + p.named + ")"
}

// A clientFile is the content of ~/.config/weir/client.yaml.
type clientFile struct {
	path    string
	URL     string `yaml:"url"`
	KeyFile string `yaml:"key_file"` // relative to the file
	CA      string `yaml:"ca"`       // roots besides the system's, relative to the file
	Cert    string `yaml:"cert"`     // our certificate, for servers that require one
	CertKey string `yaml:"cert_key"` // the certificate's key; both relative to the file
}

func readClientFile() (*clientFile, error) {
	file := &clientFile{}
	home, _ := os.UserHomeDir()
	if home == "" {
		return file, nil
	}

	file.path = filepath.Join(home, ".config", "weir", "client.yaml")
	data, err := regular.ReadFile(file.path)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return nil, err
	}
	if faults := yamlfile.Decode(file.path, data, file); len(faults) > 0 {
		return nil, faults
	}

	for _, path := range []*string{&file.KeyFile, &file.CA, &file.Cert, &file.CertKey} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(filepath.Dir(file.path), *path)
		}
	}

	return file, nil
}

// Connect makes a client for the enforcer that is named by a flag, the environment or the user's file, in this order.
// Without any of these the client uses the enforcer on this machine. Connect itself sends nothing.
func (f *Flags) Connect() (*Enforcer, error) {
	file, err := readClientFile()
	if err != nil {
		return nil, err
	}

	places, err := f.places(file)
	if err != nil {
		return nil, err
	}

	key, err := f.key(file, places[0])
	if err != nil {
		return nil, err
	}
	return newEnforcer(places, key, file)
}

func (f *Flags) places(file *clientFile) ([]place, error) {
	for _, p := range []place{
		{url: f.url, named: "--url"},
		{url: os.Getenv("WEIR_URL"), named: "WEIR_URL"},
		{url: file.URL, named: file.path},
	} {
		if p.url == "" {
			continue
		}
		switch _, err := origin.Server(p.url); {
		case errors.Is(err, origin.ErrUser):
			return nil, exit.Wrongf("%s: %w", p.named, err)
		case err != nil:
			return nil, exit.Wrongf("%s: %q is not the URL of an enforcer; write it as https://enforcer.example:7421", p.named, p.url)
		}

		return []place{p}, nil
	}

	settings, err := f.Live.LoadButRules()
	if err != nil {
		return nil, err
	}
	return localPlaces(settings)
}

// localPlaces returns the enforcer's socket and its address on this machine.
func localPlaces(settings *config.Config) ([]place, error) {
	e := &settings.Enforcer
	var places []place
	if e.Socket != "" {
		places = append(places, place{url: "http://weir", socket: e.Socket, named: "enforcer.socket"})
	}

	const system = "/var/lib/weir"
	if home, err := os.UserHomeDir(); err == nil && settings.Data == filepath.Join(home, ".local", "state", "weir") {
		// The data folder is the default of a user; a service's default is another one.
		places = append(places, place{url: "http://weir", socket: filepath.Join(system, filepath.Base(e.Socket)), named: "a service's socket"})
	}

	if e.Listen != "" {
		places = append(places, place{url: e.TLS.URL(e.Listen), named: "enforcer.listen"})
	}

	if len(places) == 0 {
		return nil, exit.Wrongf("the enforcer of the configuration does not listen; name one with --url")
	}
	return places, nil
}

// Own makes a client for the enforcer of this process, by its socket if it has one.
func Own(settings *config.Config) (*Enforcer, error) {
	var places []place
	if e := &settings.Enforcer; e.Socket != "" {
		places = append(places, place{url: "http://weir", socket: e.Socket, named: "enforcer.socket"})
	} else {
		places = append(places, place{url: e.TLS.URL(e.Listen), named: "enforcer.listen"})
	}
	return newEnforcer(places, "", &clientFile{})
}

// SharedKey returns the API key that --key-file or the environment names, for the parts next to the enforcer.
func (f *Flags) SharedKey() (string, error) { return f.key(&clientFile{}, place{}) }

// key returns the API key to send. The key of the user's file goes only to the URL in that file and to this machine.
func (f *Flags) key(file *clientFile, first place) (string, error) {
	path := cmp.Or(f.keyFile, os.Getenv("WEIR_KEY_FILE"))
	if path == "" && first.named != "--url" && first.named != "WEIR_URL" {
		path = file.KeyFile
	}
	if path == "" {
		return "", nil
	}

	key, err := ReadKey(path)
	if err != nil {
		return "", exit.Wrongf("reading the API key: %w", err)
	}
	return key, nil
}

// ErrNoEnforcer means that no place answers.
var ErrNoEnforcer = errors.New("no enforcer answers")

// noneAnswers returns an error that lists the places that were tried.
func noneAnswers(tried []string) error {
	return fmt.Errorf("%w. Tried %s. Start one (weir run, or enforcer), or name one: --url https://HOST:7421 --key-file FILE", ErrNoEnforcer, strings.Join(tried, "; "))
}

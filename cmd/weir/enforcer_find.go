package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/internal/yamlfile"
)

// An enforcerFlags is which enforcer a command asks.
type enforcerFlags struct {
	live    liveFlags
	url     string
	keyFile string
}

func (f *enforcerFlags) add(c *cobra.Command) {
	f.live.add(c)
	c.Flags().StringVar(&f.url, "url", "", "ask the enforcer at `URL` (default $WEIR_URL, ~/.config/weir/client.yaml, then the one on this machine)")
	c.Flags().StringVar(&f.keyFile, "key-file", "", "show it the API key in `FILE` (default $WEIR_KEY_FILE; on its socket none is needed)")
}

// An enforcerPlace is where an enforcer may be.
type enforcerPlace struct {
	url    string // of what stands before the paths
	socket string // the unix socket to connect to; empty is TCP
	named  string // by whom: --url, WEIR_URL, a file
}

func (p enforcerPlace) String() string {
	if p.socket != "" {
		return p.socket + " (" + p.named + ")"
	}
	return p.url + " (" + p.named + ")"
}

// A clientFile is what ~/.config/weir/client.yaml says.
type clientFile struct {
	path    string
	URL     string `yaml:"url"`
	KeyFile string `yaml:"key_file"` // relative to the file
	CA      string `yaml:"ca"`       // roots besides the system's, relative to the file
	Cert    string `yaml:"cert"`     // our certificate, for who asks for one, and
	CertKey string `yaml:"cert_key"` // its key; relative to the file
}

func readClientFile() (*clientFile, error) {
	file := &clientFile{}
	home, _ := os.UserHomeDir()
	if home == "" {
		return file, nil
	}

	file.path = filepath.Join(home, ".config", "weir", "client.yaml")
	data, err := os.ReadFile(file.path)
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

// connect makes a client of the enforcer that is named first: by flags, by the environment, by the user's file; where
// none is, of those on this machine. Nothing is asked as yet.
func (f *enforcerFlags) connect() (*enforcerClient, error) {
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
	return newEnforcerClient(places, key, file)
}

func (f *enforcerFlags) places(file *clientFile) ([]enforcerPlace, error) {
	for _, p := range []enforcerPlace{
		{url: f.url, named: "--url"},
		{url: os.Getenv("WEIR_URL"), named: "WEIR_URL"},
		{url: file.URL, named: file.path},
	} {
		if p.url == "" {
			continue
		}
		at, err := url.Parse(p.url)
		if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
			return nil, wrongf("%s: %q is no URL of an enforcer; write it as https://enforcer.example:7421", p.named, p.url)
		}

		return []enforcerPlace{p}, nil
	}

	settings, err := f.live.loadButRules()
	if err != nil {
		return nil, err
	}
	return localPlaces(settings)
}

// localPlaces are the enforcer's socket, and where it listens.
func localPlaces(settings *config.Config) ([]enforcerPlace, error) {
	e := &settings.Enforcer
	var places []enforcerPlace
	if e.Socket != "" {
		places = append(places, enforcerPlace{url: "http://weir", socket: e.Socket, named: "enforcer.socket"})
	}

	const system = "/var/lib/weir"
	if home, err := os.UserHomeDir(); err == nil && settings.Data == filepath.Join(home, ".local", "state", "weir") {
		// Nothing says where data is: a service has it elsewhere than a user who may not write there.
		places = append(places, enforcerPlace{url: "http://weir", socket: filepath.Join(system, filepath.Base(e.Socket)), named: "a service's socket"})
	}

	if e.Listen != "" {
		scheme := "http"
		if e.TLS.Cert != "" {
			scheme = "https"
		}
		places = append(places, enforcerPlace{url: scheme + "://" + reachable(e.Listen), named: "enforcer.listen"})
	}

	if len(places) == 0 {
		return nil, wrongf("the configuration has no enforcer that listens; name one with --url")
	}
	return places, nil
}

// key is the API key to show. That of the user's file is for the URL there, and for this machine, and for nobody else.
func (f *enforcerFlags) key(file *clientFile, first enforcerPlace) (string, error) {
	path := f.keyFile
	if path == "" {
		path = os.Getenv("WEIR_KEY_FILE")
	}
	if path == "" && first.named != "--url" && first.named != "WEIR_URL" {
		path = file.KeyFile
	}
	if path == "" {
		return "", nil
	}

	key, err := readKey(path)
	if err != nil {
		return "", wrongf("reading the API key: %w", err)
	}
	return key, nil
}

// errNoEnforcer says that none answers.
var errNoEnforcer = errors.New("no enforcer answers")

// noneAnswers is the line that says where it was looked for.
func noneAnswers(tried []string) error {
	text := ""
	for i, one := range tried {
		if i > 0 {
			text += "; "
		}
		text += one
	}
	return fmt.Errorf("%w. Tried %s. Start one (weir run, or enforcer), or name one: --url https://HOST:7421 --key-file FILE", errNoEnforcer, text)
}

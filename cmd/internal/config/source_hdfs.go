package config

import (
	"errors"

	"weir/internal/origin"
	"weir/internal/webhdfs"
	"weir/internal/yamlfile"
)

// HDFS configures a source that reads the files of an HDFS.
type HDFS struct {
	// URL is that of the name node's WebHDFS: http://host:9870, or a list of those of all name nodes; one is active.
	URL Texts `yaml:"url"`
	// Path is a folder, with all that is below it, or a pattern: /logs/**/*.log.
	Path string `yaml:"path"`
	// User is the name that files are read under. Default: the server's (dr.who).
	User string `yaml:"user"`
	// Open reads files that are being written, too. By default, a file is read once it is closed.
	Open bool `yaml:"open"`
}

func (s *HDFS) given() bool { return len(s.URL) > 0 || s.Path != "" }

// Validate checks the URLs and the path.
func (s *HDFS) Validate(v yamlfile.Value) {
	const example = `{url: "http://host:9870", path: /logs/}`
	switch {
	case v.Key("url").Faulty() || v.Key("path").Faulty():
	case len(s.URL) == 0:
		v.Faultf("write hdfs: "+example, "the source names no server")
	case s.Path == "":
		v.Faultf("write hdfs: "+example, "the source names no path")
	default:
		if err := webhdfs.CheckPath(s.Path); err != nil {
			v.Key("path").Fault(err)
		}
	}
	for i, text := range s.URL {
		switch _, err := origin.Server(text); {
		case errors.Is(err, origin.ErrUser):
			v.Key("url").Fault(err)
		case err != nil:
			v.Key("url").Faultf("write http://host:9870", "%q is not the URL of a name node", s.URL[i])
		default:
			warnPlain(v.Key("url"), text, nil)
		}
	}
}

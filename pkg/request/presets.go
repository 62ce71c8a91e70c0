package request

// A preset is a format that is known by name.
type preset struct {
	name   string
	parser func(Options) (Parser, error)
}

var presets = []preset{}

// Presets are the names of all formats that NewParser knows.
func Presets() []string {
	names := make([]string, len(presets))
	for i, p := range presets {
		names[i] = p.name
	}
	return names
}

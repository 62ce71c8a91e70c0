package rule

import _ "embed"

// Schema is the JSON Schema of rules files, for editors.
//
//go:embed schema.json
var Schema []byte

// Package rules has sets of rules that are ready to use: a file of rules each, and next to it a file of its tests.
package rules

import (
	"embed"
	"slices"
	"strings"
)

//go:embed api-quota.yaml crowdsec.yaml downloads.yaml errors.yaml scanners.yaml scrapers.yaml sign-in.yaml sprays.yaml wordpress.yaml
var files embed.FS

const suffix = ".yaml"

// Names are the names of the sets, sorted.
func Names() (names []string) {
	entries, _ := files.ReadDir(".") // it is in the program
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), suffix))
	}
	slices.Sort(names)
	return names
}

// Text is the file of a set; nil if there is no set of that name.
func Text(name string) []byte {
	text, err := files.ReadFile(name + suffix)
	if err != nil {
		return nil
	}
	return text
}

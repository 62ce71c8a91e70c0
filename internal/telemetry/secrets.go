package telemetry

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// shortestSecret is how many bytes a secret has at least that is hidden: a shorter one may be a part of any word.
const shortestSecret = 6

// The secrets that this process has read. Some servers answer with the text that they got: Redis does, where a command
// has no such name there.
var secrets struct {
	mu    sync.Mutex
	files map[string][]string // of each file, the last two: an error may have the one before
	hide  atomic.Pointer[strings.Replacer]
}

// Secret remembers what a file contains, so that no log and no status has it.
func Secret(file, text string) {
	secrets.mu.Lock()
	defer secrets.mu.Unlock()
	last := secrets.files[file]
	if len(text) < shortestSecret || slices.Contains(last, text) {
		return
	}
	if secrets.files == nil {
		secrets.files = map[string][]string{}
	}
	secrets.files[file] = append(last[max(0, len(last)-1):], text)

	var all []string
	for _, texts := range secrets.files {
		all = append(all, texts...)
	}
	secrets.hide.Store(Hiding(all))
}

// Hiding replaces secrets, also where they are quoted or part of a URL.
func Hiding(all []string) *strings.Replacer {
	var forms []string
	for _, one := range all {
		quoted := strconv.Quote(one)
		forms = append(forms, one, quoted[1:len(quoted)-1], url.QueryEscape(one))
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, form := range forms {
		pairs = append(pairs, form, "***")
	}
	return strings.NewReplacer(pairs...)
}

// Hide replaces the secrets that this process has read.
func Hide(text string) string {
	if hide := secrets.hide.Load(); hide != nil {
		return hide.Replace(text)
	}
	return text
}

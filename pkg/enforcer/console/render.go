package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/internal/keytext"
)

//go:embed assets pages
var files embed.FS

// A view is what a page shows.
type view struct {
	Title   string
	Active  string // the page that the navigation marks
	Scripts []string
	Visitor *visitor // nil where no visitor is known
	Notice  string   // what the visitor's last action has done
	Body    any

	// render sets these.
	Assets  string // the beginning of the paths of assets
	Version string
	Console *consoleView
}

// A consoleView is what every page shows of the console.
type consoleView struct {
	Shadow  bool // the enforcer refuses nothing
	Keys    bool // it is possible to log in
	NoList  bool // there is no complete list yet
	Reading bool // only reading is configured
}

// assets are the files that pages refer to, with their compressed bytes. Their path has a hash of all of them, so that
// browsers keep them until they change.
var assets, assetsVersion = func() (map[string]asset, string) {
	all, hash := map[string]asset{}, sha256.New()
	names, _ := fs.Glob(files, "assets/*") // embedded, so it never fails
	for _, name := range names {
		data, _ := files.ReadFile(name)
		hash.Write(data)
		all[path.Base(name)] = asset{data, compressed(data)}
	}
	return all, hex.EncodeToString(hash.Sum(nil))[:16]
}()

type asset struct{ plain, zipped []byte }

func compressed(data []byte) []byte {
	var b bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level exists
	_, _ = zip.Write(data)                                  // a buffer never fails
	_ = zip.Close()
	return b.Bytes()
}

func (c *Console) asset(w http.ResponseWriter, r *http.Request) {
	one, ok := assets[r.PathValue("name")]
	if !ok || r.PathValue("version") != assetsVersion {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(r.PathValue("name"))))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	write(w, r, http.StatusOK, one.plain, func() []byte { return one.zipped })
}

// write answers with bytes, compressed if the client takes that.
func write(w http.ResponseWriter, r *http.Request, status int, plain []byte, zipped func() []byte) {
	w.Header().Add("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		plain = zipped()
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(plain)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(plain) // fails only when the client has gone
	}
}

// templates are the pages by name.
var templates = func() map[string]*template.Template {
	all := map[string]*template.Template{}
	names, _ := fs.Glob(files, "pages/*.html")
	for _, name := range names {
		page := strings.TrimSuffix(path.Base(name), ".html")
		if page == "base" || page == "parts_of" {
			continue
		}
		all[page] = template.Must(template.New("base.html").Funcs(functions).ParseFS(files, "pages/base.html", "pages/parts_of.html", name))
	}
	return all
}()

var functions = template.FuncMap{
	"shown": keytext.Shown, "keyLink": keyLink, "grouped": grouped, "grouped64": func(n int64) string { return grouped(int(n)) }, "sentence": sentence, "plural": plural,
	"empty": func() *row { return &row{} }, // of a template that a script fills
}

// render answers with a page. The page is made completely before its first byte is sent.
func (c *Console) render(w http.ResponseWriter, r *http.Request, status int, name string, v *view) {
	v.Assets, v.Version = root+"assets/"+assetsVersion+"/", c.config.Version
	v.Console = &consoleView{Shadow: !c.config.Refuses(), Keys: c.config.Keys != nil || c.config.Person != nil || c.config.Provider != nil, NoList: !c.config.Set.Whole(), Reading: c.config.ReadOnly}
	if v.Visitor == nil {
		v.Visitor = &visitor{}
	}
	var b bytes.Buffer
	if err := templates[name].Execute(&b, v); err != nil {
		c.faults.Note("page", err)
		http.Error(w, "the page cannot be made; the log has the reason", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	write(w, r, status, b.Bytes(), func() []byte { return compressed(b.Bytes()) })
}

// fail answers with an error page.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, v *visitor, err error) {
	p := problem{}
	if !errors.As(err, &p) {
		p = problem{http.StatusInternalServerError, sentence(err.Error())}
	}
	c.render(w, r, p.status, "problem", &view{Title: http.StatusText(p.status), Visitor: v, Body: p.text})
}

// sentence makes a message a sentence.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[size:]
	if strings.ContainsAny(text[len(text)-1:], ".!?") {
		return text
	}
	return text + "."
}

// grouped writes a number with commas.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// percent writes a part of a whole.
func percent(part, whole int64) string {
	return strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 1, 64) + "%"
}

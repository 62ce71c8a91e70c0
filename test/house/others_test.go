package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Package comments have this sentence where docs/go.md has the package in its table.
const mayBeImported = "Other programs may import this package (docs/go.md)."

func packagesForOthers(t *testing.T) (paths []string) {
	t.Helper()
	for _, row := range regexp.MustCompile("(?m)^\\| `weir/([a-z/]+)` \\|").FindAllStringSubmatch(read(t, "docs/go.md"), -1) {
		paths = append(paths, row[1])
	}
	if len(paths) == 0 {
		t.Fatal("docs/go.md has no table of packages")
	}
	return paths
}

func TestPackagesForOtherProgramsSaySo(t *testing.T) {
	named := packagesForOthers(t)
	for _, p := range packages(t) {
		says := false
		for _, file := range sources(t, local(p)) {
			says = says || file.Doc != nil && strings.Contains(strings.Join(strings.Fields(file.Doc.Text()), " "), mayBeImported)
		}
		if says != slices.Contains(named, local(p)) {
			t.Errorf("%s: its comment says that other programs may import it: %v; docs/go.md has it: %v", local(p), says, !says)
		}
	}
}

// A package for other programs has in its exported names no type of a package that these cannot import.
func TestPackagesForOtherProgramsShowNoOthers(t *testing.T) {
	named := packagesForOthers(t)
	for _, path := range named {
		for _, file := range sources(t, path) {
			hidden := map[string]string{} // imports by their names
			for _, spec := range file.Imports {
				imported, _ := strconv.Unquote(spec.Path.Value)
				name := imported[strings.LastIndex(imported, "/")+1:]
				if spec.Name != nil {
					name = spec.Name.Name
				}
				if ours, ok := strings.CutPrefix(imported, "weir/"); ok && !slices.Contains(named, ours) {
					hidden[name] = imported
				}
			}

			for _, shown := range surface(file) {
				ast.Inspect(shown, func(n ast.Node) bool {
					if x, ok := n.(*ast.SelectorExpr); ok {
						if of, ok := x.X.(*ast.Ident); ok && hidden[of.Name] != "" {
							t.Errorf("%s: an exported name shows %s.%s of %s", path, of.Name, x.Sel.Name, hidden[of.Name])
						}
					}
					return true
				})
			}
		}
	}
}

// surface returns the types of a file's exported functions, methods, fields, variables and constants.
func surface(file *ast.File) (shown []ast.Node) {
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type))) {
				shown = append(shown, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				shown = append(shown, surfaceOf(spec)...)
			}
		}
	}
	return shown
}

func surfaceOf(spec ast.Spec) (shown []ast.Node) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		if slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
			shown = append(shown, s)
		}
	case *ast.TypeSpec:
		structure, ok := s.Type.(*ast.StructType)
		switch {
		case !s.Name.IsExported():
		case !ok:
			shown = append(shown, s.Type)
		default:
			for _, field := range structure.Fields.List {
				if len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
					shown = append(shown, field.Type)
				}
			}
		}
	}
	return shown
}

// receiver returns the name of a method's type.
func receiver(expr ast.Expr) string {
	switch x := expr.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// sources parses the files of a package, without its tests.
func sources(t *testing.T, path string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, path, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

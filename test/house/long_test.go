package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// `make long` finds the long tests: each says so in the first statement of a test, and .ci/run runs them too.
func TestLongTestsAreFound(t *testing.T) {
	found := 0
	for _, path := range testFiles(t) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		calls, first := 0, 0
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if saysLong(n) {
					calls++
				}
			case *ast.FuncDecl:
				if strings.HasPrefix(n.Name.Name, "Test") && n.Recv == nil && len(n.Body.List) > 0 {
					if statement, ok := n.Body.List[0].(*ast.ExprStmt); ok && saysLong(statement.X) {
						first++
					}
				}
			}
			return true
		})
		found += first
		if calls != first {
			t.Errorf("%s: %d calls of Long, and %d of them are the first statement of a test: make long does not find the others", path, calls, first)
		}
	}
	if found == 0 {
		t.Error("no test is long")
	}
	if !strings.Contains(read(t, ".ci/run"), "export WEIR_LONG=1 ") {
		t.Error(".ci/run does not run the long tests")
	}
}

// saysLong reports whether it is a call of real.Long.
func saysLong(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || function.Sel.Name != "Long" {
		return false
	}
	of, ok := function.X.(*ast.Ident)
	return ok && of.Name == "real"
}

func testFiles(t *testing.T) (paths []string) {
	t.Helper()
	for _, folder := range []string{"cmd", "internal", "pkg", "test"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, "_test.go") {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

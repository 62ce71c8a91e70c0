package guides

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"weir/test/page"
	"weir/test/real"
)

// There is no cluster: install and upgrade render the chart, and the arguments of kubectl and docker must exist.
var cluster = map[string]string{
	"docker": `#!/bin/bash
case "$*" in
"build -f deployments/docker/Dockerfile -t registry.example/weir:0.1.0 .") [ -f deployments/docker/Dockerfile ] ;;
"push registry.example/weir:0.1.0") ;;
*) echo "docker: no stand-in for $*" >&2; exit 1 ;;
esac
`,
	"kubectl": `#!/bin/bash
set -e
case "$*" in
"create namespace weir") ;;
"-n weir create secret generic weir-keys "*)
	for last in "$@"; do case $last in --from-file=*) [ -s "${last#--from-file=}" ] ;; esac; done ;;
"-n weir exec deploy/weir-enforcer -- weir list --config /etc/weir/weir.yaml") ;;
*) echo "kubectl: no stand-in for $*" >&2; exit 1 ;;
esac
`,
	"helm": `#!/bin/bash
case "$1" in
install | upgrade) shift; exec "$HELM" template --kube-version 1.31.0 "$@" >"$MACHINE/rendered.yaml" ;;
lint) exec "$HELM" "$@" ;;
template) shift; exec "$HELM" template --kube-version 1.31.0 "$@" ;;
esac
exit 1
`,
}

func TestKubernetes(t *testing.T) {
	helm := real.Program(t, "helm", "no package: go install helm.sh/helm/v3/cmd/helm@v3.19.0")
	m := newMachine(t)
	for name, text := range cluster {
		m.write("bin/"+name, text)
	}
	m.must("export HELM=" + helm + "; PATH=$PATH:/opt")
	m.paste("docs/guides/kubernetes.md")
	rendered, err := os.ReadFile(filepath.Join(m.folder, "rendered.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"secretName: weir-keys", "mode: enforce", "image: \"registry.example/weir:0.1.0\"", "mountPath: /etc/weir-secrets"} {
		if !strings.Contains(string(rendered), want) {
			t.Errorf("the chart renders no %q", want)
		}
	}
	if !regexp.MustCompile(`kind: Deployment\nmetadata:\n  name: weir-enforcer\n`).Match(rendered) || !regexp.MustCompile(`kind: Service\nmetadata:\n  name: weir-enforcer\n(?s:.*?)\{name: http, port: 7421,`).Match(rendered) {
		t.Error("the chart renders no enforcer where the page has it")
	}
	logsOfNodes(t, m)
	edges(t)
}

// logsOfNodes checks the source that reads the edge's log on the nodes: it leaves out the logs of all other pods, which
// could name any client.
func logsOfNodes(t *testing.T, m *machine) {
	t.Helper()
	page, err := os.ReadFile("../../docs/guides/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	source := regexp.MustCompile("`\\{file: \\[(/var/log/containers/[^]]*)], envelope: cri, format: ([a-z-]+)}`").FindStringSubmatch(string(page))
	if source == nil {
		t.Fatal("the page has no source for the nodes' logs")
	}

	for name, want := range map[string]bool{
		"ingress-nginx-controller-5d8f_ingress-nginx_controller-0123.log": true,
		"ingress-nginx-controller-5d8f_other_controller-0123.log":         false,
		"shop-5d8f_default_shop-0123.log":                                 false,
	} {
		if ok, err := filepath.Match(source[1], "/var/log/containers/"+name); ok != want || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	m.must(`helm template weir deployments/helm/weir -f ~/weir-k8s/values.yaml --set collector.kind=DaemonSet --set-json 'config.collector.sources=[{"file":["` +
		source[1] + `"],"envelope":"cri","format":"` + source[2] + `"}]' -s templates/config.yaml >"$MACHINE/nodes.yaml" && weir check "$MACHINE/nodes.yaml"`)
}

// edges checks the edges' configuration on the page and in its files: it is YAML, and asks the enforcer's address at a
// path that the enforcer has.
func edges(t *testing.T) {
	t.Helper()
	enforcing, err := os.ReadFile(filepath.Join(root, "docs/enforcing.md"))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, b := range page.Read(t, filepath.Join(root, "docs/guides/kubernetes.md")) {
		if b.Language == "yaml" {
			texts = append(texts, b.Text)
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "deployments/kubernetes/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}

	for _, text := range texts {
		var any map[string]any
		if err := yaml.Unmarshal([]byte(text), &any); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
	shown, text := len(texts), strings.Join(texts, "")
	paths := regexp.MustCompile(`/v1/check/([a-z-]+)`).FindAllStringSubmatch(text, -1)
	if shown != 4 || len(paths) != 3 || strings.Count(text, "7421") != 3 || strings.Count(text, "weir-enforcer") != 3 {
		t.Errorf("%d blocks ask at %q", shown, paths)
	}
	for _, path := range paths {
		if !strings.Contains(string(enforcing), "/"+path[1]+"`") {
			t.Errorf("there are no checks at %s", path[0])
		}
	}
}

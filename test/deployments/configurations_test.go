package deployments

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v4"

	"weir/internal/keys"
)

// weir builds the tool.
func weir(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir")
	run(t, "go", "build", "-o", path, "weir/cmd/weir")
	return path
}

// project reads files of the folder compose, as docker does.
func project(t *testing.T, files ...string) *types.Project {
	t.Helper()
	var paths []string
	for _, file := range files {
		paths = append(paths, filepath.Join(root, "compose", file))
	}
	options, err := cli.NewProjectOptions(paths)
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for name, service := range project.Services {
		for _, volume := range service.Volumes {
			if volume.Type != "bind" {
				continue
			}
			if _, err := os.Stat(volume.Source); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	return project
}

func TestComposeFile(t *testing.T) {
	project(t, "compose.yaml")
	run(t, weir(t), "check", filepath.Join(root, "compose", "weir", "weir.yaml"))
	file, err := keys.Open(filepath.Join(root, "compose", "weir", "keys.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, known := file.Find(strings.TrimSpace(read(t, "compose/weir/key"))); !known {
		t.Error("the key of the compose file is not among its keys")
	}
}

// With a second file the enforcer counts inline rules in a store that comes with it.
func TestComposeFilesOfStores(t *testing.T) {
	tool, file := weir(t), filepath.Join(root, "compose", "weir", "weir.yaml")
	for name, store := range map[string]string{"redis": "redis", "postgres": "postgres", "mysql": "mariadb"} {
		services := project(t, "compose.yaml", "inline-"+name+".yaml").Services
		enforcer := services["enforcer"]
		if needs := enforcer.DependsOn[store]; needs.Condition != types.ServiceConditionHealthy || enforcer.DependsOn["kafka"].Condition == "" {
			t.Errorf("%s: %+v", name, enforcer.DependsOn)
		}
		if services[store].Image == "" || services[store].HealthCheck == nil {
			t.Errorf("%s: there is no service %s with a check", name, store)
		}
		check := exec.Command(tool, "check", file)
		check.Env = os.Environ()
		place := ""
		for key, value := range enforcer.Environment {
			check.Env = append(check.Env, key+"="+*value)
			if strings.Contains(*value, store+":") {
				place = key
			}
		}
		if said, err := check.CombinedOutput(); err != nil || place != "WEIR_INLINE_STORE_"+strings.ToUpper(name) {
			t.Errorf("%s: %s, %v\n%s", name, place, err, said)
		}
	}
}

// The chart lints, and its templates make valid Kubernetes YAML with a valid weir.yaml.
func TestChart(t *testing.T) {
	helm, tool := helm(t), weir(t)
	chart := filepath.Join(root, "helm", "weir")
	for _, values := range []string{"collector.kind=StatefulSet", "collector.kind=DaemonSet", "serviceMonitor.enabled=true", "existingConfigMap=mine", "collector.enabled=false", "networkPolicy.enabled=false",
		"enforcer.grpc.enabled=true", "inline.store.redis=redis://redis:6379/1,inline.budget=50ms", "inline.store.postgres=postgres://db:5432/limits,inline.store.user=weir"} {
		t.Run(values, func(t *testing.T) {
			run(t, helm, "lint", "--strict", "--set", values, chart)
			kinds := map[string]int{}
			for _, object := range rendered(t, run(t, helm, "template", "weir", chart, "--kube-version", "1.31.0", "--set", values)) {
				kinds[object.Kind]++
				object.check(t)
				if object.Kind == "ConfigMap" {
					if said := run(t, tool, "check", write(t, "configmap.yaml", object.text)); strings.Contains(said, "warning:") {
						t.Error(said)
					}
				}
			}
			policies := 3
			switch values {
			case "networkPolicy.enabled=false":
				policies = 0
			case "collector.enabled=false":
				policies = 2
			}
			if kinds["NetworkPolicy"] != policies {
				t.Errorf("%d network policies, want %d", kinds["NetworkPolicy"], policies)
			}
			if kinds["Deployment"] != 2 || kinds["PodDisruptionBudget"] != 2 {
				t.Error(kinds)
			}
			if strings.HasPrefix(values, "collector.kind=") && kinds[strings.TrimPrefix(values, "collector.kind=")] != 1 {
				t.Error(kinds)
			}
			if values == "serviceMonitor.enabled=true" && kinds["ServiceMonitor"] != 1 {
				t.Error(kinds)
			}
		})
	}
}

// Values that make a manifest that cannot work are refused, and others change what depends on them.
func TestValuesOfTheChart(t *testing.T) {
	helm := helm(t)
	template := func(set ...string) (string, error) {
		args := []string{"template", "weir", filepath.Join(root, "helm", "weir"), "--kube-version", "1.31.0"}
		for _, value := range set {
			args = append(args, "--set", value)
		}
		out, err := exec.Command(helm, args...).CombinedOutput()
		return string(out), err
	}

	for remedy, set := range map[string][]string{
		"there can be one aggregator":      {"config.store=disk"},
		"name the brokers of your Kafka":   {"config.kafka.brokers=embedded"},
		"they need a Secret with keys":     {"existingSecret="},
		"probes have no client":            {"config.enforcer.tls.cert=c", "config.enforcer.tls.key=k", "config.enforcer.tls.clients=r"},
		"set enforcer.grpc.enabled":        {"config.enforcer.grpc=0.0.0.0:7422"},
		"write it under inline":            {"config.inline.budget=50ms", "inline.budget=20ms"},
		"write a ServiceMonitor with your": {"config.aggregator.tls.cert=c", "config.aggregator.tls.key=k", "serviceMonitor.enabled=true"},
	} {
		if out, err := template(set...); err == nil || !strings.Contains(out, remedy) {
			t.Errorf("%v: %v\n%s", set, err, out)
		}
	}

	for _, c := range []struct {
		set  string
		want map[string]int // a text, and how often it is there
	}{
		// A collector with 16 partitions of zstd's level 20 takes 600 MB: as much as its unit allows.
		{"collector.replicas=1", map[string]int{"memory: 1Gi": 2}},
		{"mode=any", map[string]int{"scheme: HTTPS": 0, "scheme: HTTP}": 6, "port: 7431, targetPort": 1, "kind: Service\n": 3}},
		{"config.enforcer.tls.cert=c,config.enforcer.tls.key=k", map[string]int{"scheme: HTTPS": 2, "scheme: HTTP}": 4}},
		{"enforcer.service.type=LoadBalancer", map[string]int{"port: 7431, targetPort": 1, "name: weir-enforcer-admin": 1, "kind: Service\n": 4}},
		{"mode=any", map[string]int{"7422": 0, "grpc": 0, "inline:": 0}},
		{"enforcer.grpc.enabled=true", map[string]int{"{name: grpc, containerPort: 7422}": 1, "grpc: 0.0.0.0:7422": 1, "port: 7422, targetPort: grpc, appProtocol: kubernetes.io/h2c}": 1,
			"{protocol: TCP, port: 7422}": 1, "port: admin, scheme": 6}},
		{"enforcer.grpc.enabled=true,enforcer.grpc.port=9000,enforcer.service.type=LoadBalancer", map[string]int{"port: 9000, targetPort: grpc": 1, "containerPort: 7422": 1}},
		{"enforcer.grpc.enabled=true,config.enforcer.tls.cert=c,config.enforcer.tls.key=k", map[string]int{"targetPort: grpc}": 1, "h2c": 0}},
		{"enforcer.grpc.enabled=true,networkPolicy.enabled=false,existingConfigMap=mine", map[string]int{"containerPort: 7422": 1, "{protocol: TCP, port: 7422}": 0}},
		{"inline.store.mysql=tcp(db:3306)/limits,inline.enforcers=2", map[string]int{"mysql: tcp(db:3306)/limits": 1, "enforcers: 2": 1, "inline:": 1}},
		{"config.inline.budget=50ms", map[string]int{"budget: 50ms": 1, "inline:": 1}},
		{"config.store=disk,aggregator.replicas=1", map[string]int{"type: Recreate": 1}},
		{"collector.kind=DaemonSet,collector.hostLogs=/var/log/pods/", map[string]int{"mountPath: /var/log/pods": 1}},
		{"collector.kind=DaemonSet", map[string]int{"mountPath: /var/log/pods": 1, "mountPath: /var/log/containers": 1}},
	} {
		out, err := template(c.set)
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.set, err, out)
		}
		for text, want := range c.want {
			if got := strings.Count(out, text); got != want {
				t.Errorf("%s: %q is there %d times, want %d", c.set, text, got, want)
			}
		}
	}
}

// An object contains the checked fields of a Kubernetes object.
type object struct {
	text       string
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		Template struct {
			Spec struct {
				SecurityContext struct {
					RunAsNonRoot bool `yaml:"runAsNonRoot"`
				} `yaml:"securityContext"`
				Containers []struct {
					Command         []string
					SecurityContext struct {
						ReadOnlyRootFilesystem   bool `yaml:"readOnlyRootFilesystem"`
						AllowPrivilegeEscalation bool `yaml:"allowPrivilegeEscalation"`
						Capabilities             struct{ Drop, Add []string }
					} `yaml:"securityContext"`
					ReadinessProbe struct {
						HTTPGet struct{ Path string } `yaml:"httpGet"`
					} `yaml:"readinessProbe"`
					VolumeMounts []struct{ Name string } `yaml:"volumeMounts"`
				}
				Volumes []struct {
					Name     string
					EmptyDir *struct {
						SizeLimit string `yaml:"sizeLimit"`
					} `yaml:"emptyDir"`
				}
			}
		}
		VolumeClaimTemplates []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
	}
}

func rendered(t *testing.T, text string) (objects []object) {
	t.Helper()
	for _, part := range regexp.MustCompile(`(?m)^---\n`).Split(text, -1) {
		o := object{text: part}
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}
		if o.Kind != "" {
			objects = append(objects, o)
		}
	}
	return objects
}

func (o *object) check(t *testing.T) {
	t.Helper()
	if o.APIVersion == "" || o.Metadata.Name == "" {
		t.Errorf("%s %s has no version or name", o.Kind, o.Metadata.Name)
	}
	pod := &o.Spec.Template.Spec
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit == "" {
			t.Errorf("%s: the folder %s may fill the node's disk", o.Metadata.Name, v.Name)
		}
	}
	if len(pod.Containers) > 0 && !pod.SecurityContext.RunAsNonRoot {
		t.Errorf("%s runs as root", o.Metadata.Name)
	}
	for _, v := range o.Spec.VolumeClaimTemplates {
		volumes[v.Metadata.Name] = true
	}
	for _, c := range pod.Containers {
		if dropped := c.SecurityContext.Capabilities; len(dropped.Add) > 0 || len(dropped.Drop) != 1 || dropped.Drop[0] != "ALL" {
			t.Errorf("%s has capabilities: %+v", o.Metadata.Name, dropped)
		}
		if !c.SecurityContext.ReadOnlyRootFilesystem || c.SecurityContext.AllowPrivilegeEscalation || c.ReadinessProbe.HTTPGet.Path != "/readyz" || len(c.Command) != 1 {
			t.Errorf("%s: %+v", o.Metadata.Name, c)
		}
		if _, err := os.Stat(filepath.Join("../../cmd", c.Command[0])); err != nil {
			t.Error(err)
		}
		for _, mount := range c.VolumeMounts {
			if !volumes[mount.Name] {
				t.Errorf("%s mounts %s, which is no volume", o.Metadata.Name, mount.Name)
			}
		}
	}
}

// The Weir source in the comments of a shipper's file is valid, and names the topic or the port that the shipper writes
// to. Tests of pkg/collector run the shippers that are no YAML.
func TestShippers(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "shippers", "*"))
	if err != nil || len(files) != 10 {
		t.Fatal(files, err)
	}
	tool := weir(t)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var any map[string]any
		if err := yaml.Unmarshal(text, &any); err != nil && filepath.Ext(file) == ".yaml" {
			t.Errorf("%s: %v", file, err)
		}
		ours := regexp.MustCompile(`In weir.yaml: (\{.*\})`).FindSubmatch(text)
		if ours == nil {
			t.Errorf("%s does not say how it is read", file)
			continue
		}
		whole := "kafka: {brokers: [\"kafka:9092\"]}\nrules: [{name: a, key: ip, limits: [1/s]}]\ncollector: {sources: [" + string(ours[1]) + "]}\n"
		run(t, tool, "check", write(t, "weir.yaml", whole))
		if !regexp.MustCompile(`topics?(: |=|\()"?logs\b|127\.0\.0\.1.*[: "](5514|4317)\b`).Match(bytes.ReplaceAll(text, ours[1], nil)) {
			t.Errorf("%s writes to another topic", file)
		}
	}
}

// Without these limits, a client can make a shipper stop or drop lines. So every example has them.
func TestShippersReadLongLines(t *testing.T) {
	limits := map[string][]string{"name: tail": {"buffer_max_size: 16M", "skip_long_lines: on"}, "type: file,": {"max_line_bytes: 16777216"}, "type: file\n": {"max_line_bytes: 16777216"}}
	found := 0
	for _, file := range []string{"shippers/fluent-bit.yaml", "shippers/vector.yaml", "../docs/collecting.md"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for input, wanted := range limits {
			if !strings.Contains(string(text), input) {
				continue
			}
			found++
			for _, limit := range wanted {
				if !strings.Contains(string(text), limit) {
					t.Errorf("%s has %q without %s", file, input, limit)
				}
			}
		}
	}
	if found != 4 {
		t.Errorf("%d examples are found", found)
	}
}

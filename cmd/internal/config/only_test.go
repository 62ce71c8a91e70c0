package config

import "testing"

func TestOnlyAsksTheRecord(t *testing.T) {
	record := map[string]string{"kubernetes.labels.app": "shop", "kubernetes.namespace": "prod", "status": "200"}
	field := func(name string) (string, bool) {
		text, ok := record[name]
		return text, ok
	}
	for only, want := range map[string]bool{
		`kubernetes.labels.app == "shop"`:                                     true,
		`kubernetes.labels["app"] == "shop"`:                                  true,
		`kubernetes.labels.app != "shop"`:                                     false,
		`kubernetes.labels.app == "shop" and kubernetes.namespace == "prod"`:  true,
		`kubernetes.labels.app == "shop" and kubernetes.namespace == "stage"`: false,
		`kubernetes.namespace in ["prod", "stage"]`:                           true,
		`stream == "stdout"`:                                                  false,
		`container?.name == "x"`:                                              false,
		`container.name.first == "x"`:                                         false,
		`status startsWith "2"`:                                               true,
		`status > 3`:                                                          false,
		`int(status) > 3`:                                                     true,
	} {
		wanted, err := (&Source{Only: only}).Wanted()
		if err != nil {
			t.Errorf("%s: %v", only, err)
			continue
		}
		if got := wanted(field); got != want {
			t.Errorf("%s is %v, want %v", only, got, want)
		}
	}
	if wanted, err := (&Source{}).Wanted(); wanted != nil || err != nil {
		t.Error("without an expression something is asked")
	}
}

func TestOnlyNamesTheStream(t *testing.T) {
	for only, want := range map[string]bool{
		``:                                     false,
		`kubernetes.labels.app == "stream"`:    false,
		`stream == "stderr"`:                   true,
		`a == "b" and source in ["stderr"]`:    true,
		`logstream == "stderr"`:                true,
		`log.iostream in ["stderr", "stdout"]`: true,
		`attributes.log.iostream == "stderr"`:  true,
		`stream ==`:                            false,
	} {
		if got := (&Source{Only: only}).NamesStream(); got != want {
			t.Errorf("%q: %v", only, got)
		}
	}
}

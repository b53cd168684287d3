package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// object is a JSON object, its numbers as written.
type object = map[string]any

// noise names, from an object's root, what changes without meaning: counters, times of controllers, logs, and
// lists that repeat what other sources record. Everything else is kept, also what later versions add.
var (
	statusNoise = [][]string{
		{"controllers"},
		{"client-id"},
		{"ipam"},
		{"cluster", "nodes"},
		{"hubble", "observer", "current-flows"},
		{"hubble", "observer", "seen-flows"},
		{"hubble", "observer", "uptime"},
		{"nodeMonitor", "lost"},
		{"nodeMonitor", "unknown"},
		{"encryption", "wireguard", "interfaces", "peers"},
		{"encryption", "ipsec", "error-count"},
		{"encryption", "ipsec", "xfrm-errors"},
		{"encryption", "ipsec", "max-seq-number"},
	}
	endpointNoise = [][]string{
		{"status", "controllers"},
		{"status", "log"},
		{"status", "policy", "proxy-statistics"},
		{"status", "policy", "spec", "allowed-egress-identities"},
		{"status", "policy", "spec", "allowed-ingress-identities"},
		{"status", "policy", "spec", "denied-egress-identities"},
		{"status", "policy", "spec", "denied-ingress-identities"},
		{"status", "policy", "realized", "allowed-egress-identities"},
		{"status", "policy", "realized", "allowed-ingress-identities"},
		{"status", "policy", "realized", "denied-egress-identities"},
		{"status", "policy", "realized", "denied-ingress-identities"},
	}
)

// pruneStatus keeps what `cilium-dbg status -o json` prints less statusNoise. Socket LB coverage is
// kube-proxy-replacement.features.bpfSocketLBHostnsOnly: absent or false is Full, true is Hostns-only.
func pruneStatus(o object) (object, error) {
	if o["kube-proxy-replacement"] == nil && o["cilium"] == nil {
		return nil, errNotAgent
	}
	return quiet(o, statusNoise), nil
}

// pruneConfig makes of /v1/config what `cilium-dbg config --all -o json` prints: the configuration as started
// with, and what was changed since laid over it. It leaves out what is secret.
func pruneConfig(o object) (object, error) {
	status, _ := o["status"].(object)
	config, ok := status["daemonConfigurationMap"].(object)
	if !ok {
		return nil, fmt.Errorf("no status.daemonConfigurationMap: %w", errNotAgent)
	}
	realized, _ := status["realized"].(object)
	maps.Copy(config, realized)
	hideSecrets(config)
	return config, nil
}

func pruneEndpoint(o object) (object, error) { return quiet(o, endpointNoise), nil }

// pruneService keeps the spec; the agent repeats it, word for word, as what is realized.
func pruneService(o object) (object, error) {
	status, _ := o["status"].(object)
	spec, _ := json.Marshal(o["spec"])
	realized, _ := json.Marshal(status["realized"])
	if bytes.Equal(spec, realized) {
		delete(o, "status")
	}
	return o, nil
}

// quiet takes the noise out, and puts every list in one order: the agent fills them from maps.
func quiet(o object, noise [][]string) object {
	for _, path := range noise {
		drop(o, path)
	}
	sortLists(o)
	return o
}

// drop removes the field at the path, in each element where the path goes through a list.
func drop(v any, path []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			drop(e, path)
		}
	case object:
		if len(path) == 1 {
			delete(v, path[0])
			return
		}
		drop(v[path[0]], path[1:])
	}
}

func sortLists(v any) {
	switch v := v.(type) {
	case object:
		for _, e := range v {
			sortLists(e)
		}
	case []any:
		for _, e := range v {
			sortLists(e)
		}
		sortList(v)
	}
}

func sortList(list []any) {
	if len(list) < 2 {
		return
	}
	type item struct {
		text  []byte
		value any
	}
	items := make([]item, len(list))
	for i, v := range list {
		text, _ := encode(v) // what came from JSON can be written as JSON
		items[i] = item{text, v}
	}
	slices.SortFunc(items, func(a, b item) int { return bytes.Compare(a.text, b.text) })
	for i := range items {
		list[i] = items[i].value
	}
}

// decode reads one JSON object.
func decode(data []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var o object
	if err := d.Decode(&o); err != nil {
		return nil, err
	}
	if o == nil {
		return nil, errNotAgent
	}
	return o, nil
}

// encode writes JSON with sorted keys and the characters as they are: equal values give equal bytes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode json: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// resource is one kind of object that the REST API lists.
type resource struct {
	kind  string
	path  string
	split func(body []byte) ([]json.RawMessage, error)
	prune func(object) (object, error)
	key   func(object) (string, error)
}

// resources are in the order in which the first snapshot has them.
var resources = []resource{
	{"status", "/v1/healthz", single, pruneStatus, noKey},
	{"config", "/v1/config", single, pruneConfig, noKey},
	{"endpoint", "/v1/endpoint", splitList, pruneEndpoint, endpointKey},
	{"service", "/v1/service", splitList, pruneService, serviceKey},
}

func single(body []byte) ([]json.RawMessage, error) { return []json.RawMessage{body}, nil }

func noKey(object) (string, error) { return "", nil }

func endpointKey(o object) (string, error) {
	id, ok := o["id"].(json.Number)
	if !ok {
		return "", fmt.Errorf("endpoint without id: %w", errNotAgent)
	}
	return id.String(), nil
}

// serviceKey is the service's id. A frontend that is not in the maps yet has none: there, 0 and its address.
func serviceKey(o object) (string, error) {
	spec, ok := o["spec"].(object)
	if !ok {
		return "", fmt.Errorf("service without spec: %w", errNotAgent)
	}
	if id, ok := spec["id"].(json.Number); ok && id != "0" {
		return id.String(), nil
	}
	a, _ := spec["frontend-address"].(object)
	return fmt.Sprintf("0 %v:%v/%v/%v", a["ip"], a["port"], a["protocol"], a["scope"]), nil
}

// list is what was last seen of one resource.
type list struct {
	resource
	seed    maphash.Seed
	body    uint64            // hash of the last answer
	raw     map[uint64]string // hash of an item as answered → key, so that an item is decoded only when it differs
	objects map[string][]byte // key → pruned JSON; nil before the first answer
}

func newList(r resource) *list { return &list{resource: r, seed: maphash.MakeSeed()} }

// diff takes an answer and returns what it changes: everything, as complete, the first time; nil when nothing.
// After an error the list is as it was before.
func (l *list) diff(body []byte) (*eventpb.AgentObjects, error) {
	sum := maphash.Bytes(l.seed, body)
	if l.objects != nil && sum == l.body {
		return nil, nil
	}
	items, err := l.split(body)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", l.path, err)
	}
	raw := make(map[uint64]string, len(items))
	objects := make(map[string][]byte, len(items))
	for _, item := range items {
		h := maphash.Bytes(l.seed, item)
		if key, ok := l.raw[h]; ok {
			raw[h], objects[key] = key, l.objects[key]
			continue
		}
		key, text, err := l.read(item)
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", l.path, err)
		}
		raw[h], objects[key] = key, text
	}
	delta := l.delta(objects)
	l.body, l.raw, l.objects = sum, raw, objects
	return delta, nil
}

func (l *list) read(item []byte) (string, []byte, error) {
	o, err := decode(item)
	if err != nil {
		return "", nil, err
	}
	key, err := l.key(o)
	if err != nil {
		return "", nil, err
	}
	if o, err = l.prune(o); err != nil {
		return "", nil, err
	}
	text, err := encode(o)
	return key, text, err
}

func (l *list) delta(objects map[string][]byte) *eventpb.AgentObjects {
	delta := &eventpb.AgentObjects{Kind: l.kind, Complete: l.objects == nil}
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		if old, ok := l.objects[key]; !ok || !bytes.Equal(old, objects[key]) {
			delta.Objects = append(delta.Objects, &eventpb.AgentObject{Key: key, Json: objects[key]})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(l.objects)) {
		if _, ok := objects[key]; !ok {
			delta.Objects = append(delta.Objects, &eventpb.AgentObject{Key: key, Deleted: true})
		}
	}
	if !delta.Complete && len(delta.Objects) == 0 {
		return nil
	}
	return delta
}

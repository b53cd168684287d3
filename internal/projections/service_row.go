package projections

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// frontendFile is one frontend of services.json. What only slot 0 tells is null without it.
type frontendFile struct {
	Frontend  string   `json:"frontend"` // as `cilium-dbg bpf lb list` writes it
	Service   *string  `json:"service"`  // namespace/name of its owner, where that is a Service
	Address   string   `json:"address"`
	Port      uint16   `json:"port"`
	Protocol  string   `json:"protocol"`
	Scope     string   `json:"scope"` // external, internal
	Type      *string  `json:"type"`
	ID        *uint16  `json:"id"`
	Flags     []string `json:"flags"`
	Count     *uint16  `json:"count"`
	QCount    *uint16  `json:"quarantined"`
	Affinity  *uint32  `json:"affinity_seconds"`
	Algorithm *string  `json:"algorithm"`
	L7Port    *uint16  `json:"l7_port"`

	FromOutside  *string           `json:"from_outside"` // served, dropped, surrogate
	SourceRanges *sourceRangesFile `json:"source_ranges"`
	Topology     *topologyFile     `json:"topology"`
	Asks         *asksFile         `json:"service_asks"`
	PortName     *string           `json:"port_name"` // of the Service's port; empty for one without a name
	Owner        *ownerFile        `json:"owner"`
	LastOwner    *ownerFile        `json:"last_owner"` // of one that no object claims
	Agent        *agentFile        `json:"agent"`
	Slots        []slotFile        `json:"slots"`
	WithoutSlot  []absentFile      `json:"endpoints_without_slot"`
	Omitted      int               `json:"omitted"`
}

// sourceRangesFile is of a frontend that checks its clients, or whose Service asks for it.
type sourceRangesFile struct {
	Checked bool     `json:"checked"` // by the frontend's flag in the map
	Policy  string   `json:"policy"`  // allow, deny
	Ranges  []string `json:"ranges"`  // in the map
	Why     *string  `json:"why"`     // it does not check them
}

type ownerFile struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// agentFile is what the agent wants of a frontend.
type agentFile struct {
	Type         string             `json:"type"`
	Service      string             `json:"service"`
	Reconciled   string             `json:"reconciled"` // Pending, Done, Error
	ReconciledAt *string            `json:"reconciled_at"`
	Error        *string            `json:"error"`
	RedirectTo   *agentName         `json:"redirect_to"`
	Backends     int                `json:"backends"`
	WithoutSlot  []agentBackendFile `json:"backends_without_slot"`
}

type agentBackendFile struct {
	Address   string `json:"address"`
	Port      uint16 `json:"port"`
	Protocol  string `json:"protocol"`
	State     string `json:"state"`
	Unhealthy bool   `json:"unhealthy"`
}

// wildcardFile is an entry that takes what no other frontend of its address does.
type wildcardFile struct {
	Frontend string   `json:"frontend"`
	Service  *string  `json:"service"`
	Flags    []string `json:"flags"`
}

// frontendOf makes the row of one frontend. Brief ones leave out what is as it should be, and count it.
func (s *State) frontendOf(k frontendKey, f *Frontend, brief bool) frontendFile {
	row := frontendFile{
		Frontend: k.String(), Address: k.address.Addr().String(), Port: k.address.Port(), Protocol: k.proto.String(), Scope: scopeName(k.scope),
		Flags: []string{},
	}
	row.headOf(f)
	row.Service, row.Owner, row.LastOwner = s.ownersOf(k)
	j := s.sidesOf(k, f)
	row.SourceRanges = s.sourceRanges(k, f)
	if row.SourceRanges == nil && j.service != nil {
		row.SourceRanges = uncheckedRanges(j.service, f)
	}
	if j.port != nil {
		row.PortName = &j.port.Name
	}
	row.Slots = j.slots()
	row.WithoutSlot = j.absent()
	row.Topology, row.Asks = j.topology(row.WithoutSlot), asksOf(j.service)
	row.Agent = j.agentFile()
	if brief {
		row.brief(j)
	}
	return row
}

func scopeName(scope uint8) string {
	switch scope {
	case 0:
		return "external"
	case 1:
		return "internal"
	}
	return strconv.Itoa(int(scope))
}

func (row *frontendFile) headOf(f *Frontend) {
	if !f.Head {
		return
	}
	kind, algorithm, outside := f.Flags.Type(), algorithmName(f.Algorithm), f.fromOutside()
	row.FromOutside = &outside
	row.Type, row.Flags = &kind, flagNames(f.Flags)
	row.ID, row.Count, row.QCount = &f.ID, &f.Count, &f.QCount
	if f.Flags&cilium.FlagL7LoadBalancer != 0 {
		row.L7Port = &f.L7Port // in the place of the affinity and the algorithm
		return
	}
	row.Affinity, row.Algorithm = &f.Affinity, &algorithm
}

// flagNames are the flags as Cilium spells them, without the type.
func flagNames(f cilium.ServiceFlags) []string { return strings.Split(f.String(), ", ")[1:] }

// algorithmName reads the number as Cilium's SVCLoadBalancingAlgorithm does.
func algorithmName(n uint8) string {
	switch n {
	case 0:
		return "default"
	case 1:
		return "random"
	case 2:
		return "maglev"
	}
	return strconv.Itoa(int(n))
}

// fromOutside is what becomes of a packet to a frontend that comes in from the network. 0.0.0.0 and [::] stand for the node's
// own addresses, which have frontends too.
func (f *Frontend) fromOutside() string {
	switch {
	case f.Flags&cilium.FlagRoutable != 0:
		return "served"
	case f.Address.Addr().IsUnspecified():
		return "surrogate"
	}
	return "dropped"
}

// sourceRanges are the clients that a frontend is restricted to, or denied to; nil for one that does not check them.
func (s *State) sourceRanges(k frontendKey, f *Frontend) *sourceRangesFile {
	if f.Flags&cilium.FlagSourceRange == 0 {
		return nil
	}
	r := &sourceRangesFile{Checked: true, Policy: "allow", Ranges: s.rangesOf(k, f)}
	if f.Flags&cilium.FlagQuarantined != 0 { // in slot 0 that is the deny flag
		r.Policy = "deny"
	}
	return r
}

func (s *State) rangesOf(k frontendKey, f *Frontend) []string {
	texts := []string{}
	for _, p := range slices.SortedFunc(maps.Keys(s.LB.ranges[revNAT{k.v6(), f.ID}]), netip.Prefix.Compare) {
		texts = append(texts, prefixText(p))
	}
	return texts
}

// uncheckedRanges tells why a frontend does not check the ranges that its Service asks for; nil for one that asks for none.
func uncheckedRanges(o *eventpb.KubeObject, f *Frontend) *sourceRangesFile {
	if len(o.GetService().GetSourceRanges()) == 0 || !f.Head {
		return nil
	}
	r := &sourceRangesFile{Policy: "allow", Ranges: []string{}}
	if strings.EqualFold(o.Annotations["service.cilium.io/src-ranges-policy"], "deny") {
		r.Policy = "deny"
	}
	why := "not yet: the agent has not written it"
	if t := f.Flags.Type(); t != "LoadBalancer" && t != "ExternalIPs" {
		why = "they are for frontends of types LoadBalancer and ExternalIPs; the agent's option bpf-lb-source-range-all-types would extend them to " + t
	}
	r.Why = &why
	return r
}

// ownersOf is whose the frontend is, or was last where no object claims it.
func (s *State) ownersOf(k frontendKey) (service *string, now, last *ownerFile) {
	o, ok := s.owner(k)
	if !ok {
		if o, ok := s.owners[k]; ok {
			last = &ownerFile{o.Kind, o.Name.Namespace, o.Name.Name, o.UID}
		}
		return nil, nil, last
	}
	if o.Kind == "Service" {
		name := o.Name.String()
		service = &name
	}
	return service, &ownerFile{o.Kind, o.Name.Namespace, o.Name.Name, o.UID}, nil
}

func (j *sides) agentFile() *agentFile {
	if !j.hasRow {
		return nil
	}
	r := j.row
	a := &agentFile{Type: r.Type, Service: r.ServiceName, Reconciled: r.reconciled, ReconciledAt: stamp(r.reconciledNs),
		RedirectTo: r.RedirectTo, Backends: len(r.Backends), WithoutSlot: []agentBackendFile{}}
	if r.Status.Error != "" {
		a.Error = &r.Status.Error
	}
	for _, b := range j.wanted {
		if !j.held[b.at] {
			a.WithoutSlot = append(a.WithoutSlot, agentBackendFile{b.at.address.Addr().String(), b.at.address.Port(), b.at.proto.String(), b.state, b.unhealthy})
		}
	}
	return a
}

func (s *State) wildcardOf(k frontendKey, f *Frontend) wildcardFile {
	row := wildcardFile{Frontend: k.String(), Flags: []string{}}
	if names := s.joins.addresses[k.address.Addr()]; len(names) > 0 {
		name := names[0].String()
		row.Service = &name
	}
	if f.Head {
		row.Flags = flagNames(f.Flags)
	}
	return row
}

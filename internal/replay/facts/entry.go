package facts

import (
	"github.com/tapedeck-io/tapedeck/internal/cilium"
)

// entry is a map's entry, decoded. Of a deleted one only the key is known.
type entry interface {
	key() object
	value() object
	text(b *Book, whole bool) string
	refs(*Refs)
}

// decode is nil for maps that this version cannot read.
func (e mapEntry) decode() entry {
	layout, ok := cilium.Lookup(e.delta.Map, e.delta.KeySize, e.delta.ValueSize)
	if !ok {
		return nil
	}
	value := e.value
	if value == nil {
		value = make([]byte, layout.ValueSize)
	}
	switch layout.Kind {
	case cilium.Services4, cilium.Services6:
		return entryOf(e.key, value, cilium.DecodeService, func(s cilium.Service) entry { return service{s} })
	case cilium.Backends4, cilium.Backends6:
		return entryOf(e.key, value, cilium.DecodeBackend, func(b cilium.Backend) entry { return backend{b} })
	case cilium.RevNAT4, cilium.RevNAT6:
		return entryOf(e.key, value, cilium.DecodeRevNAT, func(r cilium.RevNAT) entry { return revNAT{r} })
	case cilium.SockRevNAT4, cilium.SockRevNAT6:
		return entryOf(e.key, value, cilium.DecodeSockRevNAT, func(s cilium.SockRevNAT) entry { return sockRevNAT{s} })
	case cilium.CT4TCP, cilium.CT4Any, cilium.CT6TCP, cilium.CT6Any:
		return entryOf(e.key, value, cilium.DecodeCT, func(c cilium.CT) entry { return connection{c} })
	case cilium.Endpoints:
		return entryOf(e.key, value, cilium.DecodeEndpoint, func(p cilium.Endpoint) entry { return endpoint{p} })
	case cilium.Affinity4, cilium.Affinity6:
		return entryOf(e.key, value, cilium.DecodeAffinity, func(a cilium.Affinity) entry { return affinity{a} })
	case cilium.AffinityMatches:
		return entryOf(e.key, value, cilium.DecodeAffinityMatch, func(a cilium.AffinityMatch) entry { return affinityMatch{a} })
	case cilium.SourceRange4, cilium.SourceRange6:
		return entryOf(e.key, value, cilium.DecodeSourceRange, func(s cilium.SourceRange) entry { return sourceRange{s} })
	case cilium.Neighbors4, cilium.Neighbors6:
		return entryOf(e.key, value, cilium.DecodeNeighbor, func(n cilium.Neighbor) entry { return neighbor{n} })
	case cilium.IPCache:
		return entryOf(e.key, value, cilium.DecodeIPCache, func(c cilium.IPCacheEntry) entry { return ipcache{c} })
	}
	return nil
}

func entryOf[T any](key, value []byte, decode func(key, value []byte) (T, error), wrap func(T) entry) entry {
	d, err := decode(key, value)
	if err != nil {
		return nil
	}
	return wrap(d)
}

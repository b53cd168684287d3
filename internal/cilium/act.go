package cilium

import "fmt"

// ActiveConnections is one entry of cilium_lb_act: connections from a frontend to the backends of one zone, counted by
// the datapath since the entry was made.
type ActiveConnections struct {
	RevNAT uint16
	Zone   uint8
	Opened uint32
	Closed uint32
}

// String is the counters as Cilium prints them.
func (a ActiveConnections) String() string { return fmt.Sprintf("+%d -%d", a.Opened, a.Closed) }

// DecodeActiveConnections reads an entry of cilium_lb_act.
func DecodeActiveConnections(key, value []byte) (ActiveConnections, error) {
	if len(key) != 4 || len(value) != 8 {
		return ActiveConnections{}, ErrSize
	}
	return ActiveConnections{RevNAT: be16(key), Zone: key[2], Opened: le32(value), Closed: le32(value[4:])}, nil
}

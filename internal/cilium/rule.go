package cilium

import "fmt"

// PolicyRule is one entry of an endpoint's policy map.
type PolicyRule struct {
	Egress   bool
	Identity uint32 // of the peer; 0 is any
	Proto    Proto
	Port     uint16
	// Bits is how many leading bits of protocol and port count: 0 is any protocol, 8 any port of it, 24 this port.
	Bits uint8

	Deny      bool
	ProxyPort uint16
	AuthType  uint8
	// AuthExplicit says that a rule asks for AuthType itself, where the version has it (from 1.17).
	AuthExplicit bool

	Packets, Bytes     uint64 // counted in the entry up to 1.17
	Precedence, Cookie uint32 // from 1.19
}

// String names the rule as Cilium prints a policy's key, for example "Ingress: 4 8080/TCP".
func (p PolicyRule) String() string {
	direction := "Ingress"
	if p.Egress {
		direction = "Egress"
	}
	return fmt.Sprintf("%s: %d %s", direction, p.Identity, p.ports())
}

func (p PolicyRule) ports() string {
	switch {
	case p.Bits == 0 || p.Bits == protoBits:
		return p.Proto.String()
	case p.Bits == protoBits+portBits:
		return fmt.Sprintf("%d/%s", p.Port, p.Proto)
	case p.Bits > protoBits && p.Bits < protoBits+portBits:
		return fmt.Sprintf("%d-%d/%s", p.Port, p.Port|(0xffff>>(p.Bits-protoBits)), p.Proto)
	}
	return fmt.Sprintf("<INVALID PREFIX LENGTH: %d>", p.Bits)
}

const (
	protoBits = 8
	portBits  = 16
	// ruleBits come before protocol and port: identity and direction.
	ruleBits = 40
)

// DecodePolicyRule reads an entry of an endpoint's policy map. The value's size tells the versions apart, but for 1.16
// and 1.17: there the fields that both have lie alike, and what only one has is 0 in the other or left out.
func DecodePolicyRule(key, value []byte) (PolicyRule, error) {
	if len(key) != 12 || (len(value) != 24 && len(value) != 12 && len(value) != 8) {
		return PolicyRule{}, ErrSize
	}
	p := PolicyRule{
		Bits:         uint8(le32(key) - ruleBits),
		Identity:     le32(key[4:]),
		Egress:       key[8]&1 != 0,
		Proto:        Proto(key[9]),
		Port:         be16(key[10:]),
		ProxyPort:    be16(value),
		Deny:         value[2]&1 != 0,
		AuthType:     value[3] & 0x7f,
		AuthExplicit: value[3]&0x80 != 0,
	}
	switch len(value) {
	case 24:
		p.Packets, p.Bytes = le64(value[8:]), le64(value[16:])
	case 12:
		p.Precedence, p.Cookie = le32(value[4:]), le32(value[8:])
	}
	return p, nil
}

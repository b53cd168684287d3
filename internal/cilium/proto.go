package cilium

import "strconv"

// Proto is an IP protocol's number. 0 stands for any: what was written before protocols were told apart.
type Proto uint8

const (
	Any    Proto = 0
	ICMP   Proto = 1
	TCP    Proto = 6
	UDP    Proto = 17
	ICMPv6 Proto = 58
	SCTP   Proto = 132
)

// String is the name as Cilium prints it, and the number where it has none.
func (p Proto) String() string {
	switch p {
	case Any:
		return "ANY"
	case ICMP:
		return "ICMP"
	case 2:
		return "IGMP"
	case 4:
		return "IPIP"
	case TCP:
		return "TCP"
	case UDP:
		return "UDP"
	case 41:
		return "IPv6"
	case 47:
		return "GRE"
	case 50:
		return "ESP"
	case 51:
		return "AH"
	case ICMPv6:
		return "ICMPv6"
	case 112:
		return "VRRP"
	case SCTP:
		return "SCTP"
	}
	return strconv.Itoa(int(p))
}

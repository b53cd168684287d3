package cilium

import (
	"strconv"
	"strings"
)

const policyBase = "cilium_policy"

// PolicyEndpoint reads the endpoint's id from the name of its policy map, for example 113 from
// cilium_policy_v3_00113. It is false for any other map.
func PolicyEndpoint(mapName string) (id uint16, ok bool) {
	_, id, ok = splitPolicy(mapName)
	return id, ok
}

// splitPolicy parts cilium_policy_v3_00113 into "v3" and 113; the oldest versions have no version in the name.
func splitPolicy(name string) (version string, id uint16, ok bool) {
	rest, ok := strings.CutPrefix(name, policyBase+"_")
	if !ok {
		return "", 0, false
	}
	if v, r, versioned := strings.Cut(rest, "_"); versioned {
		if len(v) < 2 || v[0] != 'v' || !isDigits(v[1:]) {
			return "", 0, false
		}
		version, rest = v, r
	}
	n, err := strconv.ParseUint(rest, 10, 16)
	if err != nil || !isDigits(rest) {
		return "", 0, false
	}
	return version, uint16(n), true
}

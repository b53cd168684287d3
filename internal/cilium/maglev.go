package cilium

// Maglev is one entry of a Maglev map: that a frontend has a lookup table. The table is a map of its own, which the
// agent makes anew whenever the frontend's backends change.
type Maglev struct {
	RevNAT uint16
	MapID  uint32 // of the table's map; its value's size in bytes is 4 times the table's
}

// DecodeMaglev reads an entry of cilium_lb4_maglev or cilium_lb6_maglev, the value as a lookup returns it.
func DecodeMaglev(key, value []byte) (Maglev, error) {
	if len(key) != 2 || len(value) != 4 {
		return Maglev{}, ErrSize
	}
	return Maglev{RevNAT: be16(key), MapID: le32(value)}, nil
}

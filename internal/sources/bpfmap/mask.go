package bpfmap

import (
	"bytes"
	"encoding/binary"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
)

// mask compares values without their volatile bytes. The zero mask compares all bytes.
type mask struct {
	words []maskWord
	tail  []byte // of the bytes after the last whole word
	from  int    // where the tail starts
}

type maskWord struct {
	at   int
	bits uint64
}

func newMask(valueSize int, volatile []cilium.Range) mask {
	if len(volatile) == 0 {
		return mask{}
	}
	whole := bytes.Repeat([]byte{0xff}, valueSize)
	for _, r := range volatile {
		clear(whole[r.From:r.To])
	}
	m := mask{words: []maskWord{}, from: valueSize &^ 7}
	for at := 0; at < m.from; at += 8 {
		if bits := binary.LittleEndian.Uint64(whole[at:]); bits != 0 {
			m.words = append(m.words, maskWord{at, bits})
		}
	}
	m.tail = whole[m.from:]
	return m
}

// same says that a and b, two values, differ in volatile bytes at most.
func (m *mask) same(a, b []byte) bool {
	if m.words == nil {
		return bytes.Equal(a, b)
	}
	for _, w := range m.words {
		if (binary.LittleEndian.Uint64(a[w.at:])^binary.LittleEndian.Uint64(b[w.at:]))&w.bits != 0 {
			return false
		}
	}
	for i, bits := range m.tail {
		if (a[m.from+i]^b[m.from+i])&bits != 0 {
			return false
		}
	}
	return true
}

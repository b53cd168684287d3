package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// bytesValue is --max-bytes: a number of bytes, with a unit of Kubernetes' quantities or none.
type bytesValue int64

// leastBytes is the smallest store: a few of the largest events, so that the newest is always there.
const leastBytes = 32 << 20

var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}}

func (v *bytesValue) String() string {
	if *v == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*v), 10)
}

func (v *bytesValue) Set(s string) error {
	number, unit := s, int64(1)
	for _, u := range units {
		if n, ok := strings.CutSuffix(s, u.suffix); ok {
			number, unit = n, u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return errors.New("want bytes, such as 2GiB, 500Mi or 64000000")
	}
	if n*unit < leastBytes {
		return fmt.Errorf("want %d MiB or more", leastBytes>>20)
	}
	*v = bytesValue(n * unit)
	return nil
}

func (v *bytesValue) Type() string { return "bytes" }

// patternsValue is --redact, once or more.
type patternsValue []*regexp.Regexp

func (v *patternsValue) String() string { return "" }

func (v *patternsValue) Set(s string) error {
	re, err := regexp.Compile(s)
	if err != nil {
		return err
	}
	if re.MatchString("") {
		return errors.New("it matches nothing at all, which is everywhere; want one that needs a character")
	}
	*v = append(*v, re)
	return nil
}

func (v *patternsValue) Type() string { return "regexp" }

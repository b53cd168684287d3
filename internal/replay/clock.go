package replay

import "time"

// clock shows Unix nanoseconds as RFC 3339 in UTC.
func clock(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

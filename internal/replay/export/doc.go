// Package export writes a tape in formats that other programs read. The same tape gives the same bytes.
package export

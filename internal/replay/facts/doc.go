// Package facts takes events apart: an event is a batch of all that one source saw at one instant, a Fact is one of
// them, decoded, with the names and addresses that filters look for, as JSON and as one line of text.
package facts

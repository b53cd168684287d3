package agent

import (
	"bytes"
	"encoding/json"
	"errors"
)

// errNotList is an answer that is not one JSON array.
var errNotList = errors.New("the answer is not a list")

// splitList cuts a JSON array into its elements, by quotes and brackets alone: most elements of a poll are byte for
// byte known and need no decoding. An element that is not is decoded later, and only then is it known to be JSON.
func splitList(body []byte) ([]json.RawMessage, error) {
	if string(bytes.TrimSpace(body)) == "null" {
		return nil, nil // how the agent spells a list of nothing
	}
	var items []json.RawMessage
	depth, start := 0, -1
	end := func(i int) {
		if start >= 0 {
			items = append(items, body[start:i])
		}
		start = -1
	}
	for i := 0; i < len(body); i++ {
		switch c := body[i]; c {
		case ' ', '\t', '\r', '\n':
			continue
		case '[', '{':
			if depth == 0 && (c != '[' || items != nil) {
				return nil, errNotList
			}
			if depth == 1 && start < 0 {
				start = i
			}
			depth++
			if depth == 1 {
				items = []json.RawMessage{}
			}
		case ']', '}':
			depth--
			if depth == 0 {
				end(i)
			}
			if depth < 0 {
				return nil, errNotList
			}
		case ',':
			if depth == 1 {
				end(i)
			}
		default:
			if depth == 0 {
				return nil, errNotList
			}
			if depth == 1 && start < 0 {
				start = i
			}
			if c == '"' {
				i = skipString(body, i)
			}
		}
	}
	if depth != 0 || items == nil {
		return nil, errNotList
	}
	return items, nil
}

// skipString returns the index of the quote that ends the string which begins at i, or the end.
func skipString(body []byte, i int) int {
	for i++; i < len(body); i++ {
		switch body[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return i
}

// Package schemas holds the JSON Schemas of the files that projections write.
package schemas

import "embed"

// Files has NAME.schema.json for each NAME.json, under files/.
//
//go:embed files/*.json
var Files embed.FS

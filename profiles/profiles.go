// Package profiles holds the profiles that come with the recorder.
package profiles

import "embed"

// FS has one NAME.yaml for each profile.
//
//go:embed *.yaml
var FS embed.FS

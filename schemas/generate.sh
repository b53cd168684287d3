#!/bin/sh
# Makes internal/events/eventpb from schemas/events/v1. Needs protoc; its Go plugin comes with go.mod.
set -eu
cd "$(dirname "$0")/.."
plugin=$(mktemp -d)
trap 'rm -rf "$plugin"' EXIT
go build -o "$plugin/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go
rm -f internal/events/eventpb/*.pb.go
protoc -I schemas --plugin="$plugin/protoc-gen-go" \
  --go_out=. --go_opt=module=github.com/tapedeck-io/tapedeck schemas/events/v1/*.proto
# The compiler's version is the machine's, not the schema's.
sed -i '/^\/\/ \tprotoc  *v/d' internal/events/eventpb/*.pb.go

// Package podlog is the source of container logs: it follows all containers of the pods it is told of, each by its
// container ID, through the API server.
//
//	pod object ──▶ plan (which instances) ──▶ reader per instance: read what is there, then follow
//	                                              stream ──▶ splitter ──▶ seen ──▶ batch (20 ms) ──▶ emit
//
// A stream that breaks goes on at the whole second of the last line; lines that were emitted are skipped, and a
// last line that is no longer there is a gap: the log was rotated meanwhile.
package podlog

// Package journal keeps events: the live journal, an embedded JetStream stream in a folder that one recorder
// owns, and the tape, the same records in one portable file. Both are append-only and are read in order.
//
//	emitters ──▶ writer ──▶ stream ──▶ Follow, Read ──▶ fold
//	(many)       (one)      (files)            └──▶ tape
//
// An event is acknowledged to its emitter when it is stored. Until then the emitter waits: a journal that cannot
// be written slows the sources, and loses nothing that it has acknowledged.
package journal

// Package events is the vocabulary of the recorder: what a source hands over, what the journal stores and
// what the fold reads. It imports nothing else of the project.
//
//	source ──Event──▶ journal ──▶ fold ──▶ State ──▶ files
package events

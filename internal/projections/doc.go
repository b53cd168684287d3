// Package projections gives recorded facts their meaning: State is what is known at one position of the
// journal, Apply folds one event into it, and a View turns it into one file. Nothing here reads a clock, the
// environment or anything but events, so the same events give the same bytes, live or from a tape.
package projections

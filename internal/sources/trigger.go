package sources

// Trigger asks a polling source to look now. Fires that come before it looks are one.
type Trigger chan struct{}

// NewTrigger returns a trigger that nobody has fired yet.
func NewTrigger() Trigger { return make(Trigger, 1) }

// Fire never blocks. A nil trigger ignores it.
func (t Trigger) Fire() {
	select {
	case t <- struct{}{}:
	default:
	}
}

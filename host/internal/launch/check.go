package launch

// Check says whether a grant can be enforced here: nil, or an [UnsupportedError]. Nothing is started.
func (l *Launcher) Check(g Grant) error {
	_, err := l.confiner(g)
	return err
}

package journal

import "errors"

func childFull(dir string) error { return errors.New("todo") }

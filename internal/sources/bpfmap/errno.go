package bpfmap

import (
	"errors"

	"golang.org/x/sys/unix"
)

func isIncomplete(err error) bool { return errors.Is(err, errIncomplete) }

func isNoSpace(err error) bool { return errors.Is(err, unix.ENOSPC) }

// isInterrupted says that the kernel gave a walk up because keys went under its feet.
func isInterrupted(err error) bool { return errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) }

func isForbidden(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) }

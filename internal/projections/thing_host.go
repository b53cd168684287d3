package projections

import (
	"fmt"
	"strconv"
)

func (s *State) hostThings(add adder) {
	for i, a := range s.Host.Attachments.GetAttachments() {
		where := a.Device
		if where == "" {
			where = a.Cgroup
		}
		name := fmt.Sprintf("%s %s %s", where, a.Attach, a.Program)
		if n := s.Host.orderAt(i); n > 1 {
			name += fmt.Sprintf(" (%d)", n) // another program at the same hook
		}
		add("program", name, Field{"id", strconv.Itoa(int(a.ProgramId))}, Field{"ifindex", known(strconv.Itoa(int(a.Ifindex)), "0")})
	}
	listeners := map[string]int{}
	for _, l := range s.Host.Listeners.GetSockets() {
		listeners[l.Protocol+" "+l.Local]++
	}
	for name, n := range listeners {
		add("listener", name, Field{"sockets", known(strconv.Itoa(n), "1")})
	}
	for pod, p := range s.Host.PodSockets {
		for _, sock := range p.sockets {
			add("pod socket", fmt.Sprintf("%s %s %s → %s", pod, sock.Protocol, sock.Local, sock.Remote), Field{"state", sock.State})
		}
	}
	for command, r := range s.Host.ruleSets {
		add("rules", command, Field{"lines", strconv.Itoa(len(r.Lines))}, Field{"unreadable", r.Unreadable})
	}
	for name, p := range s.Probes {
		add("probe", name, Field{"target", p.Target}, Field{"from", p.Pod}, Field{"http_code", known(strconv.Itoa(int(p.HttpCode)), "0")}, Field{"exit_code", strconv.Itoa(int(p.ExitCode))})
	}
}

// orderAt is the place of an attachment among those of its hook, from 1.
func (h *Host) orderAt(i int) int {
	list := h.Attachments.GetAttachments()
	n := 1
	for _, a := range list[:i] {
		if a.Attach == list[i].Attach && a.Ifindex == list[i].Ifindex && a.Cgroup == list[i].Cgroup {
			n++
		}
	}
	return n
}

package host

import (
	"testing"
)

const (
	uidA  = "1c6f3a0e-5a0d-4f0e-9c53-0c7c2f6d9a11"
	uidA_ = "1c6f3a0e_5a0d_4f0e_9c53_0c7c2f6d9a11"
	hash  = "0d5a5f5b2c6b4c6f8f0a8c5d3e1f2a4b"
	idA   = "4b0fd1e4b1c54d2f3a7f6f1f0e9d8c7b6a5f4e3d2c1b0a9f8e7d6c5b4a3f2e1d"
)

func TestOwnerOfAProcess(t *testing.T) {
	pod := owner{uidA, idA}
	for name, c := range map[string]struct {
		text string
		want owner
	}{
		"cgroupfs, v2":                {"0::/kubepods/burstable/pod" + uidA + "/" + idA + "\n", pod},
		"cgroupfs, guaranteed":        {"0::/kubepods/pod" + uidA + "/" + idA + "\n", pod},
		"systemd, containerd":         {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uidA_ + ".slice/cri-containerd-" + idA + ".scope\n", pod},
		"systemd, guaranteed":         {"0::/kubepods.slice/kubepods-pod" + uidA_ + ".slice/cri-containerd-" + idA + ".scope\n", pod},
		"systemd, CRI-O":              {"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + uidA_ + ".slice/crio-" + idA + ".scope\n", pod},
		"CRI-O's monitor":             {"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + uidA_ + ".slice/crio-conmon-" + idA + ".scope\n", owner{}},
		"below the container":         {"0::/kubepods/burstable/pod" + uidA + "/" + idA + "/init.scope\n", pod},
		"another cgroup namespace":    {"0::/../../burstable/pod" + uidA + "/" + idA + "\n", pod},
		"cgroup v1":                   {"12:cpuset:/kubepods/besteffort/pod" + uidA + "/" + idA + "\n1:name=systemd:/kubepods/besteffort/pod" + uidA + "/" + idA + "\n", pod},
		"v1 and v2":                   {"9:name=systemd:/\n4:memory:/kubepods/burstable/pod" + uidA + "/" + idA + "\n0::/\n", pod},
		"kind, nested in a container": {"0::/docker/" + "f" + idA[1:] + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + uidA_ + ".slice/cri-containerd-" + idA + ".scope\n", pod},
		"a static pod":                {"0::/kubepods/burstable/pod" + hash + "/" + idA + "\n", owner{hash, idA}},
		"the node's service":          {"0::/system.slice/containerd.service\n", owner{}},
		"nothing":                     {"", owner{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseCgroup(c.text); got != c.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestStaticPodIsFoundByItsContainer(t *testing.T) {
	static := &pod{uid: uidA, containers: []string{idA}}
	other := &pod{uid: "9c6f3a0e-5a0d-4f0e-9c53-0c7c2f6d9a11"}
	o := newOwners([]*pod{other, static})
	if got := o.of(parseCgroup("0::/kubepods/burstable/pod" + hash + "/" + idA + "\n")); got != static {
		t.Errorf("found %+v", got)
	}
	if got := o.of(owner{}); got != nil {
		t.Errorf("a process of the node belongs to %+v", got)
	}
}

func TestStartTimeReadsPastAHostileName(t *testing.T) {
	proc := newProc(t)
	proc.stat(7, ") S 1 (x", "S", 4711)
	proc.stat(8, "gone", "Z", 4712)
	if got, err := startTime(proc.dir, 7); err != nil || got != 4711 {
		t.Errorf("start %d, %v", got, err)
	}
	if (process{7, 4710}).alive(proc.dir) {
		t.Error("another process with the same number counts as the first")
	}
	if (process{8, 4712}).alive(proc.dir) {
		t.Error("a zombie counts as alive")
	}
}

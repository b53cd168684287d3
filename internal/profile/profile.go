// Package profile reads profiles: which objects of the cluster a session is about, and which files it makes.
package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/profiles"
	"sigs.k8s.io/yaml"
)

const apiVersion = "tapedeck.io/v1"

// Profile names what the lab files are about. All names are the profile's; none stands in the code.
type Profile struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Name       string   `json:"name"`
	Out        string   `json:"out"` // default of --out
	Namespace  string   `json:"namespace"`
	Web        Web      `json:"web"`
	Holder     Holder   `json:"holder"`
	NodePort   NodePort `json:"nodePort"`
	Ghost      Ghost    `json:"ghost"`
}

// Web is the Service whose backends are followed.
type Web struct {
	Service  string `json:"service"`
	Port     int32  `json:"port"`
	Replicas int    `json:"replicas"` // backends before the scale-up, at least
	ScaledTo int    `json:"scaledTo"` // backends after it
}

// Holder is the pod that holds one connection from a fixed port.
type Holder struct {
	Pod  string `json:"pod"`
	Port uint16 `json:"port"`
}

// NodePort is the Service that is requested from the node.
type NodePort struct {
	Service string `json:"service"`
	Port    int32  `json:"port"`
}

// Ghost is the Service without backends, and the pod it is requested from.
type Ghost struct {
	Service        string `json:"service"`
	Port           int32  `json:"port"`
	ProbePod       string `json:"probePod"`
	TimeoutSeconds int    `json:"timeoutSeconds"`
}

// Load reads a profile by the name of one that comes with the recorder, or by its file's path. It returns the
// text as well, which the session keeps.
func Load(nameOrFile string) (*Profile, string, error) {
	text, err := fs.ReadFile(profiles.FS, nameOrFile+".yaml")
	if err != nil {
		text, err = os.ReadFile(nameOrFile)
	}
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("no such profile or file")
		}
		return nil, "", &events.Trouble{Thing: "profile " + nameOrFile, Cause: err, Mend: "name one of " + strings.Join(Names(), ", ") + " or a file that can be read"}
	}
	p, err := Parse(text)
	if err != nil {
		return nil, "", &events.Trouble{Thing: "profile " + nameOrFile, Cause: err, Mend: "correct the file, see docs/profiles.md"}
	}
	return p, string(text), nil
}

// Names lists the profiles that come with the recorder.
func Names() []string {
	files, _ := fs.Glob(profiles.FS, "*.yaml")
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, ".yaml")
	}
	return files
}

// Parse reads a profile's text. Unknown keys and missing names are errors that name the key.
func Parse(text []byte) (*Profile, error) {
	p := &Profile{}
	if err := yaml.UnmarshalStrict(text, p); err != nil {
		// The library tells of its way through JSON, which is not what was written.
		return nil, errors.New(strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: json: "))
	}
	if p.APIVersion != apiVersion || p.Kind != "Profile" {
		return nil, fmt.Errorf("apiVersion %q, kind %q: want %s, Profile", p.APIVersion, p.Kind, apiVersion)
	}
	for _, f := range []struct {
		key     string
		missing bool
	}{
		{"name", p.Name == ""},
		{"namespace", p.Namespace == ""},
		{"web.service", p.Web.Service == ""},
		{"web.port", p.Web.Port <= 0},
		{"web.replicas", p.Web.Replicas <= 0},
		{"web.scaledTo", p.Web.ScaledTo <= 0},
		{"holder.pod", p.Holder.Pod == ""},
		{"holder.port", p.Holder.Port == 0},
		{"nodePort.service", p.NodePort.Service == ""},
		{"nodePort.port", p.NodePort.Port <= 0},
		{"ghost.service", p.Ghost.Service == ""},
		{"ghost.port", p.Ghost.Port <= 0},
		{"ghost.probePod", p.Ghost.ProbePod == ""},
		{"ghost.timeoutSeconds", p.Ghost.TimeoutSeconds <= 0},
	} {
		if f.missing {
			return nil, fmt.Errorf("%s is missing or has no value", f.key)
		}
	}
	if p.Web.ScaledTo <= p.Web.Replicas {
		return nil, fmt.Errorf("web.scaledTo is %d: want more than web.replicas, which is %d", p.Web.ScaledTo, p.Web.Replicas)
	}
	return p, nil
}

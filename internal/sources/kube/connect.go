package kube

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const k3sConfig = "/etc/rancher/k3s/k3s.yaml"

const mendKubeconfig = "name a file that can be read with --kubeconfig, or set KUBECONFIG"

// Connect returns the cluster's address and credentials without talking to it: from the file, or where path is ""
// from the first there is of KUBECONFIG, ~/.kube/config, k3s' own file, and the pod this runs in.
func Connect(path string) (*rest.Config, error) {
	if path != "" {
		return fromFiles(path, &clientcmd.ClientConfigLoadingRules{ExplicitPath: path})
	}
	if env := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); env != "" {
		return fromFiles(env, &clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(env)})
	}
	// Not clientcmd's own path: that one is fixed when the program starts.
	home, _ := os.UserHomeDir()
	for _, file := range []string{filepath.Join(home, ".kube", "config"), k3sConfig} {
		if _, err := os.Stat(file); err == nil {
			return fromFiles(file, &clientcmd.ClientConfigLoadingRules{ExplicitPath: file})
		}
	}
	c, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		err = errors.New("no KUBECONFIG, no ~/.kube/config, no " + k3sConfig + " and not in a pod")
	}
	if err != nil {
		return nil, &events.Trouble{Thing: "kubeconfig", Cause: err, Mend: mendKubeconfig}
	}
	return tuned(c), nil
}

func fromFiles(name string, rules *clientcmd.ClientConfigLoadingRules) (*rest.Config, error) {
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err == nil {
		return tuned(c), nil
	}
	if errors.Is(err, fs.ErrNotExist) || clientcmd.IsEmptyConfig(err) {
		err = errors.New("no such file, or no cluster in it")
	}
	return nil, &events.Trouble{Thing: "kubeconfig " + name, Cause: err, Mend: mendKubeconfig}
}

// tuned sets what every client of the recorder shares.
func tuned(c *rest.Config) *rest.Config {
	c.UserAgent = "tapedeck"
	c.QPS, c.Burst = 20, 40
	c.WarningHandlerWithContext = rest.NoWarnings{} // else deprecations go to stderr
	return c
}

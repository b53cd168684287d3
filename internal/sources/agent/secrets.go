package agent

import (
	"regexp"
	"slices"
	"strings"
)

// redacted stands for what was taken out.
const redacted = "REDACTED"

// secretOption are the last words of names of options whose values are not to be kept. The agent has its secrets in
// files, which it names; options of a key-value store or of a later version may hold one.
var secretOption = []string{"password", "passwd", "passphrase", "token", "secret", "apikey", "accesskey", "privatekey", "credential", "credentials"}

var urlUser = regexp.MustCompile(`(://)[^/@\s]+@`)

// hideSecrets takes them out of a configuration, however deep.
func hideSecrets(o object) {
	for name, v := range o {
		switch v := v.(type) {
		case object:
			hideSecrets(v)
		case string:
			if isSecret(name) && v != "" {
				o[name] = redacted
			} else if strings.Contains(v, "://") {
				o[name] = urlUser.ReplaceAllString(v, "${1}"+redacted+"@")
			}
		}
	}
}

func isSecret(name string) bool {
	name = strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(name))
	return slices.ContainsFunc(secretOption, func(word string) bool { return strings.HasSuffix(name, word) })
}

package recorder

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/sources/podlog"
)

// keptOut is what no source records, whatever the options.
const keptOut = "no Secrets, ConfigMaps, environment variables, volumes, managedFields or annotations other than those of Services' routing; credentials and query values in HTTP flows"

// redactionPolicy says in words what a session does not keep. A pattern that is nothing but a text may be the secret
// itself, and is only counted.
func redactionPolicy(more []*regexp.Regexp) string {
	policy := keptOut + "; in logs: " + strings.Join(podlog.BuiltIn(), ", ")
	literals := 0
	for _, re := range more {
		if _, whole := re.LiteralPrefix(); whole {
			literals++
			continue
		}
		policy += ", " + strconv.Quote(re.String())
	}
	if literals > 0 {
		policy += ", texts: " + strconv.Itoa(literals)
	}
	return policy
}

const laterRun = "; in a later run: "

// policies joins those of a session's runs. A run of a version that did not say had no more than what is always kept
// out.
func policies(before, now string) string {
	now = cmp.Or(now, keptOut)
	switch {
	case before == "":
		return now
	case before == now, strings.HasSuffix(before, laterRun+now):
		return before
	}
	return before + laterRun + now
}

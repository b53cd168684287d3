//lint:file-ignore SA1019 The summary is deprecated, but agents still fill it, with the URL.

package hubble

import (
	"strings"

	flowpb "github.com/cilium/cilium/api/v1/flow"
)

// redacted stands for what was taken out.
const redacted = "REDACTED"

// redact takes credentials out of an HTTP flow: user and password, values of the query, the fragment, and the
// values of headers that carry credentials. The summary repeats the URL.
func redact(f *flowpb.Flow) {
	http := f.GetL7().GetHttp()
	if http == nil {
		return
	}
	was := http.Url
	http.Url = redactURL(was)
	if was != "" && strings.Contains(f.Summary, was) {
		f.Summary = strings.ReplaceAll(f.Summary, was, http.Url)
	} else {
		f.Summary = redactWords(f.Summary)
	}
	for _, h := range http.Headers {
		switch name := strings.ToLower(h.GetKey()); {
		case secretHeader(name):
			h.Value = redacted
		case urlHeader(name):
			h.Value = redactURL(h.Value)
		}
	}
}

// secretHeader: the names known to carry credentials, and those that say so.
func secretHeader(name string) bool {
	for _, part := range []string{"auth", "cookie", "token", "secret", "password", "passwd", "api-key", "apikey", "credential", "session", "signature"} {
		if strings.Contains(name, part) && name != ":authority" {
			return true
		}
	}
	return false
}

func urlHeader(name string) bool {
	for _, part := range []string{"path", "uri", "url", "referer", "location"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// redactURL works on text, so that a URL which does not parse is redacted as well.
func redactURL(u string) string {
	rest, fragment, hasFragment := strings.Cut(u, "#")
	rest, query, hasQuery := strings.Cut(rest, "?")
	rest = redactUser(rest)
	if hasQuery {
		rest += "?" + redactQuery(query)
	}
	if hasFragment && fragment != "" {
		rest += "#" + redacted
	}
	return rest
}

// redactUser replaces what stands before the @ of the host.
func redactUser(u string) string {
	start := 0
	if i := strings.Index(u, "//"); i >= 0 && !strings.Contains(u[:i], "/") {
		start = i + 2
	}
	end := len(u)
	if i := strings.IndexByte(u[start:], '/'); i >= 0 {
		end = start + i
	}
	at := strings.LastIndexByte(u[start:end], '@')
	if at < 0 {
		return u
	}
	return u[:start] + redacted + u[start+at:]
}

// redactQuery keeps the names; a word without a value may be the secret itself.
func redactQuery(query string) string {
	var b strings.Builder
	for query != "" {
		i := strings.IndexAny(query, "&;")
		pair, sep := query, ""
		if i >= 0 {
			pair, sep = query[:i], query[i:i+1]
		}
		query = query[len(pair)+len(sep):]
		if name, _, ok := strings.Cut(pair, "="); ok {
			pair = name + "=" + redacted
		} else if pair != "" {
			pair = redacted
		}
		b.WriteString(pair + sep)
	}
	return b.String()
}

func redactWords(text string) string {
	words := strings.Split(text, " ")
	for i, w := range words {
		if strings.ContainsAny(w, "?@#") {
			words[i] = redactURL(w)
		}
	}
	return strings.Join(words, " ")
}

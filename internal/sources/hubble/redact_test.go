//lint:file-ignore SA1019 The summary is deprecated, but agents still fill it, with the URL.

package hubble

import (
	"strings"
	"testing"

	flowpb "github.com/cilium/cilium/api/v1/flow"
)

func TestRedactURL(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "",
		"/":                                  "/",
		"http://web.cca-dp/":                 "http://web.cca-dp/",
		"http://web:8080/a/b@c":              "http://web:8080/a/b@c",
		"http://user:pw@web/a":               "http://REDACTED@web/a",
		"http://user@web":                    "http://REDACTED@web",
		"http://u:p@w@web/":                  "http://REDACTED@web/",
		"//user:pw@web/a":                    "//REDACTED@web/a",
		"user:pw@web/a":                      "REDACTED@web/a",
		"/login?token=abc&user=x":            "/login?token=REDACTED&user=REDACTED",
		"/login?token=a%26b;c=d":             "/login?token=REDACTED;c=REDACTED",
		"/login?abcdef":                      "/login?REDACTED",
		"/login?a=b=c":                       "/login?a=REDACTED",
		"/login?":                            "/login?",
		"/cb#access_token=abc":               "/cb#REDACTED",
		"/cb?x=1#access_token=abc":           "/cb?x=REDACTED#REDACTED",
		"http://[::1]:80/?q=1":               "http://[::1]:80/?q=REDACTED",
		"http://user:p/w@web/":               "http://user:p/w@web/", // no URL: the host ends at the slash
		"http://%zz:pw@web/?t=%zz":           "http://REDACTED@web/?t=REDACTED",
		"https://web/?next=http://u:p@other": "https://web/?next=REDACTED",
	} {
		if got := redactURL(in); got != want {
			t.Errorf("redactURL(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestNoCredentialReachesAFlow(t *testing.T) {
	const secret = "s3cr3t"
	url := "http://user:" + secret + "@web/login?token=" + secret
	for _, summary := range []string{"HTTP/1.1 GET " + url, "HTTP/1.1 200 3ms (GET " + url + ")", "HTTP/1.1 GET http://other/?t=" + secret, ""} {
		f := &flowpb.Flow{Summary: summary, Type: flowpb.FlowType_L7, L7: &flowpb.Layer7{Record: &flowpb.Layer7_Http{Http: &flowpb.HTTP{
			Method: "GET", Url: url, Headers: []*flowpb.HTTPHeader{
				{Key: "Authorization", Value: "Bearer " + secret}, {Key: "cookie", Value: "id=" + secret}, {Key: "Set-Cookie", Value: secret},
				{Key: "Proxy-Authorization", Value: secret}, {Key: "X-Api-Key", Value: secret}, {Key: "X-Auth-Token", Value: secret},
				{Key: "Referer", Value: url}, {Key: ":path", Value: "/login?token=" + secret}, {Key: "X-Envoy-Original-Path", Value: "/?a=" + secret},
				{Key: "User-Agent", Value: "curl/8.10.1"}, {Key: ":authority", Value: "web"},
			},
		}}}}
		redact(f)
		if text := f.String(); strings.Contains(text, secret) {
			t.Errorf("the secret is in %s", text)
		}
		headers := f.GetL7().GetHttp().GetHeaders()
		if headers[9].Value != "curl/8.10.1" || headers[10].Value != "web" {
			t.Errorf("harmless headers went: %v", headers)
		}
	}
}

func TestFlowsWithoutHTTPStayAsTheyAre(t *testing.T) {
	for _, f := range fixtureFlows(t, "testdata/flows.jsonl") {
		was := f.String()
		if redact(f); f.String() != was {
			t.Errorf("%s became %s", was, f)
		}
	}
}

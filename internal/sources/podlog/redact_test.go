package podlog

import (
	"regexp"
	"strings"
	"testing"
)

// Forms that logs of real programs have: HTTP clients' dumps, environment dumps, JSON, command lines, connection
// strings, AWS's documented example keys, the JWT of RFC 7519's appendix.
func TestRedactionTakesSecretsOut(t *testing.T) {
	const jwt = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
	for line, want := range map[string]string{
		"> Authorization: Bearer s3cr3t.tok-en=":                                 "> Authorization: Bearer [redacted]",
		`"authorization":"Basic dXNlcjpwYXNz","x":1`:                             `"authorization":"Basic [redacted]","x":1`,
		"token sent: bearer s3cr3ts3cr3t ok":                                     "token sent: bearer [redacted] ok",
		"sent a Bearer s3cr3ts3cr3t to upstream":                                 "sent a Bearer [redacted] to upstream",
		"Set-Cookie: sid=s3cr3t; Path=/":                                         "Set-Cookie: [redacted]",
		"password=s3cr3t user=bob":                                               "password=[redacted] user=bob",
		"DB_PASSWORD: 's3cr3t with blanks' next":                                 "DB_PASSWORD: [redacted] next",
		`{"user":"bob","api_key":"s3cr3t \" q","n":3}`:                           `{"user":"bob","api_key":[redacted],"n":3}`,
		`msg="{\"password\":\"s3cr3t\"}"`:                                        `msg="{\"password\":[redacted]}"`,
		"AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPx":                        "AWS_SECRET_ACCESS_KEY=[redacted]",
		"key AKIAIOSFODNN7EXAMPLE used":                                          "key [redacted] used",
		"mysql --password s3cr3t -h db":                                          "mysql --password [redacted] -h db",
		"dial postgres://app:s3cr3t@db:5432/shop":                                "dial postgres://app:[redacted]@db:5432/shop",
		"got " + jwt + " from bob":                                               "got [redacted] from bob",
		"push with ghp_16C7e42F292c6912E7710c838347Ae178B4a":                     "push with [redacted]",
		strings.Repeat("QUJD", 16):                                               "[redacted]",
		"-----BEGIN RSA PRIVATE KEY-----MIIE-----END RSA PRIVATE KEY----- after": "[redacted] after",
	} {
		if got := newRedactor(nil).line(line); got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
}

func TestRedactionLeavesOtherLines(t *testing.T) {
	for _, line := range []string{
		"",
		"connected peer=10.42.0.38:8080 local=10.42.0.162:40404",
		"('10.42.0.9', 8080)",
		"GET /tokens 200 token_count=3 12ms",
		"http://10.0.0.1:8080/healthz ok",
		"wrong password, try again",
		"-----BEGIN CERTIFICATE-----",
		"schön 東 \x1b[31m",
	} {
		if got := newRedactor(nil).line(line); got != line {
			t.Errorf("%q became %q", line, got)
		}
	}
}

// A key is a block of lines, which ends, or is given up so that the log goes on.
func TestRedactionOfPrivateKeys(t *testing.T) {
	r := newRedactor(nil)
	for _, c := range [][2]string{
		{"dump: -----BEGIN OPENSSH PRIVATE KEY-----", "dump: [redacted]"},
		{"b3BlbnNzaC1rZXk", "[redacted]"},
		{"-----END OPENSSH PRIVATE KEY----- done", "[redacted] done"},
		{"next", "next"},
		{"-----BEGIN PRIVATE KEY-----", "[redacted]"},
	} {
		if got := r.line(c[0]); got != c[1] {
			t.Errorf("%q became %q, want %q", c[0], got, c[1])
		}
	}
	n := 0
	for r.line("short") != "short" {
		if n++; n > maxKeyLines {
			t.Fatal("a key that does not end takes the rest of the log")
		}
	}
}

func TestRedactionByOwnPatterns(t *testing.T) {
	r := newRedactor([]*regexp.Regexp{regexp.MustCompile(`customer-\d+`), regexp.MustCompile(`x`)})
	if got, want := r.line("paid by customer-4711 (x)"), "paid by [redacted] ([redacted])"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := r.line(strings.Repeat("x", maxLine)); len(got) > maxLine {
		t.Errorf("a line of %d bytes became %d", maxLine, len(got))
	}
}

// What is emitted is redacted, also where a stream breaks within a key and the log goes on in another.
func TestRedactedBeforeItIsEmitted(t *testing.T) {
	s := newSplitter(strings.NewReader(stamp+" -----BEGIN EC PRIVATE KEY-----\n"+stamp+" MHcCAQEE\n"), newRedactor(nil))
	again := newSplitter(strings.NewReader(stamp+" oAoGCCqG\n"+stamp+" password=hunter2\n"), s.redact)
	for _, c := range []struct {
		from *splitter
		want string
	}{{s, "[redacted]"}, {s, "[redacted]"}, {again, "[redacted]"}} {
		line, _, err := c.from.next()
		if err != nil || line.Text != c.want {
			t.Errorf("%v, %v; want %s", line, err, c.want)
		}
	}
}

package recorder

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/journal"
)

const (
	tokenFile  = "token"
	leastToken = 16 // bytes; a shorter one can be guessed
	mostToken  = 4096
)

// readToken reads the token that requests must bring from a file of one line.
func readToken(path string) (string, error) {
	trouble := func(cause error, mend string) error {
		return &events.Trouble{Thing: "token file " + path, Cause: cause, Mend: mend}
	}
	f, err := os.Open(path)
	if err != nil {
		return "", trouble(events.Cause(err), "name one that can be read with --listen-token-file")
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostToken+1))
	if err != nil {
		return "", trouble(events.Cause(err), "name one that can be read with --listen-token-file")
	}
	token := strings.TrimSpace(string(b))
	switch {
	case len(token) < leastToken || len(b) > mostToken:
		return "", trouble(fmt.Errorf("holds %d bytes", len(token)), fmt.Sprintf("write a token of %d to %d bytes into it", leastToken, mostToken))
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", trouble(errors.New("holds more than one line of visible ASCII"), "write one token into it, such as the output of `openssl rand -hex 32`")
	}
	return token, nil
}

// makeToken writes a new token into the session's folder, readable by the recorder's user alone.
func makeToken(session string) (token, path string, err error) {
	var b [32]byte
	rand.Read(b[:])
	token, path = hex.EncodeToString(b[:]), filepath.Join(session, tokenFile)
	err = journal.WriteAtomic(path, func(w io.Writer) error { // its mode is 0600
		_, err := io.WriteString(w, token+"\n")
		return err
	})
	if err != nil {
		return "", "", fmt.Errorf("write token: %w", err)
	}
	return token, path, nil
}

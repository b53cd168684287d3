package sourcetest

import (
	"encoding/json"
	"net/http"
)

// Refusal is the Status object that an API server answers with instead of what was asked for.
func Refusal(code int) map[string]any {
	reason := map[int]string{
		http.StatusBadRequest: "BadRequest", http.StatusUnauthorized: "Unauthorized", http.StatusForbidden: "Forbidden",
		http.StatusNotFound: "NotFound", http.StatusGone: "Expired", http.StatusServiceUnavailable: "ServiceUnavailable",
	}[code]
	return map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "fake " + reason}
}

// Refuse answers with it.
func Refuse(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(Refusal(code))
}

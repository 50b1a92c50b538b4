package envelope

import (
	"crypto/subtle"
	"encoding/base64"
	"strings"
)

// The limits of a zebrad 7.0.0.
const (
	MaxBody     = 2*2_000_000 + 1024 // bytes of a request
	MaxRequests = 100                // in flight
)

// Content types of replies, and the bodies of those that are not JSON.
const (
	TypeJSON = "application/json; charset=utf-8"
	TypeText = "text/plain"

	TextTooMany     = "Too many connections. Please try again later."
	TextNotPost     = "Used HTTP Method is not allowed. POST is required\n"
	TextContentType = "Supplied content type is not allowed. Content-Type: application/json is required\n"
)

// AcceptsContentType tells whether a request with these Content-Type headers is read: none, plain text and JSON are.
func AcceptsContentType(values []string) bool {
	if len(values) == 0 || strings.HasPrefix(values[0], "text/plain") {
		return true
	}
	base, parameter, _ := strings.Cut(strings.ToLower(values[0]), ";")
	if base != "application/json" && base != "application/json-rpc" {
		return false
	}
	return len(base) == len(values[0]) || parameter == "charset=utf-8" || parameter == " charset=utf-8"
}

// Authorized tells whether an Authorization header holds the secret as its password. The scheme and the user name do not count.
func Authorized(header, secret string) bool {
	fields := strings.Fields(header)
	if len(fields) < 2 {
		return false
	}
	decoded, err := base64.StdEncoding.DecodeString(fields[1])
	parts := strings.Split(string(decoded), ":")
	return err == nil && len(parts) > 1 && subtle.ConstantTimeCompare([]byte(parts[1]), []byte(secret)) == 1
}

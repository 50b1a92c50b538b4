package envelope

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep the arrays and objects of a value may be nested for Zebra's middleware, inside of the request.
const maxDepth = 126

// readable tells whether valid JSON is valid to Zebra's JSON library too: its strings are UTF-8, and no escape is half a character.
func readable(text []byte) bool {
	if !utf8.Valid(text) {
		return false
	}
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if i++; text[i] != 'u' {
			continue
		}
		unit, i2 := escaped(text, i+1), i+5
		i = i2 - 1
		if !utf16.IsSurrogate(unit) {
			continue
		}
		if !bytes.HasPrefix(text[i2:], []byte(`\u`)) || utf16.DecodeRune(unit, escaped(text, i2+2)) == utf8.RuneError {
			return false
		}
		i = i2 + 5
	}
	return true
}

// escaped reads the four digits of an escape.
func escaped(text []byte, at int) rune {
	n, err := strconv.ParseUint(string(text[at:at+4]), 16, 16)
	if err != nil {
		return utf8.RuneError // the text is not valid JSON
	}
	return rune(n)
}

// isValue tells whether valid JSON can be a value of Zebra's JSON library: besides readable, its numbers are finite and it is not
// nested too deep.
func isValue(text []byte) bool {
	if !readable(text) {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return false
			}
		case c == ']' || c == '}':
			depth--
		case c == '-' || c >= '0' && c <= '9':
			end := i
			for end < len(text) && bytes.IndexByte([]byte("+-.eE0123456789"), text[end]) >= 0 {
				end++
			}
			if _, err := strconv.ParseFloat(string(text[i:end]), 64); err != nil {
				return false
			}
			i = end - 1
		}
	}
	return true
}

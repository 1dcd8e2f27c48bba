package redact

import "strings"

// survivor returns a substring of secret of 4 or more bytes that text contains, or "".
// What the mask or the given surroundings contain anyway proves nothing.
func survivor(text, secret string, surroundings ...string) string {
	text = strings.ReplaceAll(text, Mask, "\u2022") // its letters are no part of a secret
	for i := 0; i+minLiteral <= len(secret); i++ {
		part := secret[i : i+minLiteral]
		known := !strings.Contains(text, part)
		for _, s := range surroundings {
			known = known || strings.Contains(s, part)
		}
		if !known {
			return part
		}
	}
	return ""
}

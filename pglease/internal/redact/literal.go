package redact

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
)

// minLiteral is the length in bytes below which a secret is not searched for.
const minLiteral = 4

// literalForms returns the forms under which a secret is searched for. Forms
// that are percent-encoded or escaped with backslashes are absent: the text is
// decoded instead, which also finds the ones that encode only some bytes.
func literalForms(secret string) []string {
	// What consists of the mask's letter would be found in every mask.
	if len(secret) < minLiteral || strings.Trim(secret, Mask[:1]) == "" {
		return nil
	}
	forms := []string{secret}
	add := func(form string) {
		if form != secret {
			forms = append(forms, form)
		}
	}
	add(strings.ReplaceAll(secret, "'", "''"))               // SQL
	add(strings.ReplaceAll(secret, " ", "+"))                // a URL's query, its percent signs decoded
	add(strings.ToValidUTF8(secret, "\ufffd"))               // one for a run of invalid bytes
	add(string([]rune(secret)))                              // one for each of them, as JSON
	add(strings.ReplaceAll(secret, "\r\n", "\n"))            // text mode
	add(hex.EncodeToString([]byte(secret)))                  // %x
	add(strings.ToUpper(hex.EncodeToString([]byte(secret)))) // %X
	add(byteList(secret, " ", "", 10))                       // %v of a []byte
	add(byteList(secret, ",", "", 10))                       // JSON of a byte array
	add(byteList(secret, ", ", "0x", 16))                    // %#v of a []byte
	for shift := range 3 {
		add(base64Core(secret, shift, base64.RawStdEncoding))
		add(base64Core(secret, shift, base64.RawURLEncoding))
	}
	return forms
}

// base64Core returns the characters that depend on the secret alone when shift
// bytes (modulo 3) precede it in an encoded text.
func base64Core(secret string, shift int, enc *base64.Encoding) string {
	coded := enc.EncodeToString(append(make([]byte, shift), secret...))
	first := (shift*8 + 5) / 6
	return coded[first : (shift+len(secret))*8/6]
}

func byteList(secret, separator, prefix string, base int) string {
	var b strings.Builder
	for i := range len(secret) {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(prefix)
		b.WriteString(strconv.FormatUint(uint64(secret[i]), base))
	}
	return b.String()
}

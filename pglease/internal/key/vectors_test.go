package key

import "strings"

var vectors = map[string]int64{
	"a":                      5374906597990186442,
	"nightly-report":         7440995589958059143,
	"migrations":             6165142355103656325,
	"Zürich":                 4778715432666969653,
	"名前":                     9133971374561021167,
	strings.Repeat("x", 255): 5919429593120609644,
	"it's \"quoted\"":        289816504242486383,
}

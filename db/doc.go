// Package db is what sqlc makes of queries/ and schema/: every statement that pglease sends, for those who audit it. It is
// regenerated (make generate), never edited, and carries no promise of compatibility.
package db

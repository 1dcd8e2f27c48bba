//go:build !race

package pglease_test

const raceDetector = false

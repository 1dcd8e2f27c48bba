package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// A mutant is one patch.
type mutant struct {
	name, rule string
	checks     []check
	patch      string
	files      []string // that it changes
}

// A check is a command that has to fail.
type check struct {
	text    string
	folder  string
	command []string
	says    *regexp.Regexp
}

var testName = regexp.MustCompile(`-run \^?(Test\w+)\S*`)

// shown is what the table calls it: the test, or the command.
func (c check) shown() string {
	if run := testName.FindString(c.text); run != "" {
		return "`" + strings.NewReplacer("-run ", "", "^", "", "$", "").Replace(run) + "`"
	}
	return "`" + strings.Join(c.command, " ") + "`"
}

// parse reads a patch and the lines before it.
func parse(name, text string) (*mutant, error) {
	m := &mutant{name: name, patch: text}
	head, body, ok := strings.Cut(text, "\ndiff --git ")
	if !ok {
		return nil, errors.New("no patch in it")
	}
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Rule":
			m.rule = value
		case "Check":
			c, err := parseCheck(value)
			if err != nil {
				return nil, err
			}
			m.checks = append(m.checks, c)
		case "Says":
			says, err := regexp.Compile(value)
			if err != nil || len(m.checks) == 0 {
				return nil, fmt.Errorf("line %q: %w", line, err)
			}
			m.checks[len(m.checks)-1].says = says
		case "":
		default:
			return nil, fmt.Errorf("line %q: neither Rule, Check nor Says", line)
		}
	}
	for line := range strings.Lines(body) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "+++ b/"); ok {
			m.files = append(m.files, path)
		}
	}
	if m.rule == "" || len(m.checks) == 0 || len(m.files) == 0 {
		return nil, errors.New("no Rule, no Check, or no file")
	}
	for _, c := range m.checks {
		if c.says == nil {
			return nil, fmt.Errorf("what is %q to say?", c.text)
		}
	}
	return m, nil
}

func parseCheck(text string) (check, error) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return check{}, fmt.Errorf("check %q: want a folder and a command", text)
	}
	c := check{text: text, folder: words[0], command: words[1:]}
	if name := testName.FindStringSubmatch(text); name != nil {
		c.says = regexp.MustCompile("--- FAIL: " + name[1] + `\b`)
	}
	return c, nil
}

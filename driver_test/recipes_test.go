package driver_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```")

// The recipes show the very code that is tested: each block of Go stands in a file of examples, whole lines of it.
func TestRecipesShowTestedCode(t *testing.T) {
	page, err := os.ReadFile("../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("examples_*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	var tested strings.Builder
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tested.WriteString("\n" + string(source))
	}
	blocks := goBlock.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 5 {
		t.Errorf("%d blocks of code", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(tested.String(), "\n"+block[1]) {
			t.Errorf("this is in docs/recipes.md and in no file of examples:\n%s", block[1])
		}
	}
}

// Links of the pages in docs/ lead somewhere, within a page too.
func TestPagesLinkToWhatIsThere(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		anchors := map[string]bool{}
		for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
			anchor := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
			anchors[strings.ReplaceAll(anchor, " ", "-")] = true
		}
		for _, link := range regexp.MustCompile(`\]\(([^):]+)\)`).FindAllStringSubmatch(string(text), -1) {
			file, anchor, _ := strings.Cut(link[1], "#")
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), file)); file != "" && err != nil {
				t.Errorf("%s: %v", page, err)
			}
			if file == "" && !anchors[anchor] {
				t.Errorf("%s: there is no heading for #%s", page, anchor)
			}
		}
	}
}

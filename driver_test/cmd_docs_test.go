//go:build unix

package driver_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pglease/pglease-go/driver_test/pgserver"
)

// The pages for operators are run as far as that can be done here: their blocks are taken out of them, with this machine's
// paths and database in place of the ones that they name.

// A page is a page of docs/ for one test.
type page struct {
	e     *env
	dir   string // stands for /opt/app
	text  string
	words *strings.Replacer
}

func (e *env) page(t *testing.T, name string) *page {
	t.Helper()
	host, port := e.place.address(t)
	role, _ := e.role()
	e.exec(fmt.Sprintf("ALTER ROLE %s PASSWORD 'the-password'", role))
	e.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON pglease_leases TO " + role)
	e.exec(fmt.Sprintf("ALTER ROLE %s SET search_path = %s", role, e.schema))
	p := &page{e: e, dir: t.TempDir(), text: contents("../docs/" + name)}
	p.words = strings.NewReplacer(
		"/opt/app", p.dir,
		"/usr/local/bin/pglease", commandPath(t),
		"PATH=/usr/local/bin:", "PATH="+filepath.Dir(commandPath(t))+":",
		"app:the-password@db.example.com:5432/app", role+":the-password@"+host+":"+port+"/"+e.database,
		"db.example.com:5432:app:app", host+":"+port+":"+e.database+":"+role,
		"db.example.com", host, "5432", port, "dbname=app", "dbname="+e.database, "user=app", "user="+role,
		"verify-full", "prefer",
	)
	return p
}

// blocks returns the fenced blocks whose first line is so.
func (p *page) blocks(t *testing.T, first string) (blocks []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?ms)^```"+regexp.QuoteMeta(first)+"\n(.*?)^```").FindAllStringSubmatch(p.text, -1) {
		blocks = append(blocks, p.words.Replace(m[1]))
	}
	if len(blocks) == 0 {
		t.Fatalf("the page has no block %q", first)
	}
	return blocks
}

func (p *page) write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// together runs a line of shell three times at once.
func (p *page) together(t *testing.T, line string, variables ...string) (codes []int) {
	t.Helper()
	var all []*process
	for range 3 {
		all = append(all, p.e.startWith(t, exec.Command("/bin/sh", "-c", line), variables...))
	}
	for _, one := range all {
		codes = append(codes, one.wait(t))
		if said := one.said(); said != "" {
			t.Logf("it said %s", said)
		}
	}
	return codes
}

// allSucceeded fails unless all three ended with 0.
func allSucceeded(t *testing.T, codes []int) {
	t.Helper()
	for _, c := range codes {
		if c != 0 {
			t.Errorf("the exit codes are %v", codes)
			return
		}
	}
}

func TestDocsCrontab(t *testing.T) {
	e := newEnv(t).table()
	p := e.page(t, "crontab.md")
	p.write(t, "pg_service.conf", p.blocks(t, "ini")[0], 0o600)
	p.write(t, "pgpass", p.blocks(t, "pgpass")[0], 0o600)
	p.write(t, "report.sh", "#!/bin/sh\necho ran >>"+p.dir+"/runs\n", 0o700)
	var variables []string
	command := ""
	for _, line := range strings.Split(p.blocks(t, "crontab")[0], "\n") {
		switch fields := strings.Fields(line); {
		case len(fields) == 0:
		case len(fields) > 6 && fields[5] == "app":
			command = line[strings.Index(line, " app ")+len(" app "):]
		default:
			variables = append(variables, line)
		}
	}
	allSucceeded(t, p.together(t, command, variables...))
	if got := contents(p.dir + "/runs"); got != "ran\n" {
		t.Errorf("the report ran %d times", strings.Count(got, "\n"))
	}
}

func TestDocsSystemd(t *testing.T) {
	e := newEnv(t).table()
	p := e.page(t, "systemd.md")
	variables := p.write(t, "pglease.env", p.blocks(t, "env")[0], 0o600)
	p.write(t, "report.sh", "#!/bin/sh\necho ran >>"+p.dir+"/runs\n", 0o700)
	p.write(t, "scheduler", "#!/bin/sh\necho leads >>"+p.dir+"/leaders\nexec sleep 300\n", 0o700)
	var units []string
	for _, name := range []string{"nightly-report.timer", "nightly-report.service", "scheduler.service"} {
		units = append(units, p.write(t, name, p.blocks(t, "systemd "+name)[0], 0o600))
	}
	start := regexp.MustCompile("(?m)^ExecStart=(.*)$")
	report := start.FindStringSubmatch(contents(units[1]))[1]
	allSucceeded(t, p.together(t, ". "+variables+" && export PGLEASE_DSN && exec "+report))
	if got := contents(p.dir + "/runs"); got != "ran\n" {
		t.Errorf("the report ran %d times", strings.Count(got, "\n"))
	}
	scheduler := ". " + variables + " && export PGLEASE_DSN && exec " + start.FindStringSubmatch(contents(units[2]))[1]
	first := e.startWith(t, exec.Command("/bin/sh", "-c", scheduler))
	eventually(t, "a leader", func() bool { return contents(p.dir+"/leaders") == "leads\n" })
	second := e.startWith(t, exec.Command("/bin/sh", "-c", scheduler))
	first.signal(t, 15)
	first.mustEnd(t, 143)
	eventually(t, "another leader", func() bool { return contents(p.dir+"/leaders") == "leads\nleads\n" })
	second.signal(t, 15)
	second.mustEnd(t, 143)

	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		pgserver.NotRun(t, "systemd", err.Error())
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range units {
		text := strings.ReplaceAll(contents(unit), "User=app", "User="+me.Username)
		if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(verify, append([]string{"verify"}, units...)...).CombinedOutput(); err != nil || strings.Contains(string(out), p.dir) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

func TestDocsMigrations(t *testing.T) {
	e := newEnv(t).table()
	p := e.page(t, "migrations.md")
	script := p.write(t, "deploy", p.blocks(t, "sh")[0], 0o700)
	p.write(t, "migrate", `#!/bin/sh
mkdir `+p.dir+`/migrating || { echo two at once >&2; exit 1; }
sleep 0.1
echo $1 >>`+p.dir+`/migrations
rmdir `+p.dir+`/migrating
`, 0o700)
	p.write(t, "start", "#!/bin/sh\necho started >>"+p.dir+"/starts\n", 0o700)
	path := "PATH=" + filepath.Dir(commandPath(t)) + ":" + os.Getenv("PATH")
	allSucceeded(t, p.together(t, script, path, "PGLEASE_DSN="+e.dsn()))
	if ups, starts := contents(p.dir+"/migrations"), contents(p.dir+"/starts"); ups != "up\nup\nup\n" || starts != "started\nstarted\nstarted\n" {
		t.Errorf("migrations %q, starts %q", ups, starts)
	}
	p.write(t, "migrate", "#!/bin/sh\nexit 9\n", 0o700)
	for _, code := range p.together(t, script, path, "PGLEASE_DSN="+e.dsn()) {
		if code != 9 {
			t.Errorf("a failed migration: exit code %d", code)
		}
	}
}

func TestDocsKubernetes(t *testing.T) {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		pgserver.NotRun(t, "kubectl", err.Error())
	}
	e := newEnv(t).table()
	p := e.page(t, "kubernetes.md")
	p.write(t, "report.sh", "#!/bin/sh\necho ran >>"+p.dir+"/runs\n", 0o700)
	p.write(t, "scheduler", "#!/bin/sh\necho leads >>"+p.dir+"/runs\nexec sleep 300\n", 0o700)
	type pod struct {
		Containers []struct{ Command, Args []string }
	}
	type template struct{ Spec pod }
	for n, block := range p.blocks(t, "yaml") {
		file := p.write(t, fmt.Sprintf("%d.yaml", n), block, 0o600)
		out, err := exec.Command(kubectl, "label", "--local", "-f", file, "checked=yes", "-o", "json").Output()
		if err != nil {
			t.Fatalf("kubectl: %v", err)
		}
		var object struct {
			Kind string
			Spec struct {
				Template    template
				JobTemplate struct{ Spec struct{ Template template } }
			}
		}
		if err := json.Unmarshal(out, &object); err != nil {
			t.Fatal(err)
		}
		c := append(object.Spec.Template.Spec.Containers, object.Spec.JobTemplate.Spec.Template.Spec.Containers...)[0]
		argv := append(c.Command, c.Args...)
		started := e.startWith(t, exec.Command(argv[0], argv[1:]...), "PGLEASE_DSN="+e.dsn())
		want := map[string]string{"CronJob": "ran\n", "Deployment": "leads\n"}[object.Kind]
		eventually(t, "the container of the "+object.Kind, func() bool { return contents(p.dir+"/runs") == want })
		_ = os.Remove(p.dir + "/runs")
		if object.Kind == "Deployment" {
			started.signal(t, 15)
			started.mustEnd(t, 143)
		} else {
			started.mustEnd(t, 0)
		}
	}
}

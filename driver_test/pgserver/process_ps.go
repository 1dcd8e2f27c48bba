//go:build unix && !linux

package pgserver

import (
	"os/exec"
	"strconv"
	"strings"
)

func listProcesses() ([]processInfo, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,state=").Output()
	if err != nil {
		return nil, err
	}
	var all []processInfo
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		pid, _ := strconv.Atoi(fields[0])
		parent, _ := strconv.Atoi(fields[1])
		all = append(all, processInfo{pid: pid, parent: parent, state: fields[2][0]})
	}
	return all, nil
}

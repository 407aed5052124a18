// Package maitredtest starts Maitred for the tests of what stands behind it.
//
// A test program can be the application of its own tests: its TestMain serves if maitred.Started says that Maitred has
// started it, and the configuration names os.Args[0] as the pool's command.
package maitredtest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Deadline bounds each wait. It only says how long a test that fails may take.
const Deadline = 60 * time.Second

// linesMax is how many unread lines are kept; Maitred waits when there are more.
const linesMax = 10_000

var listens = regexp.MustCompile(`http://(127\.0\.0\.1:\d+)`)

// Server is a running Maitred.
type Server struct {
	// Address is where it listens.
	Address string

	t       testing.TB
	command *exec.Cmd
	lines   chan string
}

// Start runs Maitred with a configuration, in which an address is "127.0.0.1:0", and ends it with the test, which fails
// if Maitred does not end well. The program is the one that the environment variable MAITRED names, or what cargo has
// built last in a directory above, or the one in PATH; without any the test is skipped.
func Start(t testing.TB, configuration string) *Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "maitred.toml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program(t), "run", "-c", file)
	output, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout = command.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, command: command, lines: make(chan string, linesMax)}
	go func() {
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			s.lines <- scanner.Text()
		}
		close(s.lines)
	}()
	t.Cleanup(func() {
		if said, err := s.Stop(); err != nil {
			t.Errorf("%v; it said:\n%s", err, said)
		}
	})
	s.Address = listens.FindStringSubmatch(s.Says(listens))[1]
	return s
}

// URL is the address of a path.
func (s *Server) URL(path string) string { return "http://" + s.Address + path }

// Says waits for a line that Maitred or the application writes.
func (s *Server) Says(wanted *regexp.Regexp) string {
	s.t.Helper()
	var seen []string
	late := time.After(Deadline)
	for {
		select {
		case line, open := <-s.lines:
			if !open {
				s.t.Fatalf("Maitred has ended; it said:\n%s", strings.Join(seen, "\n"))
			}
			if seen = append(seen, line); wanted.MatchString(line) {
				return line
			}
		case <-late:
			s.t.Fatalf("no line matches %v; there was:\n%s", wanted, strings.Join(seen, "\n"))
		}
	}
}

// Stop ends it in an orderly way, and returns the lines that were not read, and its status. The second time it does nothing.
func (s *Server) Stop() (string, error) {
	if s.command.ProcessState != nil {
		return "", nil
	}
	_ = s.command.Process.Signal(syscall.SIGTERM)
	killer := time.AfterFunc(Deadline, func() { _ = s.command.Process.Kill() })
	defer killer.Stop()
	var said []string
	for line := range s.lines {
		said = append(said, line)
	}
	err := s.command.Wait()
	return strings.Join(said, "\n"), err
}

// program is the Maitred to test with.
func program(t testing.TB) string {
	t.Helper()
	if given := os.Getenv("MAITRED"); given != "" {
		return given
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for above := here; above != filepath.Dir(above); above = filepath.Dir(above) {
		if built := filepath.Join(above, "target", "debug", "maitred"); isFile(built) {
			return built
		}
	}
	installed, err := exec.LookPath("maitred")
	if err != nil {
		t.Skip("there is no Maitred to test with: MAITRED names none, and nothing is built (cargo build -p maitred) or installed")
	}
	return installed
}

func isFile(path string) bool {
	found, err := os.Stat(path)
	return err == nil && found.Mode().IsRegular()
}

// Oracle says what the scheduling plugins of the Kubernetes release in go.mod decide.
//
// It reads golden cases, one JSON object per line, and answers each with one line. The first line it
// writes, before it reads, names the release. Cases know nothing of one another.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
)

func main() {
	klog.SetLogger(klog.Logger{}) // Nothing is logged: what goes wrong is part of an answer.
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	answers := json.NewEncoder(out)
	answers.SetEscapeHTML(false)
	if err := answers.Encode(map[string]string{"kubernetes": version.Get().GitVersion}); err != nil {
		return err
	}
	lines := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := answers.Encode(answer(line)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// answer decides one case; a panic in a plugin is the answer of that case only.
func answer(line []byte) (found Answer) {
	defer func() {
		if reason := recover(); reason != nil {
			found = Answer{Failed: fmt.Sprintf("panic: %v\n%s", reason, debug.Stack())}
		}
	}()
	var asked Case
	if err := json.Unmarshal(line, &asked); err != nil {
		return Answer{Failed: fmt.Sprintf("not a case: %v", err)}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	decided, err := decide(ctx, &asked)
	var invalid invalidError
	switch {
	case errors.As(err, &invalid):
		return Answer{Invalid: invalid.Error()}
	case err != nil:
		return Answer{Failed: err.Error()}
	}
	return decided
}

func decide(ctx context.Context, asked *Case) (Answer, error) {
	objects, err := decode(asked)
	if err != nil {
		return Answer{}, err
	}
	last := len(objects) - 1
	pod, ok := objects[last].(*v1.Pod)
	if !ok {
		return Answer{}, fmt.Errorf("the pod is a %T", objects[last])
	}
	cluster, err := newCluster(ctx, asked.Config, objects[:last], pod)
	if err != nil {
		return Answer{}, err
	}
	expect, err := cluster.attempt(ctx)
	if err != nil {
		return Answer{}, err
	}
	stored := map[int]runtime.Object{}
	for _, place := range asked.Check {
		stored[place] = objects[place]
	}
	return Answer{Expect: expect, Stored: stored}, nil
}

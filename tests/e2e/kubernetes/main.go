// Kubernetes runs Kubernetes' own end-to-end tests for scheduling and workloads against the cluster of
// a kubeconfig.
//
// It takes the flags of upstream's e2e.test. The tests are upstream's, from the module that go.mod
// pins; those of other areas are about what runs in containers.
package main

import (
	"flag"
	"os"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	_ "k8s.io/kubernetes/test/e2e/apps"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
)

// verdict is where Ginkgo reports that a test has failed.
type verdict struct{ failed bool }

func (v *verdict) Fail() { v.failed = true }

func main() {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	framework.AfterReadingAllFlags(&framework.TestContext)
	framework.TestContext.IPFamily = "ipv4" // as in every cluster here
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := framework.CreateGinkgoConfig()
	var seen verdict
	ginkgo.RunSpecs(&seen, "Kubernetes e2e suite", suite, reporter)
	if seen.failed {
		os.Exit(1)
	}
}

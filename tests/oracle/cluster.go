package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// cluster is a scheduler that was made for one case and knows its objects.
type cluster struct {
	framework framework.Framework
	snapshot  *internalcache.Snapshot
	twins     twins
	pod       *v1.Pod
	// claims tells whether there are any: without them golden cases do not hold devices.
	claims bool
}

func newCluster(ctx context.Context, written *Config, objects []runtime.Object, pod *v1.Pod) (*cluster, error) {
	chosen, err := readProfile(written)
	if err != nil {
		return nil, err
	}
	client := newClient()
	factory, byKind := newInformers(client)
	record := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	sched, err := scheduler.New(ctx, client, factory, nil, profile.RecorderFactory(record), scheduler.WithProfiles(*chosen))
	if err != nil {
		return nil, invalidError{err}
	}
	c := &cluster{framework: sched.Profiles[chosen.SchedulerName], pod: pod}
	if c.twins, err = newTwins(ctx, c.framework, chosen); err != nil {
		return nil, err
	}
	if err := fill(byKind, objects); err != nil {
		return nil, err
	}
	c.claims = slices.ContainsFunc(objects, func(obj runtime.Object) bool { return kindOf(obj) == "ResourceClaim" })
	if err := c.addPod(ctx, byKind["Pod"]); err != nil {
		return nil, err
	}
	var ok bool
	if c.snapshot, ok = c.framework.SnapshotSharedLister().(*internalcache.Snapshot); !ok {
		return nil, errors.New("the scheduler has another kind of snapshot")
	}
	return c, sched.Cache.UpdateSnapshot(klog.FromContext(ctx), c.snapshot)
}

// readProfile completes a profile as kube-scheduler does.
func readProfile(written *Config) (*config.KubeSchedulerProfile, error) {
	file := map[string]any{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
	if written != nil && written.Profile != nil {
		file["profiles"] = []json.RawMessage{written.Profile}
	}
	text, err := json.Marshal(file)
	if err != nil {
		return nil, err
	}
	decoded, _, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, invalidError{err}
	}
	whole, ok := decoded.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("the configuration became a %T", decoded)
	}
	if err := validation.ValidateKubeSchedulerConfiguration(whole); err != nil {
		return nil, invalidError{err}
	}
	return &whole.Profiles[0], nil
}

// newClient takes every write, evictions among them, and does nothing.
func newClient() *fake.Clientset {
	client := &fake.Clientset{}
	client.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if write, ok := action.(interface{ GetObject() runtime.Object }); ok {
			return true, write.GetObject(), nil
		}
		return true, nil, nil
	})
	return client
}

// fill puts the objects into the informers, then tells the scheduler in the order in which the API
// lists them: of pods last, because PreEnqueue plugins look at other objects when a pending one
// arrives.
func fill(byKind map[string]*filled, objects []runtime.Object) error {
	var pods, others []runtime.Object
	for _, obj := range objects {
		pod, isPod := obj.(*v1.Pod)
		switch {
		case !isPod:
			others = append(others, obj)
		case pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed:
			pods = append(pods, obj)
		}
	}
	slices.SortStableFunc(others, byKey)
	slices.SortStableFunc(pods, byKey)
	ordered := append(others, pods...)
	for _, obj := range ordered {
		if err := byKind[kindOf(obj)].GetIndexer().Add(obj); err != nil {
			return err
		}
	}
	for _, obj := range ordered {
		byKind[kindOf(obj)].tell(obj)
	}
	return nil
}

func byKey(a, b runtime.Object) int {
	one, other := a.(metav1.Object), b.(metav1.Object)
	return cmp.Or(
		strings.Compare(one.GetNamespace(), other.GetNamespace()),
		strings.Compare(one.GetName(), other.GetName()),
	)
}

func kindOf(obj runtime.Object) string {
	return obj.GetObjectKind().GroupVersionKind().Kind
}

// addPod makes the pod under test known to listers and the nominator. The event handlers are not
// told: it may name a node already, and would count as running there.
func (c *cluster) addPod(ctx context.Context, pods *filled) error {
	if err := pods.GetIndexer().Add(c.pod); err != nil {
		return err
	}
	if c.pod.Status.NominatedNodeName == "" {
		return nil
	}
	info, err := framework.NewPodInfo(c.pod)
	if err != nil {
		return invalidError{err}
	}
	c.framework.AddNominatedPod(klog.FromContext(ctx), info, &fwk.NominatingInfo{
		NominatingMode:    fwk.ModeOverride,
		NominatedNodeName: c.pod.Status.NominatedNodeName,
	})
	return nil
}

package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// twins are second instances of some plugins, made as the framework made its own, which it does not
// hand out. They read the state that the framework's own left behind, and answer what the framework
// does not tell: all candidates of a preemption, devices.
type twins struct {
	plugins map[string]fwk.Plugin
	devices *deviceSpy
}

func newTwins(ctx context.Context, own framework.Framework, profile *config.KubeSchedulerProfile) (twins, error) {
	found := twins{plugins: map[string]fwk.Plugin{}, devices: &deviceSpy{SharedDRAManager: own.SharedDRAManager()}}
	handle := spiedHandle{own, found.devices}
	args := map[string]runtime.Object{}
	for _, plugin := range profile.PluginConfig {
		args[plugin.Name] = plugin.Args
	}
	enabled := own.ListPlugins()
	wanted := map[string]bool{}
	for _, set := range []config.PluginSet{enabled.PostFilter, enabled.Reserve} {
		for _, plugin := range set.Enabled {
			wanted[plugin.Name] = true
		}
	}
	for name, factory := range plugins.NewInTreeRegistry() {
		if !wanted[name] {
			continue
		}
		plugin, err := factory(ctx, args[name], handle)
		if err != nil {
			return twins{}, fmt.Errorf("plugin %s: %w", name, err)
		}
		found.plugins[name] = plugin
	}
	return found, nil
}

// candidates are all nodes on which evictions would help, found by a dry run without a limit.
func (t twins) candidates(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (map[string]Candidate, error) {
	plugin, ok := t.plugins[names.DefaultPreemption].(*defaultpreemption.DefaultPreemption)
	if !ok || len(nodes) == 0 {
		return nil, nil
	}
	budgets, err := plugin.Evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	// Errors of single nodes do not keep upstream from the others.
	helpful, _, _ := plugin.Evaluator.DryRunPreemption(ctx, state, pod, nodes, budgets, 0, int32(len(nodes)))
	found := map[string]Candidate{}
	for _, one := range helpful {
		victims := one.Victims()
		candidate := Candidate{NumPDBViolations: victims.NumPDBViolations}
		for _, victim := range victims.Pods {
			candidate.Victims = append(candidate.Victims, victim.Namespace+"/"+victim.Name)
		}
		found[one.Name()] = candidate
	}
	return found, nil
}

// assigned are the devices that the pod's claims would get on a node, one list per claim.
func (t twins) assigned(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) [][]Assigned {
	plugin, ok := t.plugins[names.DynamicResources].(fwk.ReservePlugin)
	if !ok {
		return nil
	}
	t.devices.signalled = nil
	if !plugin.Reserve(ctx, state, pod, node).IsSuccess() {
		return nil // DynamicResources was skipped, or there is nothing to allocate.
	}
	found := make([][]Assigned, 0, len(t.devices.signalled))
	for _, claim := range t.devices.signalled {
		devices := make([]Assigned, 0, len(claim.Status.Allocation.Devices.Results))
		for _, result := range claim.Status.Allocation.Devices.Results {
			devices = append(devices, newAssigned(result))
		}
		found = append(found, devices)
	}
	return found
}

func newAssigned(result resourceapi.DeviceRequestAllocationResult) Assigned {
	found := Assigned{
		Request:     result.Request,
		Driver:      result.Driver,
		Pool:        result.Pool,
		Device:      result.Device,
		AdminAccess: result.AdminAccess != nil && *result.AdminAccess,
	}
	for name, amount := range result.ConsumedCapacity {
		if found.ConsumedCapacity == nil {
			found.ConsumedCapacity = map[string]string{}
		}
		found.ConsumedCapacity[string(name)] = amount.String()
	}
	return found
}

// spiedHandle gives plugins a DRA manager that notes what they allocate instead of doing it.
type spiedHandle struct {
	framework.Framework
	devices *deviceSpy
}

func (h spiedHandle) SharedDRAManager() fwk.SharedDRAManager { return h.devices }

type deviceSpy struct {
	fwk.SharedDRAManager
	signalled []*resourceapi.ResourceClaim
}

func (s *deviceSpy) ResourceClaims() fwk.ResourceClaimTracker {
	return claimSpy{s.SharedDRAManager.ResourceClaims(), s}
}

type claimSpy struct {
	fwk.ResourceClaimTracker
	spy *deviceSpy
}

func (c claimSpy) SignalClaimPendingAllocation(_ types.UID, allocated *resourceapi.ResourceClaim) error {
	c.spy.signalled = append(c.spy.signalled, allocated)
	return nil
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// attempt tries to place the pod as the scheduler does, but looks at every node, one by one, and
// scores all that are feasible.
func (c *cluster) attempt(ctx context.Context) (*Expect, error) {
	expect := newExpect()
	for _, plugin := range c.framework.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(ctx, c.pod); !status.IsSuccess() {
			expect.PreEnqueue = &Verdict{plugin.Name(), status.Code().String(), status.Reasons()}
			return expect, nil
		}
	}
	nodes, err := c.snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, invalidError{scheduler.ErrNoNodesAvailable}
	}
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b fwk.NodeInfo) int {
		return strings.Compare(a.Node().Name, b.Node().Name)
	})
	state := framework.NewCycleState()
	diagnosis := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	feasible := c.filter(ctx, state, nodes, &diagnosis, expect)
	switch {
	case expect.Error != "":
		return expect, nil
	case len(feasible) == 0:
		return expect, c.postFilter(ctx, state, len(nodes), diagnosis, expect)
	default:
		c.score(ctx, state, feasible, expect)
		return expect, nil
	}
}

// filter notes what PreFilter and Filter plugins say, and returns the nodes that are left.
func (c *cluster) filter(ctx context.Context, state fwk.CycleState, nodes []fwk.NodeInfo, diagnosis *framework.Diagnosis, expect *Expect) []fwk.NodeInfo {
	result, status, rejecting := c.framework.RunPreFilterPlugins(ctx, state, c.pod)
	diagnosis.UnschedulablePlugins = rejecting
	expect.SkippedFilterPlugins = sorted(state.GetSkipFilterPlugins())
	if !status.IsSuccess() {
		if !status.IsRejected() {
			expect.Error = status.AsError().Error()
			return nil
		}
		expect.PreFilter = newVerdict(status)
		diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		diagnosis.PreFilterMsg = status.Message()
		diagnosis.AddPluginStatus(status)
		return nil
	}
	if !result.AllNodes() {
		expect.PreFilterNodes = sorted(result.NodeNames)
		diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(rejecting))))
	}
	var feasible []fwk.NodeInfo
	for _, node := range nodes {
		name := node.Node().Name
		if !result.AllNodes() && !result.NodeNames.Has(name) {
			continue
		}
		status := c.framework.RunFilterPluginsWithNominatedPods(ctx, state, c.pod, node)
		if status.IsSuccess() {
			feasible = append(feasible, node)
			continue
		}
		if status.Code() == fwk.Error && expect.Error == "" {
			expect.Error = status.AsError().Error()
		}
		diagnosis.NodeToStatus.Set(name, status)
		diagnosis.AddPluginStatus(status)
		expect.Filter[name] = *newVerdict(status)
	}
	return feasible
}

func (c *cluster) score(ctx context.Context, state fwk.CycleState, feasible []fwk.NodeInfo, expect *Expect) {
	if status := c.framework.RunPreScorePlugins(ctx, state, c.pod, feasible); !status.IsSuccess() {
		expect.Error = status.AsError().Error()
		return
	}
	scored, status := c.framework.RunScorePlugins(ctx, state, c.pod, feasible)
	if !status.IsSuccess() {
		expect.Error = status.AsError().Error()
		return
	}
	expect.SkippedScorePlugins = sorted(state.GetSkipScorePlugins())
	expect.NoScorePlugins = !c.framework.HasScorePlugins()
	highest := scored[0].TotalScore
	for i, node := range feasible {
		name := node.Node().Name
		expect.Feasible = append(expect.Feasible, name)
		found := NodeScore{scored[i].TotalScore, map[string]int64{}, map[string]int64{}}
		for _, part := range scored[i].Scores {
			found.Plugins[part.Name] = part.Score
		}
		for _, part := range scored[i].RawScores {
			found.Raw[part.Name] = part.Score
		}
		expect.Scores[name] = found
		highest = max(highest, found.Total)
		if c.pod.Status.NominatedNodeName == name {
			expect.NominatedShortcut = name
		}
		if devices := c.twins.assigned(ctx, state, c.pod, name); c.claims && len(devices) > 0 {
			if expect.DRAAllocations == nil {
				expect.DRAAllocations = map[string][][]Assigned{}
			}
			expect.DRAAllocations[name] = devices
		}
	}
	for name, found := range expect.Scores {
		if found.Total == highest {
			expect.Best = append(expect.Best, name)
		}
	}
	slices.Sort(expect.Best)
}

func (c *cluster) postFilter(ctx context.Context, state fwk.CycleState, nodes int, diagnosis framework.Diagnosis, expect *Expect) error {
	if c.framework.HasPostFilterPlugins() {
		// Before the plugins run, which write to the state.
		potential, err := diagnosis.NodeToStatus.NodesForStatusCode(c.snapshot.NodeInfos(), fwk.Unschedulable)
		if err != nil {
			return err
		}
		candidates, err := c.twins.candidates(ctx, state.Clone(), c.pod, potential)
		if err != nil {
			return err
		}
		result, status := c.framework.RunPostFilterPlugins(ctx, state, c.pod, diagnosis.NodeToStatus)
		diagnosis.PostFilterMsg = status.Message()
		expect.PostFilter = newPostFilter(result, status, candidates)
	}
	failure := framework.FitError{Pod: c.pod, NumAllNodes: nodes, Diagnosis: diagnosis}
	expect.FitError = failure.Error()
	expect.UnschedulablePlugins = sorted(diagnosis.UnschedulablePlugins)
	return nil
}

func newPostFilter(result *fwk.PostFilterResult, status *fwk.Status, candidates map[string]Candidate) *PostFilter {
	verdict := newVerdict(status)
	found := &PostFilter{Plugin: verdict.Plugin, Code: verdict.Code, Reasons: verdict.Reasons}
	if result == nil || result.NominatingInfo == nil {
		return found
	}
	found.NominatedNode = result.NominatedNodeName
	found.ClearsNomination = result.Mode() == fwk.ModeOverride && result.NominatedNodeName == ""
	if status.IsSuccess() {
		found.Candidates = candidates
		if chosen, ok := candidates[result.NominatedNodeName]; ok {
			found.Victims = map[string][]string{result.NominatedNodeName: chosen.Victims}
		}
	}
	return found
}

func newVerdict(status *fwk.Status) *Verdict {
	reasons := append([]string{}, status.Reasons()...)
	if status.Plugin() == names.NodeResourcesFit {
		// Scalar resources come in Go's random map order, after the ones that have fields.
		slices.SortStableFunc(reasons, byResource)
	}
	return &Verdict{status.Plugin(), status.Code().String(), reasons}
}

var fieldResources = []string{
	"Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage",
}

func byResource(a, b string) int {
	placeA, placeB := slices.Index(fieldResources, a), slices.Index(fieldResources, b)
	switch {
	case placeA < 0 && placeB < 0:
		return strings.Compare(a, b)
	case placeA < 0:
		return 1
	case placeB < 0:
		return -1
	default:
		return placeA - placeB
	}
}

func sorted(names sets.Set[string]) []string {
	return append([]string{}, sets.List(names)...)
}

package main

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
)

// Case is a cluster and the pod to be placed in it: the input of a golden case.
type Case struct {
	Config  *Config           `json:"config"`
	Objects []json.RawMessage `json:"objects"`
	Pod     json.RawMessage   `json:"pod"`
	// Check lists the objects, by their place, that must pass the API's validation. One more than
	// there are objects stands for the pod.
	Check []int `json:"check"`
}

// Config is what a case changes of the configuration.
type Config struct {
	// Profile is a profile as a user writes it, before defaults.
	Profile json.RawMessage `json:"profile"`
}

// Answer is the line that answers a case: what is decided, or why nothing is.
type Answer struct {
	Expect *Expect `json:"expect,omitempty"`
	// Stored are the objects that were checked as the API server would store them, with defaults.
	Stored map[int]runtime.Object `json:"stored,omitempty"`
	// Invalid says why the API would not take an object.
	Invalid string `json:"invalid,omitempty"`
	// Failed says why the case cannot be decided here.
	Failed string `json:"failed,omitempty"`
}

// Expect is what was decided. Fields that every golden case has are never left out.
type Expect struct {
	PreEnqueue           *Verdict                `json:"preEnqueue,omitempty"`
	PreFilter            *Verdict                `json:"preFilter"`
	PreFilterNodes       []string                `json:"preFilterNodes"`
	Filter               map[string]Verdict      `json:"filter"`
	Feasible             []string                `json:"feasible"`
	Scores               map[string]NodeScore    `json:"scores"`
	SkippedFilterPlugins []string                `json:"skippedFilterPlugins"`
	SkippedScorePlugins  []string                `json:"skippedScorePlugins"`
	Best                 []string                `json:"best"`
	NoScorePlugins       bool                    `json:"noScorePlugins,omitempty"`
	NominatedShortcut    string                  `json:"nominatedShortcut,omitempty"`
	FitError             string                  `json:"fitError,omitempty"`
	UnschedulablePlugins []string                `json:"unschedulablePlugins,omitempty"`
	Error                string                  `json:"error,omitempty"`
	PostFilter           *PostFilter             `json:"postFilter,omitempty"`
	DRAAllocations       map[string][][]Assigned `json:"draAllocations,omitempty"`
}

// Verdict is a plugin's status.
type Verdict struct {
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

// NodeScore is what the score plugins gave a node.
type NodeScore struct {
	Total   int64            `json:"total"`
	Plugins map[string]int64 `json:"plugins"`
	Raw     map[string]int64 `json:"raw"`
}

// PostFilter is what became of a pod that fits nowhere.
type PostFilter struct {
	Plugin           string               `json:"plugin,omitempty"`
	Code             string               `json:"code"`
	Reasons          []string             `json:"reasons"`
	NominatedNode    string               `json:"nominatedNode"`
	Victims          map[string][]string  `json:"victims,omitempty"`
	Candidates       map[string]Candidate `json:"candidates,omitempty"`
	ClearsNomination bool                 `json:"clearsNomination,omitempty"`
}

// Candidate is what preemption would evict from a node.
type Candidate struct {
	Victims          []string `json:"victims"`
	NumPDBViolations int64    `json:"numPDBViolations"`
}

// Assigned is a device that a request of a claim would get.
type Assigned struct {
	Request          string            `json:"request"`
	Driver           string            `json:"driver"`
	Pool             string            `json:"pool"`
	Device           string            `json:"device"`
	AdminAccess      bool              `json:"adminAccess,omitempty"`
	ConsumedCapacity map[string]string `json:"consumedCapacity,omitempty"`
}

func newExpect() *Expect {
	return &Expect{
		Filter:               map[string]Verdict{},
		Feasible:             []string{},
		Scores:               map[string]NodeScore{},
		SkippedFilterPlugins: []string{},
		SkippedScorePlugins:  []string{},
		Best:                 []string{},
	}
}

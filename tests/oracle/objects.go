package main

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	"k8s.io/kubernetes/pkg/apis/resource"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	resourcevalidation "k8s.io/kubernetes/pkg/apis/resource/validation"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
)

type (
	creation interface {
		Validate(ctx context.Context, obj runtime.Object) field.ErrorList
	}
	update interface {
		ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList
	}
	// rules are what the API server checks when an object of a kind is created and, where the
	// scheduler reads a status, when that is written.
	rules struct {
		object creation
		status update
	}
)

// kinds are all kinds that a case may hold. A release may lack some.
var kinds = map[schema.GroupVersionKind]rules{
	kind("", "Namespace"):                      {object: namespace.Strategy},
	kind("", "Node"):                           {node.Strategy, node.StatusStrategy},
	kind("", "Pod"):                            {pod.Strategy, pod.StatusStrategy},
	kind("", "PersistentVolume"):               {object: persistentvolume.Strategy},
	kind("", "PersistentVolumeClaim"):          {object: persistentvolumeclaim.Strategy},
	kind("", "ReplicationController"):          {object: replicationcontroller.Strategy},
	kind("", "Service"):                        {object: service.Strategy},
	kind("apps", "ReplicaSet"):                 {object: replicaset.Strategy},
	kind("apps", "StatefulSet"):                {object: statefulset.Strategy},
	kind("policy", "PodDisruptionBudget"):      {poddisruptionbudget.Strategy, poddisruptionbudget.StatusStrategy},
	kind("resource.k8s.io", "DeviceClass"):     {object: deviceclass.Strategy},
	kind("resource.k8s.io", "DeviceTaintRule"): {object: devicetaintrule.Strategy},
	kind("resource.k8s.io", "ResourceClaim"):   {claimRules{}, claimRules{}},
	kind("resource.k8s.io", "ResourceSlice"):   {object: resourceslice.Strategy},
	kind("scheduling.k8s.io", "PriorityClass"): {object: priorityclass.Strategy},
	kind("storage.k8s.io", "CSIDriver"):        {object: csidriver.Strategy},
	kind("storage.k8s.io", "CSINode"):          {object: csinode.Strategy},
	kind("storage.k8s.io", "CSIStorageCapacity"): {
		object: csistoragecapacity.Strategy,
	},
	kind("storage.k8s.io", "StorageClass"):     {object: storageclass.Strategy},
	kind("storage.k8s.io", "VolumeAttachment"): {object: volumeattachment.Strategy},
}

func kind(group, name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}
}

// claimRules stand in for the strategy, which asks the API server about namespaces.
type claimRules struct{}

func (claimRules) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return resourcevalidation.ValidateResourceClaim(obj.(*resource.ResourceClaim))
}

func (claimRules) ValidateUpdate(_ context.Context, obj, _ runtime.Object) field.ErrorList {
	claim := obj.(*resource.ResourceClaim)
	before := claim.DeepCopy() // What has been there before is not checked.
	before.Status = resource.ResourceClaimStatus{}
	return resourcevalidation.ValidateResourceClaimStatusUpdate(claim, before)
}

// invalidError tells that the API would not take an object.
type invalidError struct{ error }

// decode reads the objects and, as the last one, the pod, with the defaults of the API server, and
// checks those that the case wants checked.
func decode(asked *Case) ([]runtime.Object, error) {
	objects := make([]runtime.Object, 0, len(asked.Objects)+1)
	for _, raw := range append(asked.Objects, asked.Pod) {
		obj, err := decodeObject(raw)
		if err != nil {
			return nil, err
		}
		objects = append(objects, obj)
	}
	for _, place := range asked.Check {
		if err := validate(objects[place]); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

func decodeObject(raw json.RawMessage) (runtime.Object, error) {
	obj, found, err := legacyscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, invalidError{err}
	}
	if _, known := kinds[*found]; !known {
		return nil, fmt.Errorf("%v is not a kind that a case may hold", found)
	}
	legacyscheme.Scheme.Default(obj)
	return obj, nil
}

func validate(obj runtime.Object) error {
	ctx := context.Background()
	found := obj.GetObjectKind().GroupVersionKind()
	hub := schema.GroupVersion{Group: found.Group, Version: runtime.APIVersionInternal}
	internal, err := legacyscheme.Scheme.ConvertToVersion(obj, hub)
	if err != nil {
		return invalidError{err}
	}
	internal.(metav1.Object).SetResourceVersion("1") // An update must have one.
	checks := kinds[found]
	errs := checks.object.Validate(ctx, internal)
	if checks.status != nil {
		errs = append(errs, checks.status.ValidateUpdate(ctx, internal, internal)...)
	}
	if len(errs) > 0 {
		return invalidError{fmt.Errorf("%s: %w", found.Kind, errs.ToAggregate())}
	}
	return nil
}

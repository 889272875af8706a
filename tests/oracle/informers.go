package main

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// filled is an informer that nothing is watched for: its objects are put into it, and its handlers
// are told of them before the next line runs. So a case needs no waiting and has no races.
type filled struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

func newFilled(prototype runtime.Object) *filled {
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return &filled{
		SharedIndexInformer: cache.NewSharedIndexInformer(&cache.ListWatch{}, prototype, 0, byNamespace),
	}
}

func (f *filled) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return f.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

func (f *filled) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return f.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &period})
}

func (f *filled) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	f.handlers = append(f.handlers, handler)
	return f.SharedIndexInformer.AddEventHandlerWithOptions(handler, options)
}

// AddIndexers leaves out what is there already: a plugin and its twin want the same.
func (f *filled) AddIndexers(indexers cache.Indexers) error {
	missing := maps.Clone(indexers)
	maps.DeleteFunc(missing, func(name string, _ cache.IndexFunc) bool {
		return f.GetIndexer().GetIndexers()[name] != nil
	})
	return f.SharedIndexInformer.AddIndexers(missing)
}

func (f *filled) HasSynced() bool { return true }

func (f *filled) tell(obj runtime.Object) {
	for _, handler := range f.handlers {
		handler.OnAdd(obj, true)
	}
}

// newInformers makes a factory with such an informer for each kind that this release has.
func newInformers(client kubernetes.Interface) (informers.SharedInformerFactory, map[string]*filled) {
	factory := informers.NewSharedInformerFactory(client, 0)
	byKind := map[string]*filled{}
	for kind := range kinds {
		prototype, err := legacyscheme.Scheme.New(kind)
		if err != nil {
			continue
		}
		informer := newFilled(prototype)
		byKind[kind.Kind] = informer
		factory.InformerFor(prototype, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return informer
		})
	}
	return factory, byKind
}

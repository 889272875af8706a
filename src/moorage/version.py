"""The version of Moorage and of the kube-scheduler whose decisions it makes."""

__version__ = "0.37.0"
KUBERNETES_VERSION = "v1.37.1"

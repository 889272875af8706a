"""All plugins of the gallery, one line each."""

from moorage.framework.plugin import Plugin
from moorage.gallery.best_fit import BestFit
from moorage.gallery.dot_prod import DotProd
from moorage.gallery.fgd import FGD
from moorage.gallery.gpu_clustering import GpuClustering
from moorage.gallery.gpu_headroom import GpuHeadroom
from moorage.gallery.gpu_packing import GpuPacking
from moorage.gallery.random_node import RandomNode

GALLERY: tuple[type[Plugin], ...] = (
    BestFit,
    DotProd,
    FGD,
    GpuClustering,
    GpuHeadroom,
    GpuPacking,
    RandomNode,
)

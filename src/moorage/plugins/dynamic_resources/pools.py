"""Resource pools as one node sees them: which slices count, and whether they can be trusted.

Owns the rules for outdated, incomplete and invalid pools, and the order in which devices are tried.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from moorage.cel import CompileError, EvaluationError
from moorage.model.node import Node
from moorage.plugins.dynamic_resources.selectors import DeviceSelectors, Reads
from moorage.plugins.dynamic_resources.slices import (
    Alike,
    DeviceRecord,
    DeviceShapes,
    Features,
    PoolId,
    SliceRecord,
    TaintedSlices,
    decides_alike,
)
from moorage.plugins.dynamic_resources.usage import DeviceUsage

CounterKey = tuple[str, str]
"""Counter set and counter."""

_MANY_DEVICES = 64
_MOST_KEPT = 8
_NO_DEVICES = Alike()


@dataclass(eq=False)
class Pool:
    """A pool of devices."""

    id: PoolId
    incomplete: bool = False
    invalid: bool = False
    devices: tuple[DeviceRecord, ...] = ()
    """What the node can reach, slice by slice."""
    all_devices: tuple[DeviceRecord, ...] = ()
    """The rest of the pool as well: its devices draw on the same counters."""
    counters: dict[CounterKey, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`driver/pool`."""
        return "/".join(self.id)

    @property
    def binds_late(self) -> bool:
        """Has some device binding conditions? Such pools are tried last."""
        return any(device.device.binding_conditions for device in self.devices)


class NodePools:
    """All pools of a node, and the devices that can be allocated there in the order of trying."""

    def __init__(self, pools: Sequence[Pool], *, several: bool = False) -> None:
        self.pools = pools
        self.any_invalid = any(pool.invalid for pool in pools)
        self.devices = tuple(
            (device, pool)
            for pool in pools
            if not pool.incomplete and not pool.invalid
            for device in pool.devices
        )
        self._for_any_node = several and not any(
            device.nodes is not None or device.skipped_operations for device, _ in self.devices
        )
        """May several nodes have these very pools, and is a search the same on each of them?"""
        self._candidates: dict[tuple[str, ...], tuple[int, ...]] = {}
        self._shapes: dict[Reads, Alike | None] = {}
        self._keys: dict[Reads, tuple[int, Hashable | None]] = {}
        """With the generation in which a device last changed hands."""

    def candidates(self, expressions: tuple[str, ...]) -> Sequence[int]:
        """The places of all devices that may satisfy selectors, and perhaps of others.

        Where there are many devices, as where all nodes reach all of them, most of a search would
        be to find out again and again that the selectors do not want them.
        """
        if len(self.devices) < _MANY_DEVICES:
            return range(len(self.devices))
        found = self._candidates.get(expressions)
        if found is None:
            if len(self._candidates) >= _MOST_KEPT:
                self._candidates.clear()
            found = self._candidates[expressions] = tuple(
                place
                for place, (device, _) in enumerate(self.devices)
                if _may_satisfy(device, expressions)
            )
        return found

    def answer_key(self, usage: DeviceUsage, reads: Reads) -> Hashable | None:
        """What nodes have in common that give the same devices, by their places.

        Nodes are mostly bought in numbers, so their devices differ only in names and in attributes
        such as serial numbers. A search reads no names, and only the attributes that selectors and
        constraints name (`reads`): where the rest is alike, and the same places are in use, it ends
        at the same places. Where it looks at a pool as a whole, or at shares of a device, that
        holds only among nodes that reach the very same pools; where it looks at the node, for none.
        """
        changed_at = 0
        for pool in self.pools:
            changed_at = max(changed_at, usage.changed_at.get(pool.id, 0))
        kept = self._keys.get(reads)
        if kept is None or kept[0] != changed_at:
            if len(self._keys) >= _MOST_KEPT:
                self._keys.clear()
                self._shapes.clear()
            kept = self._keys[reads] = (changed_at, self._answer_key(usage, reads, changed_at))
        return kept[1]

    def _answer_key(self, usage: DeviceUsage, reads: Reads, changed_at: int) -> Hashable | None:
        if reads not in self._shapes:
            self._shapes[reads] = self._shape(reads)
        shape = self._shapes[reads]
        used = self._used(usage) if shape is not None and changed_at else ()
        if shape is not None and used is not None:
            return (shape, used)
        return (self, changed_at) if self._for_any_node else None

    def _shape(self, reads: Reads) -> Alike | None:
        for pool in self.pools:
            if pool.incomplete or pool.invalid or pool.counters:
                return None
        for device, _ in self.devices:
            if device.nodes is not None or device.counters or device.shareable:
                return None
            if device.skipped_operations:
                return None
        if not self.devices:
            return _NO_DEVICES
        shapes = self.devices[0][0].slice.shapes
        return shapes.of_node(tuple(device.equivalence(reads) for device, _ in self.devices))

    def _used(self, usage: DeviceUsage) -> tuple[int, ...] | None:
        """The places of devices in use; None if one of them is shared."""
        used = []
        for place, (device, _) in enumerate(self.devices):
            if device.id in usage.capacity:
                return None
            if device.id in usage.dedicated:
                used.append(place)
        return tuple(used)


def _may_satisfy(device: DeviceRecord, expressions: tuple[str, ...]) -> bool:
    """Do the selectors want it, or fail? Whoever comes to it then will meet the error."""
    try:
        return all(map(device.selected_by, expressions))
    except (CompileError, EvaluationError):
        return True


class RemainingCounters:
    """What is left of shared counters, pool by pool, once devices in use are subtracted.

    Made for one state of `DeviceUsage` and filled as pools are looked at.
    """

    def __init__(self, usage: DeviceUsage) -> None:
        self._usage = usage
        self._generation = -1
        self._left: dict[PoolId, dict[CounterKey, int]] = {}

    def left(self, pool: Pool) -> dict[CounterKey, int]:
        """What is left in a pool; negative if too much was given out."""
        if self._generation != self._usage.generation:
            self._generation = self._usage.generation
            self._left.clear()
        found = self._left.get(pool.id)
        if found is None:
            found = self._left[pool.id] = dict(pool.counters)
            for device in pool.all_devices:
                if device.counters and self._usage.in_use(device.id):
                    for key, value in device.counters:
                        found[key] = found.get(key, 0) - value
        return found

    def forget(self) -> None:
        """Pools may have changed."""
        self._left.clear()


class Inventory:
    """Everything drivers offer, indexed by node; follows the slices by their generation."""

    def __init__(
        self,
        slices: TaintedSlices,
        selectors: DeviceSelectors,
        features: Features,
        checkpoint: Callable[[], None],
    ) -> None:
        self._slices = slices
        self.selectors = selectors
        self._shapes = DeviceShapes(selectors, features, checkpoint)
        self._partitionable = features.partitionable_devices
        self._compares_groups = features.compatibility_groups
        self.generation = -1
        self._records: dict[str, SliceRecord] = {}
        self._on_node: dict[str, list[SliceRecord]] = {}
        self._shared: list[SliceRecord] = []
        self._by_pool: dict[PoolId, list[SliceRecord]] = {}
        self._kept: dict[str, tuple[Node, NodePools]] = {}
        self._of_several: dict[tuple[str, ...], NodePools] = {}
        """By the names of slices: pools of nodes that reach shared ones."""

    def refresh(self) -> None:
        """Follow the API objects; records of unchanged slices stay."""
        if self.generation == self._slices.generation:
            return
        before, self._records = self._records, {}
        self._on_node, self._shared, self._by_pool, self._kept = {}, [], {}, {}
        self._of_several.clear()
        for source in self._slices:
            record = before.get(source.name)
            if record is None or record.slice is not source:
                record = SliceRecord(source, self._shapes)
            self._records[source.name] = record
            self._by_pool.setdefault(record.pool, []).append(record)
            if record.nodes.node_name:
                self._on_node.setdefault(record.nodes.node_name, []).append(record)
            else:
                self._shared.append(record)
        self.generation = self._slices.generation

    def nodes_reaching(self, pool: PoolId) -> set[str] | None:
        """The nodes whose outcome may depend on a pool; None if that cannot be told."""
        names = set()
        for record in self._by_pool.get(pool, ()):
            if record.has_counters:
                continue  # counters matter only to nodes that also reach a device
            if not record.nodes.node_name:
                return None
            names.add(record.nodes.node_name)
        return names

    def device(self, driver: str, pool: str, name: str) -> DeviceRecord | None:
        """One device, wherever it is."""
        self.refresh()
        for record in self._by_pool.get((driver, pool), ()):
            for device in record.devices:
                if device.id[2] == name:
                    return device
        return None

    def slices_for(self, node_name: str) -> Iterable[SliceRecord]:
        """All but those of other nodes."""
        return (*self._on_node.get(node_name, ()), *self._shared)

    def pools_of(self, node: Node) -> NodePools:
        """The pools of a node."""
        kept = self._kept.get(node.name)
        if kept is not None and decides_alike(kept[0], node):
            return kept[1]
        own = self._relevant(self._on_node.get(node.name, ()), node)
        shared = self._relevant(self._shared, node)
        if shared:
            # Thousands of slices may be there for all nodes: they are gone through once.
            names = tuple(record.name for record in (*own, *shared))
            pools = self._of_several.get(names)
            if pools is None:
                gathered = self._gathered((*own, *shared))
                pools = self._of_several[names] = NodePools(gathered, several=True)
        else:
            pools = NodePools(self._gathered(own))
        self._kept[node.name] = (node, pools)
        return pools

    def _relevant(self, records: Iterable[SliceRecord], node: Node) -> list[SliceRecord]:
        return [
            record
            for record in records
            if (self._partitionable or not self._uses_partitions(record))
            and self._understands(record)
            and record.relevant_to(node)
        ]

    def _gathered(self, records: Iterable[SliceRecord]) -> list[Pool]:
        chosen: dict[PoolId, list[SliceRecord]] = {}
        for record in records:
            known = chosen.get(record.pool)
            if known is None or record.generation > known[0].generation:
                chosen[record.pool] = [record]
            elif record.generation == known[0].generation:
                known.append(record)
        found = []
        for pool_id, chosen_records in chosen.items():
            pool = self._pool(pool_id, chosen_records)
            if pool is not None:
                found.append(pool)
        return sorted(found, key=lambda pool: (pool.binds_late, pool.id))

    def _understands(self, record: SliceRecord) -> bool:
        return self._compares_groups or not record.has_compatibility_groups

    @staticmethod
    def _uses_partitions(record: SliceRecord) -> bool:
        return record.slice.spec.per_device_node_selection is not None or record.has_counters

    def _pool(self, pool_id: PoolId, records: list[SliceRecord]) -> Pool | None:
        """A pool from the slices that matter to a node; None if they are outdated altogether."""
        expected = records[0].slice.spec.pool.resource_slice_count
        everything = records
        if len(records) != expected:
            generation = records[0].generation
            everything = []
            for record in self._by_pool[pool_id]:
                if record.generation > generation:
                    return None
                if record.generation == generation:
                    everything.append(record)
            # What is not understood must not be allocated, so it is missing from the pool.
            everything = [one for one in everything if self._understands(one)]
            if len(everything) != expected:
                return Pool(pool_id, incomplete=True)
        return self._built(pool_id, sorted(records, key=lambda record: record.name), everything)

    def _built(
        self, pool_id: PoolId, records: list[SliceRecord], everything: list[SliceRecord]
    ) -> Pool:
        """Shared counters are the whole pool's, whichever nodes their slices are for."""
        offering = records
        if self._partitionable:
            offering = [record for record in records if not record.has_counters]
        devices = tuple(device for record in offering for device in record.devices)
        if len({device.id for device in devices}) != len(devices):
            return Pool(pool_id, invalid=True)
        if not self._partitionable:
            return Pool(pool_id, devices=devices, all_devices=devices)
        bringing = [record for record in everything if record.has_counters]
        sets = [one.name for record in bringing for one in record.slice.spec.shared_counters]
        if len(set(sets)) != len(sets):
            return Pool(pool_id, invalid=True)
        counters: dict[CounterKey, int] = {}
        for record in bringing:
            counters |= record.counts
        known = {record.name for record in (*records, *bringing)}
        rest = tuple(
            device for record in everything if record.name not in known for device in record.devices
        )
        pool = Pool(pool_id, devices=devices, all_devices=devices + rest, counters=counters)
        return pool if self._counters_exist(pool, sets) else Pool(pool_id, invalid=True)

    @staticmethod
    def _counters_exist(pool: Pool, sets: Sequence[str]) -> bool:
        return all(
            consumption.counter_set in sets
            and all(
                (consumption.counter_set, name) in pool.counters for name in consumption.counters
            )
            for device in pool.all_devices
            for consumption in device.device.consumes_counters
        )

"""Objects, lists and lines of a watch as bytes: read, or refused in one sentence."""

import json
from random import Random

import msgspec

from fuzz.corpus import Json, golden_objects
from fuzz.mutations import encode, mutate_bytes, mutate_json
from fuzz.target import PropertyError, Target
from moorage.errors import DecodeError, InputError
from moorage.kube.client import status_error
from moorage.kube.decoding import Malformed, ObjectReader, envelope, outline
from moorage.kube.lease import read_record
from moorage.kube.resources import RESOURCES
from moorage.model.checks import check_object
from moorage.model.decode import KINDS, UnknownKind, decode_object
from moorage.model.defaulting import Classes, with_defaults, with_names
from moorage.simulator.documents import parse_documents

_LEASE: Json = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
    "spec": {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 1,
    },
}


class Decoder(Target):
    """`model.decode`, `model.checks`, `kube.decoding`."""

    name = "decoder"

    def __init__(self) -> None:
        self._objects: list[Json] = []
        self._texts: list[bytes] = []
        self._readers = {
            kind: ObjectReader(resource)
            for kind, resource in RESOURCES.items()
            if resource.struct is not None
        }

    def prepare(self, random: Random) -> None:
        """Golden objects, as they are and in the frames of a watch."""
        self._objects = [*golden_objects(random), _LEASE]
        self._texts = [json.dumps(obj).encode() for obj in self._objects]

    def make(self, random: Random) -> bytes:
        """An object, sometimes within a line of a watch."""
        if random.random() < 0.25:
            data = mutate_bytes(random.choice(self._texts), random, self._texts)
        else:
            data = encode(mutate_json(random.choice(self._objects), random, self._objects))
        if random.random() < 0.3:
            data = b'{"type": "ADDED", "object": ' + data + b"}"
            if random.random() < 0.3:
                data = mutate_bytes(data, random)
        return data

    def check(self, data: bytes) -> None:
        """Every way that bytes of an object take."""
        event = envelope(data)
        raw = msgspec.Raw(data) if event is None else event.object
        outline(raw)
        status_error(bytes(raw))
        kind = self._kind(bytes(raw))
        if kind in self._readers:
            self._read(self._readers[kind], raw)
        self._manifest(bytes(raw))

    def _kind(self, data: bytes) -> str:
        for kind in KINDS:
            if f'"{kind}"'.encode() in data:
                return kind
        return "Pod"

    def _read(self, reader: ObjectReader, raw: msgspec.Raw) -> None:
        found = reader.read(raw)
        if not isinstance(found, Malformed) and not found.metadata.name:
            raise PropertyError("an object without a name was taken")

    def _manifest(self, data: bytes) -> None:
        try:
            plain = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            plain = None
        if isinstance(plain, dict) and b'"Lease"' in data:
            try:
                read_record(plain)
            except DecodeError as error:
                _one_line(error)
        try:
            for document in parse_documents(data.decode(errors="replace"), "file", is_json=True):
                obj = decode_object(document, "file")
                if isinstance(obj, UnknownKind):
                    continue
                check_object(obj, "file")
                [named] = with_names([obj])
                with_defaults(named, Classes.among([named]), "file")
        except InputError as error:
            _one_line(error)


def _one_line(error: Exception) -> None:
    text = str(error)
    if not text or "\n" in text:
        raise PropertyError(f"not one sentence: {text[:200]!r}")


TARGET = Decoder

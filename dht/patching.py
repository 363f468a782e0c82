"""Decides how deltas are kept and used in a store: made of two policies that are here, applied to one of them.

The result of a delta lies apart until each file has its hash; a delta that is wrong leaves everything as it was. It
refuses to make one of anything but two complete policies, and one that saves nothing.
"""

from __future__ import annotations

from functools import partial

from dht.delta import Version, apply_delta, write_delta
from dht.manifest import DELTA, POLICY, manifest_id, open_manifest
from dht.store import ContentStore, StoreError

NAME = "delta"
"""Of the one file of a delta."""


def policy(store: ContentStore, content: bytes) -> Version:
    """A complete policy of the store. Raises StoreError."""
    files = store.checkpoint(content)
    if files is None or not files.complete or files.manifest.kind != POLICY:
        raise StoreError(f"policy {content.hex()} is not here")
    return Version(content=content, manifest=files.manifest, folder=files.folder)


def stage_delta(store: ContentStore, base: bytes, result: bytes) -> bytes:
    """Make what turns policy `base` into `result`; returns the encoded manifest, to be sealed.

    Raises StoreError where one of them is not here, or the delta would not be smaller than the policy.
    """
    old, new = policy(store, base), policy(store, result)
    with store.staging() as folder:
        try:
            size_bytes = write_delta(folder / NAME, base=old, result=new)
        except FileNotFoundError as error:
            raise StoreError("one of the two policies was pruned meanwhile") from error
        if size_bytes >= new.manifest.size_bytes:
            raise StoreError("the delta is as large as the policy")
        return store.stage(folder, new.manifest.version, kind=DELTA, link=True)


def stage_result(store: ContentStore, data: bytes, *, base: bytes, delta: bytes) -> None:
    """Make the policy whose encoded manifest is `data` of policy `base` and a delta, both of them here; to be sealed.

    Raises StoreError where they are not here, DeltaInvalid, ManifestInvalid.
    """
    old, patch = policy(store, base), store.checkpoint(delta)
    if patch is None or not patch.complete or [file.name for file in patch.manifest.files] != [NAME]:
        raise StoreError(f"delta {delta.hex()} is not here")
    content, manifest = manifest_id(data), open_manifest(data, run_id=store.run_id)
    write = partial(apply_delta, patch.folder / NAME, base=old, content=content, manifest=manifest)
    store.stage_as(content, lambda folder: write(target=folder))

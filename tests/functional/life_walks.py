"""Which changes of state in a node's life are walked by which functional test, on real processes.

`tests/node/test_life.py` holds the two together against the table: every change there is has its walk here.
"""

from __future__ import annotations

BY_WORKERS = {
    ("unknown", "announced", "waiting"),
    ("unknown", "joined", "active"),
    ("waiting", "handed-over", "invited"),
    ("invited", "joined", "active"),
    ("active", "late", "suspect"),
    ("active", "drains", "draining"),
    ("active", "ejected", "ejected"),
    ("active", "barred", "blacklisted"),
    ("suspect", "beat", "active"),
    ("suspect", "silent", "dead"),
    ("active", "left", "left"),
    ("draining", "left", "left"),
    ("ejected", "joined", "active"),
    ("blacklisted", "pardoned", "waiting"),
}
"""By `test_life`: what a node goes through that works, is stopped, killed, put out and let in."""
BY_RELAYS = {
    ("unknown", "barred", "blacklisted"),
    ("waiting", "barred", "blacklisted"),
    ("waiting", "drains", "left"),
    ("waiting", "gone", "unknown"),
    ("waiting", "joined", "active"),
    ("invited", "barred", "blacklisted"),
    ("invited", "drains", "left"),
    ("invited", "gone", "unknown"),
    ("invited", "lapsed", "waiting"),
    ("suspect", "barred", "blacklisted"),
    ("suspect", "drains", "draining"),
    ("suspect", "ejected", "ejected"),
    ("suspect", "left", "left"),
    ("dead", "announced", "waiting"),
    ("dead", "barred", "blacklisted"),
    ("dead", "beat", "waiting"),
    ("dead", "drains", "left"),
    ("dead", "joined", "active"),
    ("dead", "kept", "active"),
    ("dead", "left", "left"),
    ("draining", "barred", "blacklisted"),
    ("draining", "beat", "active"),
    ("draining", "ejected", "ejected"),
    ("draining", "silent", "dead"),
    ("left", "announced", "waiting"),
    ("left", "barred", "blacklisted"),
    ("left", "beat", "waiting"),
    ("left", "gone", "unknown"),
    ("left", "joined", "active"),
    ("ejected", "barred", "blacklisted"),
}
"""By `test_life_edges`: the rest, most of which takes an outage or two things at once."""

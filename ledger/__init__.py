"""What the chain says, and saying things to it. Imports nothing of the sibling packages."""

from __future__ import annotations

from ledger.bindings import sign_binding
from ledger.client import Ledger
from ledger.cursor import EventCursor
from ledger.deployment import Deployment, deploy
from ledger.invites import sign_invite

__all__ = ["Deployment", "EventCursor", "Ledger", "deploy", "sign_binding", "sign_invite"]

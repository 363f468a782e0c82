"""What the chain says, and saying things to it. Imports nothing of the sibling packages."""

from __future__ import annotations

from ledger.client import Ledger
from ledger.deployment import Deployment, deploy
from ledger.events import EventCursor
from ledger.invites import sign_invite

__all__ = ["Deployment", "EventCursor", "Ledger", "deploy", "sign_invite"]

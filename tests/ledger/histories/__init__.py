"""Random histories for test_rules: what somebody does next, as a call of the contracts and as that of the model.

Most of what is drawn is legal and goes on with what is there (a docket to answer, a case to appeal); some of it is not.
"""

from __future__ import annotations

from ledger import Deployment
from ledger.rules import Rules
from tests.ledger.histories.base import Act
from tests.ledger.histories.court import CourtActs
from tests.ledger.histories.members import MemberActs
from tests.ledger.histories.pools import PoolActs
from tests.ledger.histories.stake import StakeActs


class History(StakeActs, PoolActs, MemberActs, CourtActs):
    """One seed's acts: a pool is made and filled, then anything happens."""

    def __init__(self, seed: int, rules: Rules, deployment: Deployment) -> None:
        super().__init__(seed, rules, deployment)
        self._opening = [self.create_domain, self.create_pool, self.start_pool, self.fund, self.announce_checkpoint]
        self._opening += [self.register] * 6 + [self.join] * 6
        court = [self.submit, self.open, self.commit, self.commit, self.reveal, self.reveal, self.appeal]
        usual = [self.execute, self.execute, self.register, self.join, self.add_stake, self.claim, self.fund]
        usual += [self.accuse, self.unbond, self.withdraw, self.take_lease, self.announce_checkpoint, self.leave]
        rare = [self.create_domain, self.create_pool, self.start_pool, self.end_pool, self.pause_joins]
        rare += [self.set_manager, self.offer, self.accept, self.domain_blacklist, self.eject, self.blacklist]
        rare += [self.unblacklist, self.purge, self.cancel_invite, self.reclaim]
        # Every other history stays in one pool and before the court, to come further there.
        self._later = court * 9 + usual * 2 + rare
        if self.in_court:
            self._later = [*court * 3, self.appeal, self.appeal, self.execute, self.join, self.accuse, self.register]

    def next(self) -> Act:
        if self._opening:
            return self._opening.pop(0)()
        self.founding = False
        return self.rng.choice(self._later)()

"""Encrypted frames that no cancelled request can cut in half.

Decides how long a peer may take none of our bytes before the connection is given up. Changes nothing of Noise itself.
"""

from __future__ import annotations

import trio
from libp2p.abc import IRawConnection, ISecureConn
from libp2p.io.exceptions import ConnectionClosedError
from libp2p.peer.id import ID
from libp2p.security.noise.transport import Transport as NoiseTransport

FRAME_WRITE_TIMEOUT_S = 10.0


class WholeFrameNoise(NoiseTransport):
    """Noise whose frames are written whole or end the connection.

    One cut short by a cancelled request would leave the nonces of both ends out of step, and every other stream of
    the connection would die of it (seen with libp2p 0.8.1).
    """

    async def secure_inbound(self, conn: IRawConnection) -> ISecureConn:
        return _write_whole_frames(await super().secure_inbound(conn))

    async def secure_outbound(self, conn: IRawConnection, peer_id: ID) -> ISecureConn:
        return _write_whole_frames(await super().secure_outbound(conn, peer_id))


def _write_whole_frames(session: ISecureConn) -> ISecureConn:
    write = session.write

    async def write_whole(data: bytes) -> None:
        with trio.move_on_after(FRAME_WRITE_TIMEOUT_S, shield=True):
            return await write(data)
        await session.close()
        raise ConnectionClosedError(f"the peer took nothing for {FRAME_WRITE_TIMEOUT_S} s")

    session.write = write_whole
    return session

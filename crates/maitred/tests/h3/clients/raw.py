"""Packets and handshakes of a client that no library makes: any payload at any level, any transport parameters."""

from aioquic.buffer import Buffer, encode_uint_var
from aioquic.h3.connection import H3Connection
from aioquic.quic.connection import QuicConnection
from aioquic.tls import Epoch

# First bytes of long headers of version 1, with a packet number of four bytes.
FIRST_BYTES = {Epoch.INITIAL: 0xC3, Epoch.ZERO_RTT: 0xD3, Epoch.HANDSHAKE: 0xE3}
SHORT = 0x43
TAG_BYTES = 16


def integer(first, bits, value):
    """9204-4.1.1: an integer with a prefix of so many bits, the rest of whose byte is given."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    rest, value = [], value - most
    while value >= 128:
        rest.append(value % 128 | 128)
        value //= 128
    return bytes([first | most, *rest, value])


def section(fields):
    """A field section of literals with literal names, whatever they are."""
    lines = (integer(0x20, 3, len(name)) + name + integer(0, 7, len(value)) + value for name, value in fields)
    return b"\0\0" + b"".join(lines)


class Raw(QuicConnection):
    """A connection that also sends what it is given."""

    def __init__(self, *, in_handshake=None, in_early_data=None, parameters=None, extension=True, **rest):
        """`in_handshake`: payload, and reserved bits, of a packet before the first one of that level;
        `in_early_data`: the same of 0-RTT, without bits; `parameters`: changes the list of transport parameters (number
        and bytes); `extension`: whether they are sent at all."""
        super().__init__(**rest)
        self.in_handshake, self.in_early_data = in_handshake, in_early_data
        self.parameters, self.extension = parameters, extension

    def _initialize(self, peer_cid):
        super()._initialize(peer_cid)
        if not self.extension:
            self.tls.handshake_extensions = []

    def _serialize_transport_parameters(self):
        whole = super()._serialize_transport_parameters()
        if self.parameters is None:
            return whole
        found, rest = [], Buffer(data=whole)
        while not rest.eof():
            number = rest.pull_uint_var()
            found.append((number, rest.pull_bytes(rest.pull_uint_var())))
        changed = self.parameters(found)
        return b"".join(encode_uint_var(number) + encode_uint_var(len(value)) + value for number, value in changed)

    def datagrams_to_send(self, now):
        address = self._network_paths[0].addr
        before, after = [], []
        if self.in_handshake and self._cryptos[Epoch.HANDSHAKE].send.is_valid():
            payload, bits = self.in_handshake
            self.in_handshake = None
            before.append((self.packet(Epoch.HANDSHAKE, payload, bits), address))
        datagrams = super().datagrams_to_send(now)
        if self.in_early_data and self._cryptos[Epoch.ZERO_RTT].send.is_valid():
            after.append((self.packet(Epoch.ZERO_RTT, self.in_early_data), address))
            self.in_early_data = None
        return before + datagrams + after

    def packet(self, epoch, payload, reserved_bits=0):
        """One packet. `reserved_bits`: those that have to be zero (9000-17.2, 17.3.1)."""
        crypto, number = self._cryptos[epoch], self._packet_number
        self._packet_number += 1
        shown = number.to_bytes(4, "big")
        if epoch == Epoch.ONE_RTT:
            header = bytes([SHORT | reserved_bits << 3 | crypto.key_phase << 2]) + self._peer_cid.cid + shown
        else:
            ids = b"".join(bytes([len(part)]) + part for part in (self._peer_cid.cid, self.host_cid))
            length = len(payload) + len(shown) + TAG_BYTES
            header = bytes([FIRST_BYTES[epoch] | reserved_bits << 2]) + self._version.to_bytes(4, "big") + ids
            header += (length | 0x4000).to_bytes(2, "big") + shown
        return crypto.encrypt_packet(header, payload, number)


class Silent(H3Connection):
    """Sends nothing by itself, neither SETTINGS nor streams for QPACK, and reads nothing."""

    def _init_connection(self):
        pass

    def handle_event(self, event):
        return []


def send_packet(client, payload, reserved_bits=0):
    """A packet of 1-RTT with these frames."""
    quic = client._quic
    client._transport.sendto(quic.packet(Epoch.ONE_RTT, payload, reserved_bits), quic._network_paths[0].addr)

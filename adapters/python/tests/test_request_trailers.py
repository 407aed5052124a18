"""TRAILERS, the frame before a REQUEST whose client has sent fields behind its body: checked, and dropped."""

import struct
import unittest

from maitred.frames import KEEP, MAY_DETACH, OPTIONAL, REQUEST, SHUTDOWN, Decoder, ProtocolError
from tests.frames import WELCOME_FRAME, cancel_frame, forget_frame, ping_frame, request_frame, trailers_frame

LINE = b"x-sum: 17\r\n"
TRAILED = trailers_frame(5, 1, LINE)
BEHIND = request_frame(5, 1)


def entries(*pieces):
    decoder, found = Decoder(), []
    for piece in pieces:
        decoder.feed(piece)
        while (entry := decoder.next()) is not None:
            found.append(entry)
    return found


class RequestTrailers(unittest.TestCase):
    def test_they_are_no_entry_wherever_they_are_cut(self):
        data = WELCOME_FRAME + TRAILED + BEHIND + ping_frame(3) + trailers_frame(5, 2, LINE * 32) + request_frame(5, 2)
        whole = entries(data)
        self.assertEqual([entry[:3] for entry in whole], [(REQUEST, 5, 1), (4, 0, 3), (REQUEST, 5, 2)])
        self.assertEqual(whole, entries(*(data[at : at + 1] for at in range(len(data)))))
        for at in range(1, len(data)):
            self.assertEqual(whole, entries(data[:at], data[at:]))
        # The longest that there may be; what a value may be.
        for lines in (b"x: " + b"y" * 8185 + b"\r\n", b"x: \r\n", b"!#$%&'*+-.^_`|~09az: caf\xe9\t:\r\n"):
            self.assertEqual(len(entries(WELCOME_FRAME + trailers_frame(5, 1, lines) + BEHIND)), 1)

    def test_what_is_no_trailers_is_refused(self):
        bad = [
            b"", b"x: " + b"y" * 8186 + b"\r\n", b"x: y\r\n" * 33, b"x: y", b"x: y\n", b"x: y\r\n\r\n", b"x y\r\n", b"x:y\r\n",
            b": y\r\n", b"X: y\r\n", b"x x: y\r\n", b"x: y\0\r\n", b"x: y\rz\r\n", b"\xe9: y\r\n",
        ]
        frames = [trailers_frame(5, 1, lines) for lines in bad]
        frames += [trailers_frame(5, 1, LINE, flags=OPTIONAL | 1), trailers_frame(5, 1, LINE, descriptors=1)]
        for data in frames:
            with self.assertRaises(ProtocolError, msg=data):
                entries(WELCOME_FRAME + data + BEHIND)
        with self.assertRaises(ProtocolError):
            entries(TRAILED + WELCOME_FRAME + BEHIND)

    def test_their_request_comes_next(self):
        optional = struct.pack("<IBBHII", 0, 60, OPTIONAL, 0, 0, 0)
        shutdown = struct.pack("<IBBHII", 0, SHUTDOWN, 0, 0, 0, 0)
        for data in (
            TRAILED, ping_frame(1), forget_frame(5), cancel_frame(5, 1), optional, shutdown, WELCOME_FRAME, request_frame(5, 2),
            request_frame(6, 1), request_frame(5, 1, flags=KEEP | MAY_DETACH),
        ):
            with self.assertRaises(ProtocolError, msg=data):
                entries(WELCOME_FRAME + TRAILED, data + BEHIND)


if __name__ == "__main__":
    unittest.main()

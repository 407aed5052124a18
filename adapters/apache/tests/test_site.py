"""What Apache's own modules make of requests that come over a channel."""

import base64
import gzip
import json
import os
import subprocess
import unittest
from pathlib import Path

import server
from server import kit

HOSTS = """
<VirtualHost *:*>
    ServerName test.example
    <Location "/server-status">
        SetHandler server-status
        Require all granted
    </Location>
    ScriptAliasMatch "^/cgi(.*)" "{cgi}/reference.py/echo$1"
    ScriptAlias "/stream" "{cgi}/stream.py"
    ScriptAlias "/nph" "{cgi}/nph-chunks.py"
    <LocationMatch "^/(chunks|sendfile|hop|early-hints)(/|$)">
        SetHandler reference
    </LocationMatch>
    <Location "/cgi/members">
        AuthType Maitred
        Require user ann "eve smith"
    </Location>
    <Location "/cgi/own">
        AuthType Basic
        AuthName own
        AuthUserFile "{root}/users"
        Require valid-user
    </Location>
    <Location "/sendfile/7">
        MaitredSendfile off
    </Location>
    RewriteEngine On
    RewriteCond "%{{HTTPS}}" "on"
    RewriteRule "^/secure$" "/cgi/secure" [PT]
    AddOutputFilterByType DEFLATE text/plain
</VirtualHost>
<VirtualHost *:*>
    ServerName other.example
    DocumentRoot "{root}/public/other"
</VirtualHost>
<VirtualHost *:8443>
    ServerName test.example
    DocumentRoot "{root}/public/port"
    SSLEngine on
    SSLCertificateFile "{root}/certificate.pem"
    SSLCertificateKeyFile "{root}/key.pem"
</VirtualHost>
"""

HTACCESS = """
AuthType Basic
AuthName "members"
AuthUserFile "{users}"
Require valid-user
"""


def meta(local="192.0.2.1:80", scheme="http", remote="198.51.100.9:4711"):
    """The lines before a head."""
    return f"remote={remote}\nlocal={local}\nscheme={scheme}\nmount=\n"


def write_site(root):
    """Files, and what their directories say about them."""
    public = root / "public"
    for name in ("other", "port", "members", "rewritten", "large"):
        (public / name).mkdir()
    (public / "index.html").write_text("index")
    (public / "other" / "index.html").write_text("other")
    (public / "port" / "index.html").write_text("port")
    (public / "members" / "index.html").write_text("members")
    (public / "text.txt").write_text("word " * 2000)
    (public / "large" / "file").write_bytes(bytes(range(256)) * 4096)
    # The user ada with the password lovelace: {SHA} is base64 of the digest, which Apache still takes.
    digest = base64.b64encode(__import__("hashlib").sha1(b"lovelace").digest()).decode()
    (root / "users").write_text(f"ada:{{SHA}}{digest}\n")
    (public / "members" / ".htaccess").write_text(HTACCESS.format(users=root / "users"))
    (public / "rewritten" / ".htaccess").write_text(
        'RewriteEngine On\nRewriteRule "^old$" "/text.txt"\nRewriteRule "^away$" "/index.html" [R=302]\n'
        "Header set X-From htaccess\n"
    )
    command = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=test.example -days 2".split()
    command += ["-keyout", str(root / "key.pem"), "-out", str(root / "certificate.pem")]
    subprocess.run(command, capture_output=True, check=True)


class Site(unittest.TestCase):
    """One Apache for all; each test has a channel of its own."""

    @classmethod
    def setUpClass(cls):
        why = server.missing()
        if why is not None:
            raise unittest.SkipTest(why)
        limits = "StartServers 2\nMinSpareServers 2\nMaxSpareServers 4\nMaxRequestWorkers 8\n"
        modules = ["ssl", "socache_shmcb", "authn_socache", "unique_id", "reqtimeout", "remoteip", "http2"]
        # A configuration that people have, so that modules which look at connections are there.
        cls.apache = server.Apache("prefork", limits + "LogLevel warn maitred:debug\n" + HOSTS, modules)
        write_site(cls.apache.root)
        cls.apache.__enter__()
        cls.addClassCleanup(cls.apache.__exit__, None, None, None)

    def setUp(self):
        self.channel = kit.Connected(self.apache.path, str(self.apache.log))
        self.addCleanup(self.channel.__exit__, None, None, None)
        self.channel.welcome()
        self.channel.wants_404 = True

    def ask(self, target, **options):
        options.setdefault("host", "test.example")
        options.setdefault("meta", meta())
        return self.channel.ask(target, **options)[0]

    def user(self, target, user=None, fields=()):
        """Status, and who the user of a request is to a CGI program, of whom Maitred says so."""
        says = f"user={user}\nauth_type=Bearer\n" if user else ""
        lies = [("remote-user", "root"), ("x-remote-user", "root"), ("auth-type", "x")]
        answer = self.ask(target, meta=meta() + says, fields=[*lies, *fields])
        seen = json.loads(answer.body) if answer.status == 200 else {}
        return answer.status, seen.get("remote_user"), seen.get("auth_type")

    def test_a_user_of_maitred_is_the_user(self):
        for user in ("ann", None, "änn=b c", None):
            encoded = user and user.encode().decode("latin-1")
            self.assertEqual(self.user("/cgi/open", user), (200, encoded, user and "Bearer"), user)
        self.assertTrue(any(" - ann [" in line for line in self.apache.access()), self.apache.access())

    def test_require_is_about_maitreds_users_where_auth_type_says_so(self):
        for user, status in (("ann", 200), ("bob", 401), ("eve smith", 200), (None, 403)):
            self.assertEqual(self.user("/cgi/members", user)[:2], (status, user if status == 200 else None), user)

    def test_a_user_of_maitred_opens_nothing_that_asks_for_a_password_itself(self):
        self.assertEqual(self.user("/cgi/own", "ann"), (401, None, None))
        self.assertEqual(self.user("/members/", "ann"), (401, None, None))
        ada = [("authorization", "Basic " + base64.b64encode(b"ada:lovelace").decode())]
        self.assertEqual(self.user("/cgi/own", "ann", ada), (200, "ada", "Basic"))

    def echo(self, target="/cgi", **options):
        return json.loads(self.ask(target, **options).body)

    def test_hosts_are_chosen_by_name(self):
        self.assertEqual(self.ask("/").body, b"index")
        self.assertEqual(self.ask("/", host="other.example").body, b"other")

    def test_hosts_are_chosen_by_port_and_tls_stays_maitreds(self):
        answer = self.ask("/", meta=meta("192.0.2.1:8443", "https"))
        self.assertEqual((answer.status, answer.body), (200, b"port"))

    def test_the_scheme_is_the_clients(self):
        self.assertEqual(self.echo()["https"], "")
        seen = self.echo(meta=meta(scheme="https"))
        self.assertEqual((seen["https"], seen["scheme"], seen["local"]), ("on", "https", "192.0.2.1 443"))
        self.assertEqual(json.loads(self.ask("/secure", meta=meta(scheme="https")).body)["path"], "/echo/secure")
        self.assertEqual(self.ask("/secure").status, 404)
        answer = self.ask("/other", meta=meta(scheme="https"))
        self.assertEqual((answer.status, answer.one("location")), (301, "https://test.example/other/"))

    def test_the_address_is_the_clients(self):
        self.assertEqual(self.echo(meta=meta(remote="[2001:db8::5]:99"))["remote"], "2001:db8::5 99")

    def test_htaccess_asks_for_a_password(self):
        answer = self.ask("/members/")
        self.assertEqual((answer.status, answer.one("www-authenticate")), (401, 'Basic realm="members"'))
        good, bad = (("authorization", "Basic " + base64.b64encode(text).decode()) for text in (b"ada:lovelace", b"ada:x"))
        self.assertEqual(self.ask("/members/", fields=[bad]).status, 401)
        self.assertEqual(self.ask("/members/", fields=[good]).body, b"members")

    def test_htaccess_rewrites(self):
        answer = self.ask("/rewritten/old")
        self.assertEqual((len(answer.body), answer.status), (10000, 200))
        answer = self.ask("/rewritten/away")
        self.assertEqual((answer.status, answer.one("location")), (302, "http://test.example/index.html"))

    def test_files_have_ranges_and_conditions(self):
        whole = self.ask("/large/file")
        self.assertEqual((len(whole.body), whole.how), (1048576, "length"))
        part = self.ask("/large/file", fields=[("range", "bytes=100-200099")])
        self.assertEqual((part.status, part.body), (206, whole.body[100:200100]))
        parts = self.ask("/large/file", fields=[("range", "bytes=0-99999,300000-499999,-9")])
        self.assertEqual(parts.status, 206)
        self.assertIn(whole.body[300000:500000], parts.body)
        same = self.ask("/large/file", fields=[("if-none-match", whole.one("etag"))])
        self.assertEqual((same.status, same.body), (304, b""))
        self.assertEqual(self.ask("/large/file", method="HEAD").one("content-length"), "1048576")

    def test_compressed_responses_are_chunked(self):
        answer = self.ask("/text.txt", fields=[("accept-encoding", "gzip")])
        self.assertEqual((answer.one("content-encoding"), gzip.decompress(answer.body)), ("gzip", b"word " * 2000))

    def test_a_program_with_a_head_of_its_own_may_write_chunks(self):
        for case, body in [("plain", b"one two"), ("odd", b"one two"), ("empty", b""), ("large", bytes(300_000))]:
            answer = self.ask(f"/nph?{case}")
            self.assertEqual((answer.status, answer.body, answer.how), (200, body, "chunked"), case)
            self.assertEqual((answer.one("x-own"), answer.one("connection")), ("1", None), case)
        answer = self.ask("/nph?plain", flags=kit.KEEP | kit.HTTP10)
        self.assertEqual((answer.body, answer.how), (b"one two", "close"))
        self.assertEqual(self.ask("/nph?plain", method="HEAD").body, b"")

    def test_chunks_that_are_none_are_cut_off(self):
        for case in ("cut", "wrong", "both", "gzip"):
            client = self.channel.client()
            data = kit.request_frame(7, 1, f"/nph?{case}", host="test.example", meta=meta(), descriptors=1)
            self.channel.send(data, [client.far.fileno()])
            self.assertEqual(self.channel.done().flags, 0, case)
        self.assertEqual(self.ask("/nph?plain").body, b"one two")

    def test_a_program_that_streams_is_heard_at_once(self):
        client = self.channel.client()
        gate = self.apache.root / "gate"
        os.mkfifo(gate)
        self.addCleanup(gate.unlink)
        gate.chmod(0o666)
        data = kit.request_frame(7, 1, f"/stream?{gate}", host="test.example", meta=meta(), descriptors=1)
        self.channel.send(data, [client.far.fileno()])
        self.assertTrue(client._until(b"first\n"))
        gate.write_text("go")
        self.assertEqual(self.channel.done().flags, kit.CLEAN)
        self.assertIn(b"second\n", client.near.recv(1000))

    def test_a_request_that_apache_does_not_take_leaves_the_channel_alone(self):
        self.assertEqual(self.ask("/" + "x" * 9000).status, 414)
        self.assertEqual(self.ask("/", fields=[("x-long", "y" * 9000)]).status, 400)
        self.assertEqual(self.ask("/%00").status, 404)
        self.assertEqual(self.ask("/", method="NONSENSE").status, 501)
        self.assertEqual(self.ask("/", host="a b").status, 400)
        self.assertEqual(self.ask("/").body, b"index")

    def test_a_program_that_fails_is_a_500(self):
        self.assertEqual(self.ask("/stream?/nowhere").status, 500)

    def test_cancel_is_seen_between_writes(self):
        client = self.channel.client()
        data = kit.request_frame(7, 1, "/chunks/1000000/1000", host="test.example", meta=meta(), descriptors=1)
        self.channel.send(data, [client.far.fileno()])
        self.channel._reading.append(client)
        client.read_exactly(1000)
        self.channel.send(kit.frame(kit.CANCEL, connection=7, request=1))
        done = self.channel.done()
        self.assertEqual(done.flags, 0)
        self.assertLess(done.body_bytes, 10**9)

    def test_cancel_ends_a_wait_for_a_client_that_takes_nothing(self):
        client = self.channel.client()
        data = kit.request_frame(7, 1, "/chunks/1000/100000", host="test.example", meta=meta(), descriptors=1)
        self.channel.send(data, [client.far.fileno()])
        self.apache.wait_for(lambda: self._kept() > (64 << 20) - 300_000, "what is kept for the client to reach its bound")
        self.channel.send(kit.frame(kit.CANCEL, connection=7, request=1))
        done = self.channel.done()
        self.assertEqual((done.status, done.flags), (200, 0))

    def _kept(self):
        """Bytes that Apache's processes keep for a client, in a file in memory."""
        most = 0
        for pid in self.apache.children():
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                try:
                    if "maitred-tail" in os.readlink(entry):
                        most = max(most, entry.stat().st_size)
                except FileNotFoundError:
                    continue
        return most

    def test_status_shows_the_request_and_the_idle_channel(self):
        with kit.Connected(self.apache.path, str(self.apache.log)) as other:
            other.welcome()
            other.send(kit.frame(kit.PING))
            other.read_frame()
            answer = self.ask("/server-status?auto").body.decode()
        board = dict(line.split(": ", 1) for line in answer.splitlines() if ": " in line)["Scoreboard"]
        self.assertIn("W", board)
        self.assertIn("K", board)
        page = self.ask("/server-status").body.decode()
        self.assertIn("198.51.100.9", page)
        self.assertIn("GET /server-status HTTP/1.1", page)

    def test_the_access_log_is_right(self):
        before = len(self.apache.access())
        answer, _, _ = self.channel.ask("/text.txt?q", host="test.example", meta=meta())
        self.channel.ask("/nothing", host="test.example", meta=meta(), flags=0)
        self.channel.ask("/", host="test.example", meta=meta(), method="HEAD")
        lines = self.apache.access()[before:]
        self.assertEqual(len(lines), 3, lines)
        wanted = r'^198\.51\.100\.9 - - \[[^]]+\] "GET /text\.txt\?q HTTP/1\.1" 200 (\d+) \+$'
        self.assertRegex(lines[0], wanted)
        sent = int(lines[0].split()[-2])
        self.assertTrue(len(answer.body) < sent < len(answer.body) + 500, sent)
        self.assertRegex(lines[1], r'"GET /nothing HTTP/1\.1" 404 \d+ -$')
        self.assertRegex(lines[2], r'"HEAD / HTTP/1\.1" 200 \d+ \+$')

    def test_files_are_named_only_where_they_may_be(self):
        root = str(self.apache.root)
        self.assertEqual(len(self.ask("/sendfile/1000", meta=meta() + f"sendfile_root={root}\n").body), 1000)
        for target, said in (("/sendfile/1000", ""), ("/sendfile/1000", "sendfile_root=\n"), ("/sendfile/7", f"sendfile_root={root}\n")):
            answer = self.ask(target, meta=meta() + said)
            self.assertEqual((answer.body, len(answer.all("x-sendfile"))), (b"this is not the body", 1), (target, said))
        answer = self.ask("/sendfile/1000", meta=meta() + f"sendfile_root={root}/public\n")
        self.assertEqual((answer.status, answer.all("x-sendfile")), (500, []))
        self.assertIn("it is not below sendfile_root", self.apache.log.read_text())

    def test_informational_responses_are_bounded(self):
        client = self.channel.client()
        data = kit.request_frame(7, 1, "/early-hints/20", host="test.example", meta=meta() + "early_hints=1\n", descriptors=1)
        self.channel.send(data, [client.far.fileno()])
        done = self.channel.done()
        for _ in range(16):
            self.assertEqual(client.informational().all("link"), ["</style.css>; rel=preload; as=style"])
        self.assertEqual((client.answer().body, done.status, done.flags, done.body_bytes), (b"hinted", 200, kit.CLEAN, 6))

    def test_fields_of_one_hop_are_said_once(self):
        for _ in range(20):
            answer = self.ask("/hop")
            self.assertEqual((answer.status, answer.body), (200, b"hop"))
            self.assertEqual(answer.all("keep-alive") + answer.all("x-named"), [])
        said = [line for line in self.apache.log.read_text().splitlines() if "Proxy-Connection concerns the connection" in line]
        self.assertTrue(said)
        processes = [line.partition("[pid ")[2].partition("]")[0] for line in said]
        self.assertEqual(len(processes), len(set(processes)), said)

    def test_requests_without_a_web_address_are_answered(self):
        self.assertEqual(self.ask("*", method="OPTIONS").status, 200)


class Memory(unittest.TestCase):
    """Ten thousand requests on one process."""

    def test_ten_thousand_requests_need_no_more_memory_than_one_thousand(self):
        why = server.missing()
        if why is not None:
            raise unittest.SkipTest(why)
        limits = "StartServers 1\nMinSpareServers 1\nMaxSpareServers 1\nMaxRequestWorkers 1\n"
        with server.Apache("prefork", limits + server.REFERENCE) as apache:
            with kit.Connected(apache.path, str(apache.log)) as channel:
                channel.welcome()
                self.round_of(channel, 1000)
                [child] = apache.children()
                before = _resident_bytes(child)
                self.round_of(channel, 9000)
                self.assertEqual(apache.children(), [child])
                grown = _resident_bytes(child) - before
        # One byte for each request would be less than this, one small allocation that stays would be more.
        self.assertLess(grown, 128 * 1024)

    def round_of(self, channel, count):
        client = channel.client()
        channel.wants_404 = True
        channel._reading.append(client)
        for number in range(0, count, 100):
            data = b""
            for n in range(number, number + 100):
                options = {"method": "POST", "body": b"z" * 5000} if n % 3 == 0 else {}
                data += kit.request_frame(7, n, ("/bytes/100", "/chunks/3/100", "/nothing")[n % 3], descriptors=int(n == 0), **options)
            channel.send(data, [client.far.fileno()] if number == 0 else [])
            for _ in range(100):
                self.assertIn(channel.done().status, (200, 404))
        channel._reading.remove(client)
        channel.send(kit.frame(kit.FORGET, connection=7))


def _resident_bytes(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


if __name__ == "__main__":
    unittest.main()

"""What sslyze, which looks for what is wrong with TLS, finds.

    tls_scan.py HOST:PORT

Exit status: 0 if nothing is wrong. The certificate itself is not judged, since it is the test's own.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

# What is looked at; without a list, sslyze leaves some out.
COMMANDS = (
    "--sslv2", "--sslv3", "--tlsv1", "--tlsv1_1", "--tlsv1_2", "--tlsv1_3", "--compression", "--early_data", "--ems", "--fallback",
    "--heartbleed", "--openssl_ccs", "--reneg", "--robot", "--elliptic_curves",
)
OLD = ("ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1")


class Scan:
    """The result of a scan, and what is wrong in it."""

    def __init__(self, result):
        self.result = result
        self.wrong = []

    def of(self, name):
        """The result of one command; what did not complete is wrong."""
        found = self.result[name]
        if found["status"] != "COMPLETED":
            self.wrong.append(f"{name}: {found['status']} {found.get('error_reason')}")
            return None
        return found["result"]

    def expect(self, condition, what):
        if not condition:
            self.wrong.append(what)


def suites(scan, version):
    found = scan.of(f"{version}_cipher_suites")
    return [accepted["cipher_suite"]["name"] for accepted in found["accepted_cipher_suites"]] if found else []


def look(scan):
    for version in OLD:
        scan.expect(not suites(scan, version), f"{version} is spoken")
    scan.expect(suites(scan, "tls_1_3"), "TLS 1.3 is not spoken")
    of_1_2 = suites(scan, "tls_1_2")
    scan.expect(of_1_2, "TLS 1.2 is not spoken")
    for name in of_1_2:
        good = name.startswith("TLS_ECDHE_") and ("_GCM_" in name or "_CHACHA20_" in name)
        scan.expect(good, f"{name} has no forward secrecy, or is no AEAD")
    flags = [
        ("tls_compression", "supports_compression", False),
        ("tls_1_3_early_data", "supports_early_data", False),
        ("tls_fallback_scsv", "supports_fallback_scsv", True),
        ("heartbleed", "is_vulnerable_to_heartbleed", False),
        ("openssl_ccs_injection", "is_vulnerable_to_ccs_injection", False),
        ("session_renegotiation", "is_vulnerable_to_client_renegotiation_dos", False),
        ("session_renegotiation", "supports_secure_renegotiation", True),
        ("tls_extended_master_secret", "supports_ems_extension", True),
    ]
    for command, key, wanted in flags:
        found = scan.of(command)
        scan.expect(found is None or found[key] == wanted, f"{command}: {key} is not {wanted}: {found}")
    robot = scan.of("robot")
    scan.expect(robot is None or robot["robot_result"].startswith("NOT_VULNERABLE"), f"robot: {robot}")
    curves = scan.of("elliptic_curves")
    if curves:
        names = {curve["name"] for curve in curves["supported_curves"]}
        scan.expect("X25519" in names, f"no X25519 among {names}")
        weak = {name for name in names if name not in ("X25519", "secp256r1", "prime256v1", "secp384r1", "secp521r1")}
        scan.expect(not weak, f"curves that no client needs: {weak}")


def main(address):
    with tempfile.TemporaryDirectory() as directory:
        report = pathlib.Path(directory, "report.json")
        # Its own exit status also says what it thinks of the certificate.
        done = subprocess.run(
            [sys.executable, "-m", "sslyze", *COMMANDS, f"--json_out={report}", address],
            capture_output=True, text=True, check=False,
        )
        if not report.exists():
            return f"no report: {done.stdout}{done.stderr}"
        server = json.loads(report.read_text())["server_scan_results"][0]
    if server["scan_status"] != "COMPLETED":
        return f"{server['scan_status']}: {server.get('connectivity_error_trace')}"
    scan = Scan(server["scan_result"])
    look(scan)
    return "\n".join(scan.wrong)


sys.exit(main(sys.argv[1]) or 0)

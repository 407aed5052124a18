"""Configurations of two servers: `prepare.py DIRECTORY PORT "with TLS"|without`.

The one is known by the name 127.0.0.2:PORT, the other by 127.0.0.3:PORT, where each listens with TLS, or Maitred does. Without
TLS they listen at 127.0.0.1:PORT, and at 127.0.0.4:PORT.
"""

import subprocess
import sys
from pathlib import Path

directory, port, tls = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "with TLS"
RESOURCES = "resources: [{ names: [client, federation] }]"
words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
words += ["-subj", "/CN=localhost", "-keyout", str(directory / "key.pem"), "-out", str(directory / "certificate.pem")]
subprocess.run(words, check=True)
for name, own, plain in (("one", "127.0.0.2", "127.0.0.1"), ("two", "127.0.0.3", "127.0.0.4")):
    home = directory / name
    home.mkdir()
    secure = f"- {{ port: {port}, bind_addresses: ['{own}'], type: http, tls: true, {RESOURCES} }}" if tls else ""
    (directory / f"{name}.yaml").write_text(f"""
server_name: "{own}:{port}"
report_stats: false
pid_file: {home}/pid
listeners:
- {{ port: {port}, bind_addresses: ['{plain}'], type: http, x_forwarded: true, {RESOURCES} }}
{secure}
tls_certificate_path: {directory}/certificate.pem
tls_private_key_path: {directory}/key.pem
database: {{ name: sqlite3, args: {{ database: {home}/db.sqlite }} }}
media_store_path: {home}/media
max_upload_size: 50M
signing_key_path: {home}/signing.key
log_config: {directory}/log.yaml
enable_registration: true
enable_registration_without_verification: true
registration_shared_secret: secret
macaroon_secret_key: secret of macaroons
form_secret: secret of forms
bcrypt_rounds: 4
# The other server is here, and its certificate is nobody's.
federation_verify_certificates: false
ip_range_blacklist: []
federation_ip_range_blacklist: []
trusted_key_servers: []
suppress_key_server_warning: true
url_preview_enabled: false
presence: {{ enabled: false }}
# Otherwise the first answer to a client is given once more for two minutes.
caches: {{ sync_response_cache_duration: 0 }}
rc_message: {{ per_second: 1000, burst_count: 1000 }}
rc_registration: {{ per_second: 1000, burst_count: 1000 }}
rc_login: {{ address: {{ per_second: 1000, burst_count: 1000 }}, account: {{ per_second: 1000, burst_count: 1000 }} }}
rc_joins: {{ local: {{ per_second: 1000, burst_count: 1000 }}, remote: {{ per_second: 1000, burst_count: 1000 }} }}
rc_room_creation: {{ per_second: 1000, burst_count: 1000 }}
rc_federation: {{ sleep_limit: 1000, reject_limit: 1000, concurrent: 100 }}
""")
(directory / "log.yaml").write_text("""
version: 1
formatters: { plain: { format: '%(asctime)s %(levelname)s %(name)s %(message)s' } }
handlers: { out: { class: logging.StreamHandler, formatter: plain } }
root: { level: WARNING, handlers: [out] }
disable_existing_loggers: false
""")
for name in ("one", "two"):
    words = [sys.executable, "-m", "synapse.app.homeserver", "-c", str(directory / f"{name}.yaml"), "--generate-keys"]
    subprocess.run(words, check=True)
(directory / "port").write_text(port)

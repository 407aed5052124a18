"""Writes the configuration of an Apache with PHP (prefork): `python3 apache.py DIRECTORY SITE.conf PORT`.

Apache starts with `apache2 -d DIRECTORY -f httpd.conf -D FOREGROUND`: with `-D ALONE` it listens on 127.0.0.1:PORT, otherwise
it has mod_maitred, and the socket DIRECTORY/a. SITE.conf may name ${root}, which is DIRECTORY; ${root}/www and ${root}/data
belong to the account that PHP runs with.
"""

import fcntl
import os
import pwd
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "adapters" / "apache" / "tests"))

from server import build, php_module  # noqa: E402  how the adapter's own tests build it

_MODULES = "authn_core authz_core authz_host access_compat alias deflate dir env expires headers mime rewrite setenvif"

_CONFIGURATION = """
Define root {directory}
PidFile ${{root}}/pid
DefaultRuntimeDir ${{root}}
ErrorLog /dev/stderr
ServerName localhost
{account}
LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so
{load}
LoadModule php_module {php}
StartServers 6
MinSpareServers 1
MaxSpareServers 6
MaxRequestWorkers 8
<IfDefine ALONE>
    Listen 127.0.0.1:{port}
</IfDefine>
<IfDefine !ALONE>
    LoadModule maitred_module {maitred}/mod_maitred.so
    MaitredListen unix:${{root}}/a
</IfDefine>
TypesConfig /etc/mime.types
DirectoryIndex index.php index.html
<FilesMatch "\\.php$">
    SetHandler application/x-httpd-php
</FilesMatch>
php_admin_value session.save_path ${{root}}/data
php_admin_value upload_tmp_dir ${{root}}/data
php_admin_value upload_max_filesize 64M
php_admin_value post_max_size 64M
# Old sessions are cleared by chance, which could not be compared.
php_admin_value session.gc_probability 0
Include {site}
"""


def main(directory, site, port):
    """All that Apache needs."""
    directory = Path(directory)
    account = "User www-data\nGroup www-data" if os.geteuid() == 0 else ""
    for name in ("www", "data"):
        (directory / name).mkdir()
        if account:
            os.chown(directory / name, pwd.getpwnam("www-data").pw_uid, -1)
    # Apache's account has to reach what is in it.
    directory.chmod(0o711)
    target = ROOT / "target"
    target.mkdir(exist_ok=True)
    with open(target / "apache.lock", "w", encoding="utf-8") as lock:
        # Several applications start at the same time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = build()
    modules = Path(php_module()).parent
    values = {"modules": modules, "php": php_module(), "maitred": built, "account": account, "site": site, "port": port}
    load = "\n".join(f"LoadModule {name}_module {modules}/mod_{name}.so" for name in _MODULES.split())
    (directory / "httpd.conf").write_text(_CONFIGURATION.format(directory=directory, load=load, **values))


if __name__ == "__main__":
    main(*sys.argv[1:])

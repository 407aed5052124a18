"""Writes the configuration of php-fpm, and of nginx in front of it: `python3 fpm.py DIRECTORY SITE.conf PORT`.

`DIRECTORY/php-fpm -F -c /etc/php -y DIRECTORY/fpm.conf` listens at DIRECTORY/php; `nginx -c DIRECTORY/nginx.conf` on
127.0.0.1:PORT. SITE.conf is what stands in nginx's `server`, and in lines of `#:` what stands in php-fpm's pool; both may name
${root}, which is DIRECTORY.
${root}/www and ${root}/data belong to the account that PHP runs with.
"""

import os
import pwd
import shutil
import sys
from pathlib import Path

_FPM = """
[global]
error_log = /dev/stderr
[www]
{account}
listen = {directory}/php
listen.mode = 0666
pm = static
pm.max_children = 4
php_admin_value[session.save_path] = {directory}/data
php_admin_value[upload_tmp_dir] = {directory}/data
php_admin_value[upload_max_filesize] = 64M
php_admin_value[post_max_size] = 64M
; Old sessions are cleared by chance, which could not be compared.
php_admin_value[session.gc_probability] = 0
{more}
"""

_NGINX = """
{account}
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log /dev/stderr;
events {{ worker_connections 512; }}
http {{
    include /etc/nginx/mime.types;
    access_log off;
    client_max_body_size 512m;
    client_body_temp_path {directory}/nginx-body;
    fastcgi_temp_path {directory}/nginx-fastcgi;
    proxy_temp_path {directory}/nginx-proxy;
    scgi_temp_path {directory}/nginx-scgi;
    uwsgi_temp_path {directory}/nginx-uwsgi;
    server {{
        listen 127.0.0.1:{port};
        server_name 127.0.0.1;
        index index.php index.html;
        {site}
        location ~ \\.php(/|$) {{
            fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
            try_files $fastcgi_script_name =404;
            set $path_info $fastcgi_path_info;
            fastcgi_param PATH_INFO $path_info;
            include /etc/nginx/fastcgi.conf;
            fastcgi_pass unix:{directory}/php;
        }}
    }}
}}
"""


def _program():
    """php-fpm, whose name ends with its version on Debian."""
    found = sorted(Path("/usr/sbin").glob("php-fpm*"))
    return found[-1] if found else Path(shutil.which("php-fpm") or "php-fpm")


def main(directory, site, port):
    """All that both need."""
    directory = Path(directory)
    is_root = os.geteuid() == 0
    for name in ("www", "data"):
        (directory / name).mkdir()
        if is_root:
            os.chown(directory / name, pwd.getpwnam("www-data").pw_uid, -1)
    # The account of PHP and nginx has to reach what is in it.
    directory.chmod(0o711)
    text = Path(site).read_text().replace("${root}", str(directory))
    more = "\n".join(line[2:].strip() for line in text.splitlines() if line.startswith("#:"))
    account = "user = www-data\ngroup = www-data" if is_root else ""
    (directory / "fpm.conf").write_text(_FPM.format(directory=directory, account=account, more=more))
    account = "user www-data;" if is_root else ""
    (directory / "nginx.conf").write_text(_NGINX.format(directory=directory, account=account, port=port, site=text))
    (directory / "php-fpm").symlink_to(_program())


if __name__ == "__main__":
    main(*sys.argv[1:])

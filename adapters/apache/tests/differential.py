#!/usr/bin/env python3
"""Apache with mod_php and the application of the differential test (../../differential), until SIGTERM:

    differential.py --listen PORT          it listens on 127.0.0.1:PORT by itself
    differential.py --socket PATH          Maitred connects to PATH
"""

import argparse
import shutil
import signal

import server
from test_php import PHP

LIMITS = "StartServers 4\nMinSpareServers 4\nMaxSpareServers 8\nMaxRequestWorkers 16\n"
SITE = """
php_admin_value post_max_size 64M
php_admin_value memory_limit 256M
php_admin_flag zlib.output_compression off
php_admin_flag display_errors off
AliasMatch "^/" "{root}/public/application.php"
AcceptPathInfo On
AllowEncodedSlashes NoDecode
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", metavar="PORT", type=int)
    parser.add_argument("--socket", metavar="PATH")
    options = parser.parse_args()
    more = f"Listen 127.0.0.1:{options.listen}\n" if options.listen else f"MaitredListen unix:{options.socket} mode=0666\n"
    apache = server.Apache("prefork", LIMITS + PHP.replace("{php}", server.php_module()) + SITE + more)
    shutil.copy(server.HERE / "differential.php", apache.root / "public" / "application.php")
    stop = {signal.SIGTERM, signal.SIGINT}
    with apache:
        # Only now: what Apache was started with it would keep.
        signal.pthread_sigmask(signal.SIG_BLOCK, stop)
        signal.sigwait(stop)


if __name__ == "__main__":
    main()

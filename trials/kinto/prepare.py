"""Kinto's settings: everything in memory, accounts may be made by all clients."""

import sys
from pathlib import Path

Path(sys.argv[1], "kinto.ini").write_text("""
[app:main]
use = egg:kinto
kinto.includes = kinto.plugins.accounts kinto.plugins.flush
kinto.storage_backend = kinto.core.storage.memory
kinto.cache_backend = kinto.core.cache.memory
kinto.permission_backend = kinto.core.permission.memory
kinto.userid_hmac_secret = s
kinto.account_create_principals = system.Everyone
kinto.bucket_create_principals = system.Authenticated
multiauth.policies = account
multiauth.policy.account.use = kinto.plugins.accounts.authentication.AccountsAuthenticationPolicy
kinto.flush_endpoint_enabled = true
kinto.paginate_by = 100
""")

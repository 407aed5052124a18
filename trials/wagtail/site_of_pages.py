"""A Wagtail site in one file: the administration, documents, the API."""

import os
import shutil
import sys
from pathlib import Path

import django
import wagtail
from django.conf import settings

DATA = Path(os.environ["SITE_DATA"])

if not settings.configured:
    settings.configure(
        ALLOWED_HOSTS=["*"],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": DATA / "db.sqlite3",
                # What begins to write after it has read fails at once if another process has written meanwhile; and who
                # writes may wait for a busy disk, longer than others wait for them. What is tried needs no durable database.
                "OPTIONS": {"timeout": 30, "transaction_mode": "IMMEDIATE", "init_command": "PRAGMA synchronous=OFF"},
            }
        },
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=[
            "wagtail.contrib.redirects",
            "wagtail.embeds",
            "wagtail.sites",
            "wagtail.users",
            "wagtail.snippets",
            "wagtail.documents",
            "wagtail.images",
            "wagtail.search",
            "wagtail.admin",
            "wagtail.api.v2",
            "wagtail",
            "modelcluster",
            "taggit",
            "rest_framework",
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "django.contrib.messages",
            "django.contrib.staticfiles",
        ],
        LOGGING={
            "version": 1,
            "handlers": {"console": {"class": "logging.StreamHandler"}},
            "loggers": {"django.request": {"handlers": ["console"], "level": "ERROR"}},
        },
        MEDIA_ROOT=DATA / "media",
        MEDIA_URL="/media/",
        MIDDLEWARE=[
            "django.middleware.security.SecurityMiddleware",
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.common.CommonMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
            "django.middleware.clickjacking.XFrameOptionsMiddleware",
            "wagtail.contrib.redirects.middleware.RedirectMiddleware",
        ],
        ROOT_URLCONF="site_of_pages",
        SECRET_KEY="not so secret",
        STATIC_ROOT=DATA / "static",
        STATIC_URL="/static/",
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
        USE_TZ=True,
        WAGTAIL_ENABLE_UPDATE_CHECK=False,
        WAGTAIL_ENABLE_WHATS_NEW_BANNER=False,
        WAGTAIL_GRAVATAR_PROVIDER_URL=None,
        WAGTAIL_SITE_NAME="Trial",
        WAGTAILADMIN_BASE_URL="https://site.test",
        WAGTAILDOCS_EXTENSIONS=["bin", "txt"],
    )
    django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.urls import include, path  # noqa: E402
from django.views.static import serve  # noqa: E402
from wagtail import urls as pages  # noqa: E402
from wagtail.admin import urls as administration  # noqa: E402
from wagtail.api.v2.router import WagtailAPIRouter  # noqa: E402
from wagtail.api.v2.views import PagesAPIViewSet  # noqa: E402
from wagtail.documents import urls as documents  # noqa: E402
from wagtail.documents.api.v2.views import DocumentsAPIViewSet  # noqa: E402
from wagtail.images.api.v2.views import ImagesAPIViewSet  # noqa: E402

api = WagtailAPIRouter("api")
api.register_endpoint("pages", PagesAPIViewSet)
api.register_endpoint("images", ImagesAPIViewSet)
api.register_endpoint("documents", DocumentsAPIViewSet)

urlpatterns = [
    path("admin/", include(administration)),
    path("documents/", include(documents)),
    path("api/", api.urls),
    # Alone; behind Maitred these files are Maitred's.
    path("static/<path:path>", serve, {"document_root": settings.STATIC_ROOT}),
    path("media/<path:path>", serve, {"document_root": settings.MEDIA_ROOT}),
    path("", include(pages)),
]

application = get_wsgi_application()


def prepare(name, password):
    """A database with this administrator, and the static files."""
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db import connection

    # Stays in the file: a writer waits for no reader.
    connection.cursor().execute("PRAGMA journal_mode=WAL")
    call_command("migrate", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    Path(settings.MEDIA_ROOT).mkdir(exist_ok=True)
    get_user_model().objects.create_superuser(name, "anna@site.test", password)
    # Closing the last connection leaves one file.
    connection.close()


if __name__ == "__main__":
    # Made once and copied: Wagtail's migrations take longer than everything that is tried.
    made = DATA.parents[2] / f"prepared-wal-{wagtail.__version__}-{django.__version__}"
    if not made.exists():
        prepare(*sys.argv[1:])
        half = made.with_name(f"{made.name}.{os.getpid()}")
        shutil.copytree(DATA, half)
        half.rename(made)
    else:
        shutil.copytree(made, DATA, dirs_exist_ok=True)

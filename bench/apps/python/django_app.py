"""Django in one file: /hello is a text, /items a page of 20 rows that the ORM reads from SQLite and a template shows.

The database is made by `python3 django_app.py` before anything is measured; DJANGO_DATABASE names its file.
"""

import os

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection, models
from django.http import HttpResponse
from django.template import engines
from django.urls import path

# The middleware of `django-admin startproject`, except that for forms, messages and sessions of users.
settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.environ.get("DJANGO_DATABASE", "items.sqlite3"),
            # A connection for each request, which is the default, would be most of the cost.
            "CONN_MAX_AGE": None,
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    MIDDLEWARE=["django.middleware.security.SecurityMiddleware", "django.middleware.common.CommonMiddleware"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="for a benchmark only",
    # Without DEBUG, templates are loaded once.
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
)
django.setup()


class Item(models.Model):
    name = models.CharField(max_length=100)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    stock = models.IntegerField(db_index=True)

    class Meta:
        app_label = "items"


PAGE = engines["django"].from_string(
    "<!doctype html><title>Items</title><table>{% for item in items %}"
    "<tr><td>{{ item.id }}<td>{{ item.name }}<td>{{ item.price }}<td>{{ item.stock }}</tr>{% endfor %}</table>\n"
)


def hello(request):
    return HttpResponse("Hello from Django\n", content_type="text/plain")


def items(request):
    found = Item.objects.filter(stock__gte=500).order_by("stock", "id")[:20]
    return HttpResponse(PAGE.render({"items": found}))


urlpatterns = [path("hello", hello), path("items", items)]
application = get_wsgi_application()


def make():
    with connection.schema_editor() as editor:
        editor.create_model(Item)
    rows = (Item(name=f"Item {n}", price=n * 1.25, stock=n * 7 % 1000) for n in range(1000))
    Item.objects.bulk_create(rows)


if __name__ == "__main__":
    make()

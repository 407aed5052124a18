"""A Django site with rooms, in one file: pages, a login, and a WebSocket for each room that only those may use who are logged in."""

import os
import sys

import django
from django.conf import settings

if not settings.configured:
    settings.configure(
        ALLOWED_HOSTS=["*"],
        ASGI_APPLICATION="site_of_rooms.application",
        CHANNEL_LAYERS={"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}},
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["HOME"] + "/db.sqlite3"}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "channels"],
        LOGIN_REDIRECT_URL="/",
        MIDDLEWARE=[
            "django.middleware.security.SecurityMiddleware",
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.common.CommonMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
        ],
        ROOT_URLCONF="site_of_rooms",
        SECRET_KEY="not so secret",
    )
    django.setup()

from asgiref.sync import async_to_sync  # noqa: E402
from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.generic.http import AsyncHttpConsumer  # noqa: E402
from channels.generic.websocket import AsyncJsonWebsocketConsumer  # noqa: E402
from channels.layers import get_channel_layer  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator, OriginValidator  # noqa: E402, F401
from django.contrib.auth import authenticate, login  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402
from django.http import HttpResponseForbidden, JsonResponse  # noqa: E402
from django.middleware.csrf import get_token  # noqa: E402
from django.urls import path, re_path  # noqa: E402


def home(request):
    """Who is logged in, and how Django sees the request."""
    return JsonResponse({"user": str(request.user), "secure": request.is_secure(), "url": request.build_absolute_uri("/x")})


def enter(request):
    """A login with Django's protection against forged requests."""
    if request.method == "GET":
        return JsonResponse({"token": get_token(request)})
    user = authenticate(username=request.POST["user"], password=request.POST["password"])
    if user is None:
        return HttpResponseForbidden("no")
    login(request, user)
    return JsonResponse({"user": user.username})


def say(request, room):
    """From a view into a room."""
    async_to_sync(get_channel_layer().group_send)(room, {"type": "said", "text": request.GET["text"]})
    return JsonResponse({"said": True})


class Room(AsyncJsonWebsocketConsumer):
    """One member of a room."""

    async def connect(self):
        if not self.scope["user"].is_authenticated:
            await self.close(4401)
            return
        self.room = self.scope["url_route"]["kwargs"]["room"]
        await self.channel_layer.group_add(self.room, self.channel_name)
        await self.accept("room.v1" if "room.v1" in self.scope["subprotocols"] else None)

    async def receive_json(self, content):
        text = f"{self.scope['user'].username}: {content['text']}"
        await self.channel_layer.group_send(self.room, {"type": "said", "text": text})

    async def said(self, event):
        """To this member."""
        await self.send_json({"text": event["text"]})

    async def disconnect(self, code):
        if hasattr(self, "room"):
            await self.channel_layer.group_discard(self.room, self.channel_name)
            await self.channel_layer.group_send(self.room, {"type": "said", "text": f"gone with {code}"})


class Slow(AsyncHttpConsumer):
    """A response in pieces, each when a member says something in the room `slow`."""

    async def handle(self, body):
        await self.send_headers(headers=[(b"Content-Type", b"text/plain")])
        await self.channel_layer.group_add("slow", self.channel_name)
        await self.send_body(f"{len(body)}\n".encode(), more_body=True)

    async def said(self, event):
        """One piece; `end` is the last."""
        await self.send_body(event["text"].encode() + b"\n", more_body=event["text"] != "end")

    async def http_request(self, message):
        if "body" in message:
            self.body.append(message["body"])
        if not message.get("more_body"):
            await self.handle(b"".join(self.body))


urlpatterns = [path("", home), path("enter", enter), path("say/<room>", say)]
pages = get_asgi_application()
rooms = URLRouter([path("ws/<room>", Room.as_asgi())])
application = ProtocolTypeRouter(
    {
        "http": URLRouter([path("slow", Slow.as_asgi()), re_path("", pages)]),
        "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(rooms)),
    }
)

if __name__ == "__main__":
    if sys.argv[1] == "anna":
        from django.contrib.auth.models import User

        User.objects.create_user("anna", password="secret")
    else:
        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)

"""Startup and shutdown of an ASGI application (asgi.readthedocs.io, Lifespan, version 2.0)."""

import asyncio
import sys
import traceback


class StartupFailed(Exception):
    """The application said that it cannot start."""


class Lifespan:
    """The task in which the application lives between startup and shutdown, if it has a notion of that."""

    def __init__(self, application):
        self._application = application
        self._state = {}
        self._messages = asyncio.Queue()
        self._answer = None
        self._task = None

    async def startup(self):
        """The state that every request gets a copy of. Raises StartupFailed."""
        self._task = asyncio.ensure_future(self._run())
        answer = await self._ask("startup")
        if answer is not None and answer["type"] == "lifespan.startup.failed":
            await asyncio.wait((self._task,))
            raise StartupFailed(answer.get("message", ""))
        return self._state

    async def shutdown(self):
        """Lets the application close what it opened."""
        if self._task.done():
            return
        answer = await self._ask("shutdown")
        if answer is not None and answer["type"] == "lifespan.shutdown.failed":
            sys.stderr.write(f"maitred: shutdown of the application failed: {answer.get('message', '')}\n")
        await asyncio.wait((self._task,))

    async def _ask(self, what):
        """The application's answer; None if it has returned or failed instead: then it has no notion of lifespan."""
        self._answer = asyncio.get_running_loop().create_future()
        self._messages.put_nowait({"type": f"lifespan.{what}"})
        await asyncio.wait((self._answer, self._task), return_when=asyncio.FIRST_COMPLETED)
        return self._answer.result() if self._answer.done() else None

    async def _run(self):
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self._state}
        answered = False

        async def send(message):
            nonlocal answered
            answered = True
            if not self._answer.done():
                self._answer.set_result(message)

        try:
            await self._application(scope, self._messages.get, send)
        except (Exception, SystemExit):
            # Before any answer it is the way in which an application says that it does not know lifespan.
            if answered:
                sys.stderr.write(f"maitred: the application failed in its lifespan\n{traceback.format_exc()}")

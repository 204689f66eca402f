# The module that cells know as gantry.


class ToolError(RuntimeError):
    """A tool's error, or its denial by the user or the policy."""

    def __init__(self, tool, message):
        super().__init__(message)
        self.tool = tool


def _fields(name, args, kwargs):
    if not args:
        return {"tool": name, "args": kwargs}
    if len(args) == 1 and not kwargs and isinstance(args[0], str):
        return {"tool": name, "text": args[0]}
    if len(args) == 1 and not kwargs and isinstance(args[0], dict):
        return {"tool": name, "args": args[0]}
    raise TypeError("%s: pass arguments by name, or one string to a tool that takes text" % name)


def _value(name, reply):
    if not reply.get("ok"):
        raise ToolError(name, reply.get("error") or "the tool failed")
    return reply.get("value")


class _Tools:
    """The tools of the thread, as functions. Each call needs the same approvals as a call of the model."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name):
        def call(*args, **kwargs):
            return _value(name, _worker.ask("call", **_fields(name, args, kwargs)))

        call.__name__ = call.__qualname__ = name
        return call

    def __dir__(self):
        return sorted(_value("tools", _worker.ask("tools")))


class _AsyncTools(_Tools):
    """The same as coroutines, so that calls can run side by side."""

    def __getitem__(self, name):
        async def call(*args, **kwargs):
            import asyncio

            loop = asyncio.get_running_loop()
            future = loop.create_future()

            def resolve(reply):
                if not future.done():
                    future.set_result(reply)

            seq = _worker.request("call", lambda reply: loop.call_soon_threadsafe(resolve, reply), **_fields(name, args, kwargs))
            try:
                return _value(name, await future)
            finally:
                _worker.waiting.pop(seq, None)

        call.__name__ = call.__qualname__ = name
        return call


tools = _Tools()
tools.aio = _AsyncTools()


def show(*values):
    """Shows values: images to the model and the user, everything else as its repr."""
    for value in values:
        _worker.show(value)


def output(value, label=""):
    """Adds a value to the call's structured result."""
    import json

    try:
        json.dumps(value)
    except (TypeError, ValueError):
        value = repr(value)
    _worker.send("output", id=_worker.cell or "", value=value, label=str(label))


def progress(done, total=0, message=""):
    """Shows the user how far the cell is."""
    _worker.send("progress", id=_worker.cell or "", done=float(done), total=float(total), message=str(message))


def artifact(source, name=None, media_type=None):
    """Stores bytes or a file for the user, and returns its digest, name and size."""
    import mimetypes
    import os

    if isinstance(source, (bytes, bytearray, memoryview)):
        name = name or "artifact"
        media_type = media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
        return _value("artifact", _worker.artifact(source, name, media_type))
    name = name or os.path.basename(os.fspath(source))
    media_type = media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    with open(source, "rb") as file:
        return _value("artifact", _worker.artifact(file, name, media_type))

"""A small library for tool plugins of gantry in Python.

It hides what every plugin must do: the cookie, the handshake, the lifeline, the token, health, the end. What is left is
a Plugin with its tools:

    plugin = Plugin("clock", "1.0.0", "Tells the time.", config=[Attribute("style", default="short")])

    @plugin.tool("now", "Tells the time.", properties={}, read_only=True)
    async def now(call, args):
        return str(datetime.datetime.now())

    plugin.main()

Handlers are coroutines and share one event loop: put what blocks into asyncio.to_thread. An exception becomes an error
result that the model reads. A cancel by the host cancels the coroutine; it may catch asyncio.CancelledError and return
what it has so far. What is printed goes to stderr, since stdout belongs to the handshake.
"""

import asyncio
import base64
import hmac
import inspect
import json
import os
import signal
import ssl
import sys
import threading
import traceback

_stdout, sys.stdout = sys.stdout, sys.stderr  # before anybody prints

COOKIE = ("GANTRY_PLUGIN", "b7c1f0e2-5d0a-4c36-9a4e-6f1c8d92e5aa")
LIFELINE = "GANTRY_LIFELINE_FD"
SOCKET_DIR = "PLUGIN_UNIX_SOCKET_DIR"
TOKEN_KEY = "gantry-token"
CONTRACT_VERSION = 1

MAX_MESSAGE_BYTES = 16 << 20
MAX_DELTA_BYTES = 8192
MAX_OUTPUT_BYTES = 8 << 20  # of one call, where the host names no other cap
MAX_INLINE_BYTES = 1 << 20  # of a result
STOP_GRACE = 0.7  # seconds for running calls when the end was asked for
GONE_GRACE = 0.3  # and when the host has died


class Attribute:
    """One attribute of the config block. type is "string", "number", "bool", ["list", T] or ["map", T]."""

    def __init__(self, name, type="string", *, description="", default=None, required=False, allowed=(), sensitive=False):
        self.name, self.type, self.description, self.default = name, type, description, default
        self.required, self.allowed, self.sensitive = required, list(allowed), sensitive


class Invalid(Exception):
    """Raised by the configured hook: what is wrong with one attribute, and what to do."""

    def __init__(self, summary, attribute="", next=""):
        super().__init__(summary)
        self.attribute, self.next = attribute, next


class Plugin:
    """A tool plugin. Its description must be the same at every start."""

    def __init__(self, name, version, description="", *, config=(), capabilities=(), instructions="", configured=None):
        self.name, self.version, self.description = name, version, description
        self.config_schema, self.capabilities, self.instructions = list(config), list(capabilities), instructions
        self.configured = configured  # coroutine, called with this plugin when config is filled; raises Invalid
        self.tools = {}
        self.config = {}  # by attribute name; secrets are handles for secret()
        self.data_dir = self.cache_dir = ""
        self.host = None  # stub of gantry.v1.HostService; every rpc needs metadata=plugin.host_metadata
        self.host_metadata = ()

    def tool(self, name, description, *, properties, required=(), effects=(), read_only=False, parallel_safe=False):
        """Declares the coroutine below as a tool: run(call, args) → str, or something that becomes JSON."""

        def declare(run):
            schema = {"type": "object", "properties": properties, "additionalProperties": False}
            if required:
                schema["required"] = list(required)
            self.tools[name] = _Tool(name, description, schema, list(effects), read_only, parallel_safe, run)
            return run

        return declare

    def manifest(self):
        """The manifest as the contract writes it: fields at their zero value left out."""
        secrets = any(a.sensitive for a in self.config_schema)
        return _compact({
            "name": self.name, "version": self.version, "kind": "tool", "contractVersions": [CONTRACT_VERSION],
            "description": self.description, "capabilities": self.capabilities + (["secrets"] if secrets else []), "instructions": self.instructions,
            "hostServices": ["PutArtifact"] + (["Secret"] if secrets else []),
            "config": _compact({"attributes": [_compact({
                "name": a.name, "type": a.type, "description": a.description, "required": a.required, "default": a.default,
                "sensitive": a.sensitive, "allowed": a.allowed,
            }, keep="default" if a.default is not None else "") for a in self.config_schema]}),
            "tools": [t.declaration() for t in self.tools.values()],
        })

    async def secret(self, handle):
        """Resolves a secret of the configuration. Use it where it is needed and keep it nowhere."""
        from gantry.v1 import host_pb2
        answer = await self.host.Secret(host_pb2.SecretRequest(handle=handle["$secret"]), metadata=self.host_metadata)
        return answer.value

    def main(self):
        """Serves the plugin and ends the process."""
        if sys.argv[1:] == ["--describe"]:
            print(canonical(self.manifest()), file=_stdout)
            sys.exit(0)
        if sys.argv[1:] == ["--version"]:
            print(self.name, self.version, file=_stdout)
            sys.exit(0)
        if os.environ.get(COOKIE[0]) != COOKIE[1]:
            print(f"{self.name} {self.version} is a tool plugin for gantry. A gantry host starts it; it does nothing by itself.\n"
                  "Next: name this file as the source of a plugin block in gantry.hcl.", file=sys.stderr)
            sys.exit(1)
        try:
            asyncio.run(_Server(self).serve())
        except Exception as e:  # the host shows the last lines of stderr
            print(f"gantry plugin {self.name}: {e}", file=sys.stderr)
            sys.exit(1)


class _Tool:
    def __init__(self, name, description, schema, effects, read_only, parallel_safe, run):
        self.name, self.description, self.schema, self.effects = name, description, schema, effects
        self.read_only, self.parallel_safe, self.run = read_only, parallel_safe, run

    def declaration(self):
        return _compact({
            "name": self.name, "description": self.description, "inputSchema": self.schema, "effects": self.effects,
            "readOnly": self.read_only, "parallelSafe": self.parallel_safe,
        })


def _compact(d, keep=""):
    return {k: v for k, v in d.items() if k == keep or v not in ("", None, False, 0, [], {})}


def canonical(value):
    """The one JSON text of a value: keys sorted, no white space."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


_PYTHON_TYPES = {"string": str, "bool": bool, "boolean": bool, "number": (int, float), "integer": int, "array": list, "object": dict}


def _is(value, type_name):
    if isinstance(value, bool):
        return type_name in ("bool", "boolean")
    if type_name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _PYTHON_TYPES[type_name])


def _fits(value, type_):
    if isinstance(type_, str):
        return _is(value, type_)
    kind, inner = type_
    if kind == "map":
        return isinstance(value, dict) and all(_fits(v, inner) for v in value.values())
    return isinstance(value, list) and all(_fits(v, inner) for v in value)


class ArgumentError(ValueError):
    """What is wrong with arguments, for the model."""


def parse_arguments(schema, raw):
    """Reads arguments. The host has validated them in full; this is for hosts, and models, in a hurry."""
    try:
        args = json.loads(raw or b"{}")
    except ValueError as e:
        raise ArgumentError(f"failed to parse function arguments: {e}") from None
    if not isinstance(args, dict):
        raise ArgumentError("failed to parse function arguments: an object is expected")
    for name in schema.get("required", []):
        if name not in args:
            raise ArgumentError(f"failed to parse function arguments: missing field `{name}`")
    for name, value in args.items():
        declared = schema["properties"].get(name, {}).get("type")
        if isinstance(declared, str) and not _is(value, declared):
            raise ArgumentError(f"failed to parse function arguments: field `{name}`: expected {declared}")
    return {k: v for k, v in args.items() if k in schema["properties"]}


class Call:
    """One call that runs. Its methods send what the host shows while the call goes on."""

    def __init__(self, plugin, start, send):
        self.plugin, self.thread_id, self.turn_id, self.id = plugin, start.thread_id, start.turn_id, start.call_id
        self.cwd, self.token = start.cwd, start.call_token
        self.dropped = 0  # bytes of output beyond the cap
        self._send, self._offset, self._tail = send, 0, b""
        self._cap = start.caps.max_output_bytes or MAX_OUTPUT_BYTES

    async def output(self, data):
        """Shows output, text or bytes, as it appears; the model sees only the result. Waits when the host is slow."""
        from gantry.v1 import tool_pb2
        data = self._tail + (data.encode() if isinstance(data, str) else bytes(data))
        room = self._cap - self._offset
        if len(data) > room:
            self.dropped += len(data) - room
            data = data[:room]
        cut = _boundary(data, len(data))
        data, self._tail = data[:cut], data[cut:]
        while data:
            n = _boundary(data, MAX_DELTA_BYTES)
            await self._send(output=tool_pb2.OutputDelta(offset=self._offset, data=data[:n]))
            self._offset += n
            data = data[n:]

    async def _finish(self):
        if self._tail:  # a character that was never completed
            from gantry.v1 import tool_pb2
            await self._send(output=tool_pb2.OutputDelta(offset=self._offset, data=self._tail))

    async def progress(self, message, done=0.0, total=0.0):
        """Tells people how far it is. 0: unknown."""
        from gantry.v1 import tool_pb2
        await self._send(progress=tool_pb2.Progress(message=message, done=done, total=total))

    async def artifact(self, name, media_type, data):
        """Stores content that is too large for a result, and announces it. Returns its digest."""
        from gantry.v1 import host_pb2

        async def pieces():
            yield host_pb2.PutArtifactRequest(media_type=media_type, name=name, data=data[:64 << 10])
            for at in range(64 << 10, len(data), 64 << 10):
                yield host_pb2.PutArtifactRequest(data=data[at:at + (64 << 10)])

        answer = await self.plugin.host.PutArtifact(pieces(), metadata=self.plugin.host_metadata)
        await self._send(artifact=answer.artifact)
        return answer.artifact.sha256


def _boundary(data, most):
    """The largest n ≤ most at which data isn't cut inside a character. Bytes that are no UTF-8 are cut anywhere."""
    n = min(most, len(data))
    for back in range(1, min(4, n) + 1):
        lead = data[n - back]
        if lead & 0xC0 == 0x80:
            continue  # inside a character; look for its beginning
        size = 1 if lead < 0x80 else 2 if lead >> 5 == 6 else 3 if lead >> 4 == 14 else 4 if lead >> 3 == 30 else 1
        return n - back if size > back else n
    return n


class _Server:
    """The plugin's side of the border. Everything in it runs on one event loop but the watch of the lifeline."""

    def __init__(self, plugin):
        self.plugin = plugin
        self.configured = self.draining = False
        self.calls = set()
        self.changed = None  # asyncio.Condition: calls or draining
        self.ending = None  # asyncio.Event
        self.path = ""

    # Start and end.

    async def serve(self):
        import grpc.aio
        from gantry.v1 import plugin_pb2_grpc, tool_pb2_grpc
        loop = asyncio.get_running_loop()
        self.changed, self.ending = asyncio.Condition(), asyncio.Event()
        self.grace = STOP_GRACE
        for number in (signal.SIGTERM, signal.SIGINT):
            # An interrupt in the terminal is meant for the host, which then ends us in order.
            loop.add_signal_handler(number, self.end if number == signal.SIGTERM else lambda: None)

        lifeline = os.fdopen(int(os.environ[LIFELINE]), "rb", buffering=0)
        hello = json.loads(_read_line(lifeline))
        server = grpc.aio.server(interceptors=[_token_check(hello["token"])], options=[
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES), ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ])
        plugin_pb2_grpc.add_PluginServiceServicer_to_server(_PluginService(self), server)
        tool_pb2_grpc.add_ToolServiceServicer_to_server(_ToolService(self), server)
        server.add_generic_rpc_handlers(_other_services(self))

        self.path = os.path.join(os.environ[SOCKET_DIR], self.plugin.name[:16])
        os.umask(0o077)
        cert = ""
        if hello.get("transport") == "mtls":
            tls = hello["tls"]
            server.add_secure_port("unix:" + self.path, grpc.ssl_server_credentials(
                [(tls["key"].encode(), tls["cert"].encode())], tls["ca"].encode(), require_client_auth=True))
            cert = "|" + base64.b64encode(ssl.PEM_cert_to_DER_cert(tls["cert"])).decode().rstrip("=")
        else:
            server.add_insecure_port("unix:" + self.path)
        await server.start()
        threading.Thread(target=self._watch, args=(lifeline, loop), daemon=True).start()
        print(f"1|1|unix|{self.path}|grpc{cert}", file=_stdout, flush=True)

        await self.ending.wait()
        await server.stop(self.grace)
        if os.path.exists(self.path):
            os.unlink(self.path)
        os._exit(0)  # threads that a tool left behind don't hold up the end

    def end(self, grace=STOP_GRACE):
        self.grace = grace
        for call in self.calls:
            call.cancel("shutdown")
        self.ending.set()

    def _watch(self, lifeline, loop):
        while lifeline.read(4096):
            pass
        loop.call_soon_threadsafe(self.end, GONE_GRACE)
        threading.Event().wait(2 * GONE_GRACE)
        os._exit(0)  # the loop is blocked; nobody is left to answer to

    # Work.

    async def enter(self, calling):
        import grpc
        if self.draining:
            await calling.context.abort(grpc.StatusCode.UNAVAILABLE, "the plugin is draining: it takes nothing new")
        if not self.configured:
            await calling.context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the plugin is not configured")
        self.calls.add(calling)

    async def leave(self, calling):
        async with self.changed:
            self.calls.discard(calling)
            self.changed.notify_all()

    async def drain(self, seconds):
        self.draining = True
        async with self.changed:
            try:
                await asyncio.wait_for(self.changed.wait_for(lambda: not self.calls), seconds)
            except asyncio.TimeoutError:
                pass
        return len(self.calls)

    async def configure(self, request):
        """Returns diagnostics. Without errors the new configuration is in force."""
        import grpc.aio
        from gantry.v1 import host_pb2_grpc
        plugin = self.plugin
        config, problems = read_config(plugin.config_schema, request.config_json)
        if problems:
            return problems
        before = plugin.config, plugin.host, plugin.host_metadata, plugin.data_dir, plugin.cache_dir
        plugin.config, plugin.data_dir, plugin.cache_dir = config, request.data_dir, request.cache_dir
        if request.host.services_socket:
            # Not closed when it is replaced: calls may still use it. There are as many as configurations.
            channel = grpc.aio.insecure_channel("unix:" + request.host.services_socket)
            plugin.host = host_pb2_grpc.HostServiceStub(channel)
            plugin.host_metadata = ((TOKEN_KEY, request.host.services_token),)
        try:
            if plugin.configured is not None:
                await plugin.configured(plugin)
        except Exception as e:
            plugin.config, plugin.host, plugin.host_metadata, plugin.data_dir, plugin.cache_dir = before
            if not isinstance(e, Invalid):
                traceback.print_exc()
            return [_diagnostic(str(e), getattr(e, "attribute", ""), getattr(e, "next", ""))]
        self.configured = True
        return []


def _read_line(f):
    line = b""
    while not line.endswith(b"\n"):
        piece = f.read(1)
        if not piece or len(line) > 64 << 10:
            raise ValueError("the lifeline brought no hello")
        line += piece
    return line


def _diagnostic(summary, attribute="", next=""):
    from gantry.v1 import common_pb2
    path = [common_pb2.PathStep(name=attribute)] if attribute else []
    return common_pb2.Diagnostic(severity=common_pb2.SEVERITY_ERROR, summary=summary, path=path, next=next)


def read_config(schema, raw):
    """Returns the configuration with defaults, and diagnostics for what is wrong with it."""
    given, problems, config = json.loads(raw or b"{}"), [], {}
    for a in schema:
        value = given.pop(a.name, None)
        if value is None:
            value = a.default
        if value is None:
            if a.required:
                problems.append(_diagnostic(f'"{a.name}" is missing'))
        elif a.sensitive:
            if not (isinstance(value, dict) and isinstance(value.get("$secret"), str)):
                problems.append(_diagnostic(f'"{a.name}": a string is expected', a.name))
        elif not _fits(value, a.type):
            problems.append(_diagnostic(f'"{a.name}": the type {json.dumps(a.type)} is expected', a.name))
        elif a.allowed and value not in a.allowed:
            problems.append(_diagnostic(f'"{value}" is not allowed for "{a.name}"', a.name, "Use one of " + ", ".join(a.allowed) + "."))
        config[a.name] = value
    problems += [_diagnostic(f'"{name}" is not known here', name) for name in given]
    return config, problems


# The services. Generated base classes are only imported when the plugin serves: --describe is quicker without.


def _PluginService(server):
    import grpc
    from gantry.v1 import plugin_pb2, plugin_pb2_grpc

    class Service(plugin_pb2_grpc.PluginServiceServicer):
        async def Describe(self, request, context):
            return plugin_pb2.DescribeResponse(manifest=manifest_message(server.plugin.manifest()))

        async def Configure(self, request, context):
            return plugin_pb2.ConfigureResponse(diagnostics=await server.configure(request))

        async def Command(self, request, context):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no command {request.name!r}")

        async def Drain(self, request, context):
            return plugin_pb2.DrainResponse(still_running=await server.drain(request.deadline_ms / 1000))

        async def Stop(self, request, context):
            asyncio.get_running_loop().call_soon(server.end)
            return plugin_pb2.StopResponse()

    return Service()


def _ToolService(server):
    from gantry.v1 import tool_pb2, tool_pb2_grpc

    class Service(tool_pb2_grpc.ToolServiceServicer):
        async def Watch(self, request, context):
            tools = manifest_message(server.plugin.manifest()).tools
            await context.write(tool_pb2.WatchResponse(revision=server.plugin.version, tools=tools))
            await server.ending.wait()

        async def Thread(self, request, context):
            await server.ending.wait()

        async def StopSession(self, request, context):
            return tool_pb2.StopSessionResponse()

        async def EndThread(self, request, context):
            return tool_pb2.EndThreadResponse()

        async def Call(self, requests, context):
            await _Calling(server, context).run()

    return Service()


class _Calling:
    """One Call rpc: started, whatever the handler sends, one result."""

    def __init__(self, server, context):
        self.server, self.context = server, context
        self.handler = None  # task
        self.reason = ""  # why it was cancelled
        self.deadline, self.left = None, 0  # timer, and what is left of it during a pause
        self.one_at_a_time = asyncio.Lock()

    async def send(self, **event):
        from gantry.v1 import tool_pb2
        async with self.one_at_a_time:
            await self.context.write(tool_pb2.CallResponse(**event))

    async def run(self):
        import grpc
        from gantry.v1 import tool_pb2
        first = await self.context.read()
        if first is grpc.aio.EOF or first.WhichOneof("control") != "start":
            await self.context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message of a call must be start")
        await self.server.enter(self)
        controls = None
        try:
            await self.send(started=tool_pb2.CallStarted())
            self.handler = asyncio.ensure_future(self.handle(first.start))
            controls = asyncio.ensure_future(self.control())
            self.set_deadline(first.start.caps.deadline_ms / 1000)
            if self.reason:
                self.handler.cancel()
            await self.send(result=await self.result())
        finally:  # also when the host has ended the rpc: then the handler is over before the call counts as over
            self.set_deadline(0)
            if controls is not None:
                controls.cancel()
            if self.handler is not None and not self.handler.done():
                self.handler.cancel()
                await asyncio.wait([self.handler])
            await self.server.leave(self)

    async def result(self):
        try:
            return await asyncio.shield(self.handler)  # shielded: the end of the rpc is not the handler's
        except asyncio.CancelledError:
            if not self.handler.cancelled():
                raise
            return self.stopped()  # before its first step

    def stopped(self):
        return _result(f"stopped: {self.reason}", is_error=True, aborted=True)

    def cancel(self, reason):
        self.reason = self.reason or reason or "interrupted"
        if self.handler is not None:
            self.handler.cancel()

    async def handle(self, start):
        """Returns the result, whatever happens."""
        tool = self.server.plugin.tools.get(start.tool) if not start.namespace else None
        if tool is None:
            return _result(f"unsupported call: {start.namespace}{start.tool}", is_error=True)
        call = Call(self.server.plugin, start, self.send)
        try:
            args = parse_arguments(tool.schema, start.input.arguments_json)
            answer = tool.run(call, args)
            result = _result(await answer if inspect.isawaitable(answer) else answer)
            await call._finish()
            return result
        except asyncio.CancelledError:
            return self.stopped()
        except ArgumentError as e:
            return _result(str(e), is_error=True)
        except Exception as e:
            traceback.print_exc()
            return _result(f"{type(e).__name__}: {e}", is_error=True)

    async def control(self):
        """Hears what the host says during the call."""
        import grpc
        while True:
            message = await self.context.read()
            if message is grpc.aio.EOF:
                return
            what = message.WhichOneof("control")
            if what == "cancel":
                self.cancel(message.cancel.reason)
            elif what == "pause" and self.deadline is not None:
                self.left = max(self.deadline.when() - asyncio.get_running_loop().time(), 0.001)
                self.set_deadline(0)
            elif what == "resume" and self.deadline is None:
                self.set_deadline(self.left)

    def set_deadline(self, seconds):
        """0: none."""
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None
        if seconds > 0:
            self.deadline = asyncio.get_running_loop().call_later(seconds, self.cancel, "deadline")


def _result(answer, is_error=False, aborted=False):
    from gantry.v1 import common_pb2, tool_pb2
    data = ("" if answer is None else answer if isinstance(answer, str) else canonical(answer)).encode("utf-8", "replace")
    if len(data) > MAX_INLINE_BYTES:
        raise ValueError(f"the result has {len(data)} bytes, more than {MAX_INLINE_BYTES}; store it with call.artifact")
    if answer is None or isinstance(answer, str):
        part = common_pb2.ResultPart(text=common_pb2.TextPart(text=data.decode()))
    else:
        part = common_pb2.ResultPart(json=data)
    return tool_pb2.CallResult(parts=[part], is_error=is_error, aborted=aborted)


def manifest_message(m):
    """The manifest as a message. It says exactly what the JSON says."""
    from gantry.v1 import common_pb2, plugin_pb2, tool_pb2

    def effect(e):
        kind = e["type"].replace("-", "_")
        names = {"shellText": "shell_text", "sessionId": "session_id"}
        field = common_pb2.Effect.DESCRIPTOR.fields_by_name[kind]
        content = getattr(common_pb2, field.message_type.name)(**{names.get(k, k): v for k, v in e.items() if k != "type"})
        return common_pb2.Effect(**{kind: content})

    def attribute(a):
        default = canonical(a["default"]).encode() if "default" in a else b""
        return plugin_pb2.ConfigAttribute(
            name=a["name"], type_json=canonical(a["type"]).encode(), description=a.get("description", ""),
            required=a.get("required", False), default_json=default, sensitive=a.get("sensitive", False), allowed=a.get("allowed", []))

    def tool(t):
        return tool_pb2.ToolDescriptor(
            name=t["name"], description=t.get("description", ""), input_schema_json=canonical(t["inputSchema"]).encode(),
            effects=[effect(e) for e in t.get("effects", [])], read_only=t.get("readOnly", False), parallel_safe=t.get("parallelSafe", False))

    return plugin_pb2.Manifest(
        name=m["name"], version=m["version"], kind=plugin_pb2.PLUGIN_KIND_TOOL, contract_versions=m["contractVersions"],
        description=m.get("description", ""), instructions=m.get("instructions", ""), capabilities=m.get("capabilities", []),
        host_services=m.get("hostServices", []), tools=[tool(t) for t in m.get("tools", [])],
        config=plugin_pb2.ConfigBlock(attributes=[attribute(a) for a in m.get("config", {}).get("attributes", [])]))


# What is not the contract's own: go-plugin's controller and gRPC's health, with messages so small that they are written
# by hand.

_FREE = ("/grpc.health.v1.Health/", "/plugin.GRPCController/")  # need no token


def _other_services(server):
    import grpc

    async def check(request, context):
        return b"\x08\x01"  # status = SERVING

    async def watch(request, context):
        await context.write(b"\x08\x01")
        await server.ending.wait()

    async def shutdown(request, context):
        asyncio.get_running_loop().call_soon(server.end)
        return b""

    return [
        grpc.method_handlers_generic_handler("grpc.health.v1.Health", {
            "Check": grpc.unary_unary_rpc_method_handler(check), "Watch": grpc.unary_stream_rpc_method_handler(watch),
        }),
        grpc.method_handlers_generic_handler("plugin.GRPCController", {"Shutdown": grpc.unary_unary_rpc_method_handler(shutdown)}),
    ]


def _token_check(token):
    import grpc
    import grpc.aio

    async def deny(requests, context):
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, f"the metadata key {TOKEN_KEY} is missing or wrong")

    class TokenCheck(grpc.aio.ServerInterceptor):
        async def intercept_service(self, continuation, details):
            given = [v for k, v in details.invocation_metadata if k == TOKEN_KEY]
            if details.method.startswith(_FREE) or len(given) == 1 and hmac.compare_digest(given[0].encode(), token.encode()):
                return await continuation(details)
            return grpc.stream_stream_rpc_method_handler(deny)

    return TokenCheck()

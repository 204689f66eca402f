# The worker of a kernel: it executes cells in one namespace, one after the other, and talks to the plugin in frames.
#
# A frame is a JSON object on a line. Frames come from standard input and go to standard output, as they were when the process started;
# both are duplicated to descriptors that child processes don't inherit. Whatever the user's code, C libraries and child processes print
# goes to the pipe of standard error, in the order of writing. At the end of a cell, the worker writes a marker of the plugin's to that
# pipe, so that the plugin knows when it has read all of the cell's output. What Python itself writes to sys.stderr is between two other
# markers, so that the plugin can tell it from the rest.
#
# The loader has bound `f` to the standard input. Modules that not every cell needs are imported late: they take longer than the start.
import os
import sys

if sys.version_info < (3, 9):
    os.write(1, ('{"op":"old","version":"%d.%d.%d"}\n' % sys.version_info[:3]).encode())
    os._exit(0)

import _ast
import _queue
import _thread
import builtins
import io
import json
import signal
import time
import types

MAX_FRAME = 16 << 20
MAX_TEXT = 1 << 20  # of one value; beyond it, the beginning and the end are kept
MAX_MEDIA = 8 << 20  # of one value in a frame, encoded; anything longer becomes an artifact
CHUNK = 192 << 10  # of an artifact
MAX_ROWS = 200  # of a data frame as JSON
ATOMIC = 4096  # bytes that a pipe takes at once or not at all
AWAIT = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
ONLY_AST = 0x400  # ast.PyCF_ONLY_AST
COROUTINE = 0x80  # inspect.CO_COROUTINE


def standard(name):
    """Imports a module of the standard library, even if the user has a file of that name."""
    module = sys.modules.get(name)
    if module is None:
        saved = sys.path[:]
        sys.path[:] = PATH
        try:
            __import__(name)
        finally:
            sys.path[:] = saved
        module = sys.modules[name]
    return module


PATH = sys.path[:]


def write(fd, data):
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view):]
        except BlockingIOError:  # the pipe is shared with the user's code, which has changed its mode
            os.set_blocking(fd, True)


def cut(text, most=MAX_TEXT):
    if len(text) <= most:
        return text
    half = most // 2
    return "%s\n[%d characters omitted]\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


def encoded(data):
    return standard("binascii").b2a_base64(data, newline=False).decode()


class Errors:
    """The binary stream below sys.stderr. It marks what is written to it."""

    closed = False
    mode = "wb"

    def __init__(self, worker):
        self.worker = worker

    def write(self, data):
        data = bytes(data)
        mark = self.worker.marker[:-1].encode()
        # One write for each piece, as other threads and processes write to the same pipe.
        step = max(1, ATOMIC - 2 * (len(mark) + 1))
        for at in range(0, len(data), step):
            piece = data[at:at + step]
            write(2, mark + b"\x01" + piece + mark + b"\x02" if mark else piece)
        return len(data)

    def readable(self):
        return False

    def seekable(self):
        return False

    def writable(self):
        return True

    def flush(self):
        pass

    def fileno(self):
        return 2

    def isatty(self):
        return False

    def close(self):
        self.closed = True


class Gone(Exception):
    """The plugin can't be asked: this is a forked child."""


class Worker:
    def __init__(self, stdin):
        self.stdin = stdin
        self.frames = os.dup(1)
        self.output = os.dup(2)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        self.lock = _thread.allocate_lock()
        self.main = _thread.get_ident()
        self.inbox = _queue.SimpleQueue()
        self.waiting = {}  # sequence number of a request -> what is called with its reply
        self.seq = 0
        self.count = 0
        self.cell = None  # ID of the running cell
        self.marker = ""  # of the latest cell
        self.loop = None
        self.forked = False
        # An interrupt raises KeyboardInterrupt only while user code is running, and never in the middle of a frame.
        self.armed = False
        self.shield = 0
        self.pending = False
        self.streams()
        sys.stdin = open(0, encoding="utf-8", closefd=False)
        builtins.input = no_input
        module = types.ModuleType("__main__")
        self.module, self.outs = module, {}
        self.namespace = module.__dict__
        self.namespace.update(__builtins__=builtins, Out=self.outs)
        self.replaced = sys.modules["__main__"]  # is kept: its namespace is this program's
        sys.modules["__main__"] = module
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.fork)

    # Streams

    def streams(self):
        """Repairs what the user's code may have closed or replaced by nothing."""
        for fd in (1, 2):
            try:
                os.fstat(fd)
            except OSError:
                os.dup2(self.output, fd)
        for fd, name in ((1, "stdout"), (2, "stderr")):
            stream = getattr(sys, name, None)
            if stream is None or getattr(stream, "closed", False) or self.count == 0:
                if fd == 2:
                    stream = io.TextIOWrapper(Errors(self), "utf-8", "backslashreplace", "\n", True)
                else:
                    stream = open(fd, "w", 1, "utf-8", "backslashreplace", "\n", closefd=False)
                setattr(sys, name, stream)
                setattr(sys, "__%s__" % name, stream)

    def flush(self):
        for stream in {id(s): s for s in (sys.stdout, sys.__stdout__, sys.stderr, sys.__stderr__)}.values():
            try:
                stream.flush()
            except Exception:  # it is the user's
                pass

    def fork(self):
        self.forked, self.lock = True, _thread.allocate_lock()
        for fd in (self.frames, self.output, self.stdin.fileno()):
            try:
                os.close(fd)
            except OSError:
                pass

    # Frames

    def send(self, op, **fields):
        if self.forked:
            raise Gone("a forked process can't use gantry")
        fields["op"] = op
        data = json.dumps(fields).encode() + b"\n"  # ASCII, so lone surrogates are escaped
        if len(data) > MAX_FRAME:
            raise ValueError("%s: %d bytes are more than a frame may have" % (op, len(data)))
        main = _thread.get_ident() == self.main
        if main:
            self.shield += 1
        try:
            with self.lock:
                try:
                    write(self.frames, data)
                except OSError:  # without a plugin there is nothing to do
                    os._exit(1)
        finally:
            if main:
                self.shield -= 1
                if self.pending and not self.shield:
                    self.pending = False
                    if self.armed:
                        raise KeyboardInterrupt

    def interrupted(self, signum, frame):
        if self.shield:
            self.pending = True
        elif self.armed:
            raise KeyboardInterrupt

    def read(self):
        """Receives frames until the plugin closes the pipe. Runs in a thread of its own, because a cell may wait for a reply."""
        while True:
            try:
                line = self.stdin.readline(MAX_FRAME)
            except (OSError, ValueError):
                line = b""
            if not line:
                os._exit(0)
            try:
                frame = json.loads(line)
                op = frame["op"]
            except Exception:  # the rest of a frame whose writer was killed
                continue
            if op == "reply":
                done = self.waiting.pop(frame["seq"], None)
                if done is not None:
                    try:
                        done(frame)
                    except Exception:  # the event loop that waited has been closed
                        pass
            elif op == "ping":
                self.send("pong", nonce=frame["nonce"], cell=self.cell or "", marker=self.marker, memory=memory(), version=VERSION)
            else:
                self.inbox.put(frame)

    def request(self, op, done, **fields):
        """Sends a request, and calls done with its reply, in the thread that reads."""
        with self.lock:
            self.seq += 1
            seq = self.seq
        self.waiting[seq] = done
        try:
            self.send(op, id=self.cell or "", seq=seq, **fields)
        except BaseException:
            self.waiting.pop(seq, None)
            raise
        return seq

    def ask(self, op, **fields):
        """Sends a request and waits for its reply."""
        replies = _queue.SimpleQueue()
        seq = self.request(op, replies.put, **fields)
        try:
            return replies.get()
        finally:
            self.waiting.pop(seq, None)

    # Values

    def bundle(self, value):
        """Returns the representations of a value by media type, as IPython does. text/plain is always among them."""
        data = {}
        try:
            data["text/plain"] = repr(value)
        except Exception as e:
            data["text/plain"] = "<%s object, whose repr raised %s>" % (type(value).__name__, type(e).__name__)
        if isinstance(value, type):
            return {"text/plain": cut(data["text/plain"])}
        found = attempt(value, "_repr_mimebundle_")
        if isinstance(found, tuple):
            found = found[0]
        if isinstance(found, dict):
            data.update(found)
        else:
            for mime, method in REPRS:
                found = attempt(value, method)
                if isinstance(found, tuple):
                    found = found[0]
                if found is not None:
                    data[mime] = found
        kind = type(value)
        if kind.__name__ == "Figure" and kind.__module__ == "matplotlib.figure" and not self.drawn(value):
            try:
                data["image/png"] = png(value)
            except Exception:
                standard("traceback").print_exc()
        if kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas":
            try:
                data["application/json"] = json.loads(value.head(MAX_ROWS).to_json(orient="split", date_format="iso"))
            except Exception:
                pass
        return self.checked(data)

    def checked(self, data):
        """Returns representations that fit into a frame. Binary ones are encoded."""
        out = {}
        for mime, value in data.items():
            if not isinstance(mime, str) or value is None:
                continue
            if isinstance(value, (bytes, bytearray)):
                raw, value = bytes(value), encoded(value)
                if len(value) > MAX_MEDIA:
                    self.artifact(raw, "display." + mime.rpartition("/")[2].partition("+")[0], mime)
                    continue
            elif isinstance(value, str):
                if mime.startswith("image/") and mime != "image/svg+xml":
                    if len(value) > MAX_MEDIA:
                        continue
                else:
                    value = cut(value)
            else:
                try:
                    if len(json.dumps(value)) > MAX_TEXT:
                        continue
                except Exception:
                    continue
            out[mime] = value
        out.setdefault("text/plain", "")
        return out

    def show(self, value):
        self.send("display", id=self.cell or "", data=self.bundle(value))

    def artifact(self, source, name, media_type):
        """Sends bytes or a binary file in chunks, and returns what the plugin knows about it."""
        file = io.BytesIO(source) if isinstance(source, (bytes, bytearray, memoryview)) else source
        replies = _queue.SimpleQueue()
        seq = self.request("artifact", replies.put, name=name, media_type=media_type)
        ended = False
        try:
            while True:
                chunk = file.read(CHUNK)
                if not chunk:
                    break
                self.send("chunk", seq=seq, data=encoded(chunk))
            ended = True
            self.send("chunk", seq=seq, last=True)
            return replies.get()
        finally:
            self.waiting.pop(seq, None)
            if not ended:
                self.send("chunk", seq=seq, last=True, abort=True)

    def drawn(self, figure):
        """Reports whether a figure is open: then it is shown at the end of the cell."""
        plt = sys.modules.get("matplotlib.pyplot")
        return plt is not None and getattr(figure, "number", None) in plt.get_fignums()

    def figures(self):
        """Shows and closes all open figures of matplotlib."""
        plt = sys.modules.get("matplotlib.pyplot")
        if plt is None:
            return
        try:
            for number in plt.get_fignums():
                figure = plt.figure(number)
                self.send("display", id=self.cell, data=self.checked({"image/png": png(figure), "text/plain": repr(figure)}))
            plt.close("all")
        except Exception:
            standard("traceback").print_exc()

    # Cells

    def run(self, frame):
        self.cell, self.marker, begin = frame["id"], frame["marker"], time.monotonic()
        self.count += 1
        self.streams()
        status = self.guarded(self.execute, frame["code"])
        drawn = self.guarded(self.figures)
        if status == "ok":
            status = drawn
        self.flush()
        if self.forked:
            os._exit(0)
        marked = True
        try:
            write(self.output, frame["marker"].encode())
        except OSError:
            marked = False
        cell, self.cell = self.cell, None
        self.send("done", id=cell, status=status, marked=marked, count=self.count, elapsed_ms=int((time.monotonic() - begin) * 1000))

    def guarded(self, do, *args):
        """Runs user code: interrupts are raised in it, and what it raises is sent."""
        try:
            signal.signal(signal.SIGINT, self.interrupted)
            try:
                self.armed = True
                do(*args)
            finally:
                self.armed = self.pending = False
        except BaseException as e:
            if self.forked:
                if not isinstance(e, SystemExit):
                    standard("traceback").print_exc()
                self.flush()
                os._exit(e.code if isinstance(e, SystemExit) and isinstance(e.code, int) else 1 if e.args else 0)
            self.failed(e)
            return "interrupted" if isinstance(e, KeyboardInterrupt) else "error"
        return "ok"

    def failed(self, e):
        tb = e.__traceback__
        while tb is not None and not tb.tb_frame.f_code.co_filename.startswith("<cell "):
            tb = tb.tb_next
        try:
            lines = standard("traceback").format_exception(type(e), e, tb)
        except Exception:
            lines = ["%s (its traceback can't be formatted)\n" % type(e).__name__]
        try:
            value = str(e)
        except Exception:
            value = "<its str() failed>"
        self.send("error", id=self.cell, ename=type(e).__name__, evalue=cut(value), traceback=cut("".join(lines)))

    def execute(self, code):
        name = "<cell %d>" % self.count
        standard("linecache").cache[name] = (len(code), None, code.splitlines(True), name)
        tree = compile(code, name, "exec", ONLY_AST | AWAIT, True)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], _ast.Expr) else None
        if tree.body:
            self.evaluate(compile(tree, name, "exec", AWAIT, True))
        if last is None:
            return
        value = self.evaluate(compile(_ast.Expression(last.value), name, "eval", AWAIT, True))
        if value is None or silent(code, last):
            return
        self.outs[self.count] = self.namespace["_"] = value
        data = self.bundle(value)
        if "application/json" not in data and type(value) in PLAIN:
            try:
                if len(json.dumps(value, allow_nan=False)) <= MAX_TEXT:
                    data["application/json"] = value
            except Exception:  # it contains something else
                pass
        self.send("result", id=self.cell, count=self.count, data=data)

    def evaluate(self, code):
        value = eval(code, self.namespace)
        if not code.co_flags & COROUTINE:
            return value
        asyncio = standard("asyncio")
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(value)
        try:
            return self.loop.run_until_complete(task)
        except KeyboardInterrupt:
            if not task.done():
                task.cancel()
                try:
                    self.loop.run_until_complete(task)
                except asyncio.CancelledError:
                    pass
            raise

    def serve(self, gantry):
        module = types.ModuleType("gantry", "What a cell can do beyond Python.")
        module.__dict__["_worker"] = self
        sys.modules["gantry"] = module
        exec(compile(gantry, "<gantry>", "exec", 0, True), module.__dict__)
        self.namespace.update(gantry=module, display=module.show)
        sys.path.insert(0, "")
        signal.signal(signal.SIGINT, self.interrupted)
        _thread.start_new_thread(self.read, ())
        self.send("ready", version=VERSION, executable=sys.executable or "", pid=os.getpid())
        while True:
            self.run(self.inbox.get())


VERSION = "%d.%d.%d" % sys.version_info[:3]
PLAIN = (dict, list, tuple, str, int, float, bool)  # types whose values are JSON
REPRS = (
    ("text/html", "_repr_html_"), ("text/markdown", "_repr_markdown_"), ("image/svg+xml", "_repr_svg_"), ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"), ("text/latex", "_repr_latex_"), ("application/json", "_repr_json_"),
)


def attempt(value, method):
    try:
        return getattr(value, method)()
    except Exception:
        return None


def png(figure):
    image = io.BytesIO()
    figure.savefig(image, format="png", bbox_inches="tight")
    return image.getvalue()


def matplotlib():
    """Prepares for matplotlib, which draws without a screen. Where it may not write its own folder, as in a sandbox, it would warn and build its
    cache of fonts again for each kernel."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    if "MPLCONFIGDIR" in os.environ or not sys.platform.startswith("linux"):
        return
    path = os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "matplotlib")
    settings = os.path.join(path, "matplotlibrc")
    while path and not os.path.exists(path):
        path = os.path.dirname(path)
    if not os.access(path, os.W_OK):
        if os.path.exists(settings):
            os.environ.setdefault("MATPLOTLIBRC", settings)
        os.environ["MPLCONFIGDIR"] = os.path.join(os.environ.get("TMPDIR") or "/tmp", "matplotlib")


def silent(code, last):
    """Reports whether the last expression is followed by a semicolon."""
    lines = code.splitlines(True) or [""]
    rest = lines[last.end_lineno - 1:]
    rest[0] = rest[0].encode("utf-8", "surrogatepass")[last.end_col_offset:].decode("utf-8", "surrogatepass")
    return "".join(rest).lstrip(" \t\r\n\f)").startswith(";")


def no_input(prompt=""):
    raise RuntimeError("input() is not available in a cell: put the value into the code, or ask the user")


def memory():
    """Returns the resident memory of this process in bytes; 0: unknown."""
    try:
        fd = os.open("/proc/self/statm", os.O_RDONLY)
        try:
            return int(os.read(fd, 100).split()[1]) * os.sysconf("SC_PAGE_SIZE")
        finally:
            os.close(fd)
    except Exception:
        return 0


def limit(memory):
    """Limits the memory of this process and of each that it starts, so that Python raises MemoryError."""
    if memory <= 0 or not sys.platform.startswith("linux"):
        return
    resource = standard("resource")
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard != resource.RLIM_INFINITY:
        memory = min(memory, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, hard))


def main(stdin):
    init = json.loads(stdin.readline(MAX_FRAME))
    matplotlib()
    worker = Worker(stdin)
    limit(init.get("memory", 0))
    worker.serve(init["gantry"])


main(f)  # noqa: F821

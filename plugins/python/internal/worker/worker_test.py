"""Tests of the worker: each starts one and talks to it as the plugin does."""
import base64
import json
import os
import signal
import subprocess
import sys
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
LOADER = "import os;f=os.fdopen(os.dup(0),'rb');exec(compile(f.read(int(f.readline())),'<worker>','exec'))"
MARKER = "\0marker\0"


class Kernel:
    def __init__(self, memory=0):
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-u", "-X", "utf8", "-c", LOADER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )
        with open(os.path.join(HERE, "worker.py"), "rb") as file:
            source = file.read()
        with open(os.path.join(HERE, "gantry.py"), encoding="utf-8") as file:
            gantry = file.read()
        self.process.stdin.write(b"%d\n" % len(source) + source)
        self.send(memory=memory, gantry=gantry)
        self.output = b""
        self.news = threading.Condition()
        self.thread = threading.Thread(target=self.collect)
        self.thread.start()
        self.ready = self.frame()
        self.cells = 0

    def collect(self):
        while True:
            data = os.read(self.process.stderr.fileno(), 1 << 16)
            with self.news:
                self.output += data
                self.news.notify_all()
            if not data:
                return

    def send(self, **frame):
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        self.process.stdin.flush()

    def frame(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def start(self, code):
        self.cells += 1
        self.send(op="exec", id="c%d" % self.cells, code=code, marker=MARKER)

    def finish(self, answer=None):
        """Returns the frames and the output of the running cell."""
        frames = []
        while not frames or frames[-1]["op"] != "done":
            frame = self.frame()
            if frame is None:
                raise EOFError("the worker has ended")
            frames.append(frame)
            if answer is not None:
                answer(frame)
        with self.news:
            self.news.wait_for(lambda: MARKER.encode() in self.output, 30)
            output, _, self.output = self.output.partition(MARKER.encode())
        return frames, output.decode()

    def run(self, code, answer=None):
        self.start(code)
        return self.finish(answer)

    def until(self, text):
        with self.news:
            if not self.news.wait_for(lambda: text in self.output, 30):
                raise AssertionError("no %r in %r" % (text, self.output))

    def interrupt(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            pass
        self.thread.join()
        self.process.stdout.close()
        self.process.stderr.close()


def pick(frames, op):
    return [f for f in frames if f["op"] == op]


class WorkerTest(unittest.TestCase):
    def setUp(self):
        self.kernel = Kernel()
        self.addCleanup(self.kernel.close)

    def result(self, code):
        frames, _ = self.kernel.run(code)
        self.assertEqual(pick(frames, "error"), [])
        return [f["data"]["text/plain"] for f in pick(frames, "result")]

    def error(self, code):
        frames, output = self.kernel.run(code)
        self.assertEqual(len(pick(frames, "error")), 1, frames)
        return pick(frames, "error")[0], output

    def test_ready(self):
        self.assertEqual(self.kernel.ready["op"], "ready")
        self.assertEqual(self.kernel.ready["version"], "%d.%d.%d" % sys.version_info[:3])

    def test_values(self):
        self.assertEqual(self.result("x=41"), [])
        self.assertEqual(self.result("x+1"), ["42"])
        self.assertEqual(self.result("_"), ["42"])
        self.assertEqual(self.result("Out[2]"), ["42"])
        self.assertEqual(self.result("None"), [])
        self.assertEqual(self.result("5;"), [])
        self.assertEqual(self.result("(5) ; # nothing"), [])
        self.assertEqual(self.result("'ä;'"), ["'ä;'"])
        self.assertEqual(self.result(""), [])

    def test_traceback_has_the_lines_of_the_cell(self):
        self.result("def f():\n    return 1/0")
        error, _ = self.error("y = 2\nf()")
        self.assertEqual((error["ename"], error["evalue"]), ("ZeroDivisionError", "division by zero"))
        for want in ('File "<cell 2>", line 2', "    f()", 'File "<cell 1>", line 2', "return 1/0"):
            self.assertIn(want, error["traceback"])
        self.assertNotIn("<worker>", error["traceback"])
        self.assertEqual(self.result("y"), ["2"])
        self.assertIn('File "<cell 4>", line 1', self.error("1 +")[0]["traceback"])

    def test_await(self):
        self.assertEqual(self.result("import asyncio\nawait asyncio.sleep(0, 7)"), ["7"])
        self.assertEqual(self.result("async def f():\n    return 8\nz = await f()\nz"), ["8"])

    def test_output_of_descriptors_and_children_is_output(self):
        frames, output = self.kernel.run(
            "import os, subprocess\nprint('one')\nos.write(1, b'{\"op\":\"done\"}\\n')\n"
            "subprocess.run(['echo', 'three'])\nos.system('echo four >&2')\nprint('five', end='')")
        self.assertEqual(output, 'one\n{"op":"done"}\nthree\nfour\nfive')
        self.assertEqual([f["op"] for f in frames], ["done"])

    def test_what_python_writes_to_stderr_is_marked(self):
        _, output = self.kernel.run("import os, sys\nprint('a')\nprint('b', file=sys.stderr)\nsys.stderr.buffer.write(b'c' * 5000)\nos.write(2, b'd')\nprint('e')")
        tag = MARKER[:-1]
        pieces = output.split(tag)
        self.assertEqual([pieces[0]] + [p for p in pieces if p[0] == "\2"], ["a\n", "\2", "\2", "\2de\n"])
        self.assertEqual("".join(p[1:] for p in pieces if p[0] == "\1"), "b\n" + "c" * 5000)
        self.assertLess(max(map(len, pieces)), 4096)

    def test_plain_values_are_json(self):
        for code, want in (("{'a': (1, None)}", {"a": [1, None]}), ("41 + 1", 42), ("float('nan')", None), ("{1, 2}", None), ("[object]", None)):
            frames, _ = self.kernel.run(code)
            self.assertEqual(pick(frames, "result")[0]["data"].get("application/json"), want, code)

    def test_children_have_no_descriptors_of_ours(self):
        _, output = self.kernel.run("import subprocess\nsubprocess.run('ls /proc/self/fd | wc -l', shell=True, close_fds=False)")
        if output.strip().isdigit():
            self.assertEqual(int(output), 4)  # three, and that of the folder

    def test_input_fails_at_once(self):
        self.assertIn("not available", self.error("input('name? ')")[0]["evalue"])
        self.assertEqual(self.result("import sys\nsys.stdin.read()"), ["''"])

    def test_interrupt(self):
        self.kernel.start("x = 1\nimport time\nprint('begun', flush=True)\ntime.sleep(600)")
        self.kernel.until(b"begun")
        self.kernel.interrupt()
        frames, _ = self.kernel.finish()
        self.assertEqual(frames[-1]["status"], "interrupted")
        self.assertEqual(pick(frames, "error")[0]["ename"], "KeyboardInterrupt")
        self.kernel.interrupt()  # between cells it has no effect
        self.assertEqual(self.result("x"), ["1"])

    def test_interrupt_of_a_coroutine(self):
        self.kernel.start("import asyncio\nasync def f():\n    try:\n        print('begun', flush=True)\n        await asyncio.sleep(600)\n"
                          "    finally:\n        print('cleaned')\nawait f()")
        self.kernel.until(b"begun")
        self.kernel.interrupt()
        frames, output = self.kernel.finish()
        self.assertEqual(frames[-1]["status"], "interrupted")
        self.assertIn("cleaned", output)

    def test_streams_are_repaired(self):
        self.kernel.run("import os, sys\nsys.stdout = None\nos.close(1)\nos.close(2)")
        _, output = self.kernel.run("print('again')")
        self.assertEqual(output, "again\n")
        self.kernel.run("sys.stdout.close()")
        self.assertEqual(self.kernel.run("print('and again')")[1], "and again\n")

    def test_fork(self):
        self.kernel.run("import warnings\nwarnings.simplefilter('ignore')")  # Python 3.12 and later warn about threads
        frames, output = self.kernel.run("import os\npid = os.fork()\nif pid == 0:\n    print('child')\nelse:\n    os.waitpid(pid, 0)\n    print('parent')")
        self.assertEqual([f["op"] for f in frames], ["done"])
        self.assertEqual(output, "child\nparent\n")
        frames, output = self.kernel.run("pid = os.fork()\nif pid == 0:\n    gantry.show(1)\nos.waitpid(pid, 0)[1] != 0")
        self.assertEqual(pick(frames, "display"), [])
        self.assertEqual(pick(frames, "result")[0]["data"]["text/plain"], "True")

    def test_lone_surrogates_and_much_output(self):
        self.assertEqual(self.kernel.run("print('\\ud800')")[1], "\\ud800\n")
        self.assertEqual(self.result("'\\ud800'"), ["'\\ud800'"])
        self.assertEqual(len(self.kernel.run("print('x' * 10_000_000)")[1]), 10_000_001)

    def test_output_of_a_nonblocking_pipe(self):
        _, output = self.kernel.run("import os\nos.set_blocking(1, False)\ngantry.show('shown')")
        self.assertEqual(output, "")
        self.assertEqual(self.result("1"), ["1"])

    def test_rich_values(self):
        frames, _ = self.kernel.run(
            "class Picture:\n    def _repr_png_(self): return b'\\x89PNG'\n    def _repr_html_(self): return '<b>'\n"
            "    def __repr__(self): return 'a picture'\ngantry.show(Picture())\nPicture()")
        want = {"text/plain": "a picture", "text/html": "<b>", "image/png": base64.b64encode(b"\x89PNG").decode()}
        self.assertEqual([f["data"] for f in frames[:2]], [want, want])
        frames, _ = self.kernel.run("class Bad:\n    def __repr__(self): raise ValueError\nBad()")
        self.assertIn("raised ValueError", pick(frames, "result")[0]["data"]["text/plain"])
        text = self.result("'x' * 3_000_000")[0]
        self.assertLess(len(text), 1_100_000)
        self.assertIn("characters omitted", text)

    def test_exit_keeps_the_namespace(self):
        self.result("x = 3")
        self.assertEqual(self.error("import sys\nsys.exit(2)")[0]["ename"], "SystemExit")
        self.assertEqual(self.result("x"), ["3"])

    def test_figures_are_shown_once_and_after_an_error(self):
        fake = (
            "import sys, types\nclass Figure:\n    def savefig(self, file, **how): file.write(repr(sorted(how.items())).encode())\n"
            "plt = types.ModuleType('matplotlib.pyplot')\nplt.open = [1]\nplt.get_fignums = lambda: list(plt.open)\n"
            "plt.figure = lambda n: Figure()\nplt.close = lambda all: plt.open.clear()\nsys.modules['matplotlib.pyplot'] = plt\n1/0")
        frames, _ = self.kernel.run(fake)
        self.assertEqual([f["op"] for f in frames], ["error", "display", "done"])
        drawn = base64.b64decode(frames[1]["data"]["image/png"])
        self.assertEqual(drawn, b"[('bbox_inches', 'tight'), ('format', 'png')]")
        self.assertEqual([f["op"] for f in self.kernel.run("2")[0]], ["result", "done"])

    def test_a_figure_that_was_closed_is_shown_as_a_value(self):
        fake = (
            "import sys, types\nclass Figure:\n    number = 1\n    def savefig(self, file, **how): file.write(b'drawn')\nFigure.__module__ = 'matplotlib.figure'\n"
            "plt = types.ModuleType('matplotlib.pyplot')\nplt.open = [1]\nplt.get_fignums = lambda: list(plt.open)\nfigure = Figure()\n"
            "plt.figure = lambda n: figure\nplt.close = lambda all: plt.open.clear()\nsys.modules['matplotlib.pyplot'] = plt\nfigure")
        frames, _ = self.kernel.run(fake)
        self.assertEqual([(f["op"], "image/png" in f.get("data", {})) for f in frames], [("result", False), ("display", True), ("done", False)])
        frames, _ = self.kernel.run("figure")
        self.assertEqual([(f["op"], "image/png" in f.get("data", {})) for f in frames], [("result", True), ("done", False)])
        self.assertEqual(base64.b64decode(frames[0]["data"]["image/png"]), b"drawn")
        frames, output = self.kernel.run("def broken(*a, **how): raise ValueError('no pen')\nfigure.savefig = broken\nfigure")
        self.assertEqual([f["op"] for f in frames], ["result", "done"])
        self.assertIn("no pen", output)

    def test_tools(self):
        def answer(frame):
            if frame["op"] == "call" and frame.get("tool") == "deny":
                self.kernel.send(op="reply", seq=frame["seq"], ok=False, error="denied")
            elif frame["op"] == "call":
                self.kernel.send(op="reply", seq=frame["seq"], ok=True, value=[frame["tool"], frame.get("args", frame.get("text"))])
            elif frame["op"] == "tools":
                self.kernel.send(op="reply", seq=frame["seq"], ok=True, value=["b", "a"])

        def result(code):
            frames, _ = self.kernel.run(code, answer)
            self.assertEqual(pick(frames, "error"), [])
            return pick(frames, "result")[0]["data"]["text/plain"]

        self.assertEqual(result("gantry.tools.look(path='x')"), "['look', {'path': 'x'}]")
        self.assertEqual(result("gantry.tools.patch('text')"), "['patch', 'text']")
        self.assertEqual(result("import asyncio\nawait asyncio.gather(*[gantry.tools.aio.a(n=n) for n in range(2)])"), "[['a', {'n': 0}], ['a', {'n': 1}]]")
        self.assertEqual(result("dir(gantry.tools)"), "['a', 'b']")
        self.assertEqual(result("try:\n    gantry.tools.deny()\nexcept gantry.ToolError as e:\n    caught = e.tool, str(e)\ncaught"), "('deny', 'denied')")

    def test_artifacts(self):
        data, names = [], []

        def answer(frame):
            if frame["op"] == "artifact":
                names.append((frame["name"], frame["media_type"]))
            elif frame["op"] == "chunk":
                data.append(base64.b64decode(frame.get("data", "")))
                if frame.get("last"):
                    self.kernel.send(op="reply", seq=frame["seq"], ok=True, value={"size": sum(map(len, data))})

        frames, _ = self.kernel.run("gantry.artifact(b'x' * 1_000_000, 'table.csv')", answer)
        self.assertEqual(pick(frames, "result")[0]["data"]["text/plain"], "{'size': 1000000}")
        self.assertEqual(names, [("table.csv", "text/csv")])
        self.assertGreater(len(data), 5)
        self.assertEqual(self.error("gantry.artifact('/nonexistent')")[0]["ename"], "FileNotFoundError")

    def test_outputs_and_progress(self):
        frames, _ = self.kernel.run("gantry.output({'a': 1}, 'first')\ngantry.output(object)\ngantry.progress(1, 2, 'half')")
        self.assertEqual([(f["label"], f["value"]) for f in pick(frames, "output")], [("first", {"a": 1}), ("", "<class 'object'>")])
        self.assertEqual(pick(frames, "progress")[0]["message"], "half")

    def test_half_a_frame_is_ignored(self):
        self.kernel.process.stdin.write(b'{"op":"exec","id":"lo\n')
        self.kernel.send(op="ping", nonce="n")
        self.assertEqual(self.kernel.frame()["nonce"], "n")

    def test_ping_during_a_cell(self):
        self.kernel.start("import time\nprint('begun', flush=True)\ntime.sleep(600)")
        self.kernel.until(b"begun")
        self.kernel.send(op="ping", nonce="n")
        frame = self.kernel.frame()
        self.assertEqual((frame["op"], frame["cell"], frame["version"]), ("pong", "c1", self.kernel.ready["version"]))
        if sys.platform.startswith("linux"):
            self.assertTrue(1 << 20 < frame["memory"] < 1 << 30, frame)
        self.kernel.interrupt()
        self.kernel.finish()

    def test_files_do_not_shadow_what_the_worker_needs(self):
        self.kernel.run("import os, sys, tempfile\nd = tempfile.mkdtemp()\nos.chdir(d)\nopen('traceback.py', 'w').write('broken')\nopen('mine.py', 'w').write('v = 9')")
        self.assertEqual(self.error("1/0")[0]["ename"], "ZeroDivisionError")
        self.assertEqual(self.result("import mine, shutil\nos.chdir('/')\nshutil.rmtree(d)\nmine.v"), ["9"])


class MemoryTest(unittest.TestCase):
    @unittest.skipUnless(sys.platform.startswith("linux"), "the limit exists on Linux only")
    def test_memory_error(self):
        kernel = Kernel(memory=256 << 20)
        self.addCleanup(kernel.close)
        frames, _ = kernel.run("b = bytearray(1 << 30)")
        self.assertEqual(pick(frames, "error")[0]["ename"], "MemoryError")
        frames, _ = kernel.run("1 + 1")
        self.assertEqual(pick(frames, "result")[0]["data"]["text/plain"], "2")


if __name__ == "__main__":
    unittest.main()

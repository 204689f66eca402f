"""A client of the Python SDK that uses gantry mcp serve, and fails if anything is not as it should be.

Usage: python client.py stdio COMMAND ARGUMENTS... | http URL TOKEN
"""

import os
import sys

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

kind, where, *rest = sys.argv[1:]
asked: list[str] = []
action = "decline"


async def answer(context, params):
    asked.append(params.message)
    return ElicitResult(action=action)


def connect(elicits: bool) -> Client:
    if kind == "stdio":
        server = StdioServerParameters(command=where, args=rest, env=dict(os.environ), cwd=os.getcwd())
    else:
        headers = {"Authorization": f"Bearer {rest[0]}"}
        server = streamable_http_client(where, http_client=httpx2.AsyncClient(headers=headers, timeout=120))
    return Client(server, elicitation_callback=answer if elicits else None)


async def main() -> None:
    global action
    async with connect(True) as client:
        tools = {t.name: t for t in (await client.list_tools()).tools}
        assert "exec_command" in tools, tools
        for name in ("gantry", "gantry-reply"):
            assert tools[name].output_schema["required"] == ["threadId", "content"], tools[name]

        # The user of the client declines, then accepts.
        progress: list[str | None] = []

        async def report(done, total, message):
            progress.append(message)

        first = await client.call_tool("gantry", {"prompt": "run it"}, progress_callback=report)
        assert first.structured_content["content"] == "done with run it", first
        assert first.content[0].text == "done with run it", first
        assert any("echo made >> made" in (line or "") for line in progress), progress
        assert not os.path.exists("made")
        assert len(asked) == 1 and "echo made >> made" in asked[0], asked
        action = "accept"
        thread = first.structured_content["threadId"]
        second = await client.call_tool("gantry-reply", {"threadId": thread, "prompt": "run it again"})
        assert second.structured_content == {"threadId": thread, "content": "done with run it again"}, second
        assert os.path.exists("made")

        # A tool of a plugin.
        said = await client.call_tool("exec_command", {"cmd": "echo said", "login": False})
        assert not said.is_error and "said" in said.content[0].text, said

        # A call that is cancelled is an interrupted turn, after which the thread goes on.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "gantry-reply", {"threadId": thread, "prompt": "wait"})
            while not os.path.exists("begun"):
                await anyio.sleep(0.02)
            tasks.cancel_scope.cancel()
        after = await client.call_tool("gantry-reply", {"threadId": thread, "prompt": "hello"})
        assert after.structured_content["content"] == "done with hello", after

        # Requests for what gantry does not have are answered.
        for request in (client.get_prompt("nothing"), client.read_resource("gantry-artifact://nothing/here")):
            try:
                await request
                raise AssertionError("there is something")
            except MCPError:
                pass
        assert (await client.call_tool("gantry", {"prompt": " "})).is_error

    # Another connection goes on with the thread, and is refused what it can't put to a user.
    async with connect(False) as again:
        third = await again.call_tool("gantry-reply", {"threadId": thread, "prompt": "run it unasked"})
        assert third.structured_content["content"] == "done with run it unasked", third
        assert "does not support elicitation" in third.structured_content["refused"][0], third


anyio.run(main)
print("all is well")

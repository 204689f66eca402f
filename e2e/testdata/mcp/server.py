"""A server of the Python SDK. Usage: python server.py stdio|http|sse"""

import base64
import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

server = MCPServer("python", instructions="Tools of a shop.")


@server.tool(description="Greets.", annotations=ToolAnnotations(read_only_hint=True))
def greet(name: str) -> str:
    return f"hello {name}"


@server.tool(description="Shows a picture.", structured_output=False)
def picture() -> list:
    return ["a dot", Image(data=base64.b64decode(PICTURE), format="png")]


class Price(BaseModel):
    product: str
    cents: int


@server.tool(description="Says a price.")
def price(product: str) -> Price:
    return Price(product=product, cents=1250)


@server.tool(description="Fails.")
def fail() -> str:
    raise ToolError("out of stock")


class Choice(BaseModel):
    size: int
    colour: str = "red"


@server.tool(description="Orders what its user chooses.")
async def order(ctx: Context) -> str:
    await ctx.report_progress(1, 2, "looked into the store")
    answer = await ctx.elicit("Which one?", Choice)
    return f"ordered {answer.data.size} {answer.data.colour}" if answer.action == "accept" else answer.action


def grown() -> str:
    return "grown"


@server.tool(description="Offers another tool.")
async def grow(ctx: Context) -> str:
    server.add_tool(grown, description="Was added.")
    await ctx.session.send_tool_list_changed()
    return "there is another tool"


@server.resource("shop://hours", name="opening hours")
def hours() -> str:
    return "from nine to five"


@server.resource("shop://product/{name}", name="product")
def product(name: str) -> str:
    return f"the product {name}"


@server.prompt()
def offer(product: str) -> str:
    return f"Write an offer for {product}."


kind = sys.argv[1]
if kind == "stdio":
    server.run()
else:
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on {listener.getsockname()[1]}", flush=True)
    app = server.streamable_http_app() if kind == "http" else server.sse_app()
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])

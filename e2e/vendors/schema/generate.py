"""Writes the JSON schemas of request bodies, taken from the types that the vendors publish with their own clients.

Needs the packages in requirements.txt. Objects are closed: a property that a vendor does not name is refused. Descriptions are
left out.
"""

import gzip
import json
import pathlib
import re
from typing import Any, Callable, Optional

import anthropic
import botocore
import google.genai
import ollama
import openai
from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming as Messages
from google.genai import types as gemini
from ollama import _types as ollama_types
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming as Chat
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming as Responses
from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.alias_generators import to_camel


class GenerateContent(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")

    contents: list[gemini.Content]
    system_instruction: Optional[gemini.Content] = None
    tools: Optional[list[gemini.Tool]] = None
    tool_config: Optional[gemini.ToolConfig] = None
    generation_config: Optional[gemini.GenerationConfig] = None
    safety_settings: Optional[list[gemini.SafetySetting]] = None
    cached_content: Optional[str] = None
    labels: Optional[dict[str, str]] = None
    service_tier: Optional[str] = None


def strict(value: Any, in_properties: bool = False) -> Any:
    """Closes objects and drops prose. in_properties: the keys are names of properties, not keywords."""
    if isinstance(value, list):
        return [strict(v) for v in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, v in value.items():
        if not in_properties and key in ("description", "title", "default", "discriminator", "examples"):
            continue
        out[key] = strict(v, key in ("properties", "$defs"))
    if not in_properties and "properties" in out and "additionalProperties" not in out:
        out["additionalProperties"] = False
    return out


def deepseek(schema: dict[str, Any]) -> None:
    """DeepSeek's deviations: reasoning travels in the messages, nothing but text is taken."""
    schema["properties"]["thinking"] = {"type": "object", "properties": {"type": {"enum": ["enabled", "disabled"]}}, "additionalProperties": False}
    for name in ("store", "max_completion_tokens", "service_tier"):
        del schema["properties"][name]
    defs = schema["$defs"]
    defs["ChatCompletionAssistantMessageParam"]["properties"]["reasoning_content"] = {"type": "string"}
    defs["ChatCompletionUserMessageParam"]["properties"]["content"] = {"type": "string"}


def ollama_chat(schema: dict[str, Any]) -> None:
    """What the server takes and its Python client does not know."""
    schema["properties"]["truncate"] = schema["properties"]["shift"] = {"type": "boolean"}
    for name in ("Parameters", "Property"):  # any JSON schema
        schema["$defs"][name]["additionalProperties"] = True
    schema["$defs"]["ToolCall"]["properties"]["id"] = {"type": "string"}
    schema["$defs"]["Message"]["properties"]["tool_call_id"] = {"type": "string"}


def google_gemini(schema: dict[str, Any]) -> None:
    """The service reads the names of enumerations in any case, and its documents write them in lower case."""
    for name in ("ThinkingLevel", "Type"):
        enum = schema["$defs"][name]["enum"]
        enum.extend([e.lower() for e in enum])


def openai_responses(schema: dict[str, Any]) -> None:
    """The service takes an earlier answer without its id and status, and an image without its detail, as clients in the field send them."""
    for name, left_out in ("ResponseOutputMessageParam", "id"), ("ResponseOutputMessageParam", "status"), ("ResponseInputImageParam", "detail"):
        schema["$defs"][name]["required"].remove(left_out)


def write(name: str, typ: Any, source: str, change: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
    schema = strict(TypeAdapter(typ).json_schema(by_alias=True))
    change(schema)
    save(name, schema, source)


def aws_schema(model: dict[str, Any], root: str) -> dict[str, Any]:
    """The JSON schema of a shape in a service's model. What travels in the address is left out."""
    shapes, defs = model["shapes"], {}

    def ref(name: str) -> dict[str, Any]:
        if name not in defs:
            defs[name] = {}  # shapes may hold themselves
            defs[name] = convert(shapes[name])
        return {"$ref": f"#/$defs/{name}"}

    def convert(shape: dict[str, Any]) -> dict[str, Any]:
        kind, out = shape["type"], {}
        if shape.get("document"):
            return {}  # any JSON
        if kind == "structure":
            members = {n: m for n, m in shape["members"].items() if m.get("location") != "uri"}
            out = {"type": "object", "additionalProperties": False, "properties": {n: ref(m["shape"]) for n, m in members.items()}}
            required = [n for n in shape.get("required", []) if n in members]
            if required:
                out["required"] = required
            if shape.get("union"):
                out["minProperties"] = out["maxProperties"] = 1
        elif kind == "list":
            out = {"type": "array", "items": ref(shape["member"]["shape"]), "minItems": shape.get("min", 0)}
        elif kind == "map":
            out = {"type": "object", "additionalProperties": ref(shape["value"]["shape"])}
        elif kind == "blob":
            out = {"type": "string", "pattern": "^[A-Za-z0-9+/]*={0,2}$"}
        elif kind == "string":
            out = {"type": "string", "minLength": shape.get("min", 0)}
            if "enum" in shape:
                out["enum"] = shape["enum"]
            if "pattern" in shape and not re.search(r"\(\?[=!<]", shape["pattern"]):
                out["pattern"] = "^(?:" + shape["pattern"] + ")$"
            if "max" in shape:
                out["maxLength"] = shape["max"]
        else:
            out = {"type": {"integer": "integer", "long": "integer", "float": "number", "double": "number", "boolean": "boolean"}[kind]}
            if "min" in shape and out["type"] != "boolean":
                out["minimum"] = shape["min"]
            if "max" in shape and out["type"] != "boolean":
                out["maximum"] = shape["max"]
        return out

    schema = convert(shapes[root])
    schema["$defs"] = defs
    return schema


def bedrock_model() -> dict[str, Any]:
    path = pathlib.Path(botocore.__file__).parent / "data/bedrock-runtime/2023-09-30/service-2.json.gz"
    return json.loads(gzip.decompress(path.read_bytes()))


def save(name: str, schema: dict[str, Any], source: str) -> None:
    schema["$comment"] = source
    path = pathlib.Path(__file__).parent / f"{name}.json"
    path.write_text(json.dumps(schema, separators=(",", ":"), sort_keys=True) + "\n")
    print(name, path.stat().st_size)


write("openai-responses", Responses, f"types of openai {openai.__version__}", openai_responses)
write("openai-chat", Chat, f"types of openai {openai.__version__}")
write("deepseek-chat", Chat, f"types of openai {openai.__version__}, and DeepSeek's deviations", deepseek)
write("anthropic-messages", Messages, f"types of anthropic {anthropic.__version__}")
write("gemini", GenerateContent, f"types of google-genai {google.genai.__version__}", google_gemini)
write("ollama-chat", ollama_types.ChatRequest, "types of ollama 0.6.3", ollama_chat)
save("bedrock-converse", aws_schema(bedrock_model(), "ConverseStreamRequest"), f"service model of botocore {botocore.__version__}")

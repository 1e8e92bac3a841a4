"""Servers' own wordings of a rejection, as they were recorded, reported or documented, and what each one teaches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from svir_proxy.errors import ProxyError
from svir_proxy.profiles.schema import Profile
from svir_proxy.response.json_text import dumps
from svir_proxy.response.upstream_error import ErrorReader
from tests.request.support import GONE, ask, call, client, function, user

F: Final = function("f")
DEVELOPER: Final = {"role": "developer", "content": "Be brief."}
SYSTEM: Final = {"role": "system", "content": "Be brief."}
ASSISTANT: Final = {"role": "assistant", "content": "Hello"}
CALLED: Final = {"role": "assistant", "content": None, "tool_calls": [call("f")]}
RESULT: Final = {"role": "tool", "tool_call_id": "call_1", "content": "1"}
PARTS: Final = [{"type": "text", "text": "a"}]
SCHEMA: Final = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
OBJECT: Final = {"type": "json_object"}
NAMED: Final = {"type": "function", "function": {"name": "f"}}
REJECTED: Final = "rejected"
_NO_FACTS: Final[Mapping[str, Any]] = {}


class Case(NamedTuple):
    """A server's answer to a request, what it teaches (paths below ``request``), and what the second try changes."""

    error: Any
    body: dict[str, Any]
    learned: dict[str, Any]
    changes: dict[str, Any]
    facts: Mapping[str, Any] = _NO_FACTS
    status: int = 400

    def read(self, body: dict[str, Any], served: Profile) -> ProxyError:
        """The error as the proxy reads it, in answer to *body*."""
        return ErrorReader(client(body), served.errors).from_response(self.status, {}, dumps(self.error))


def _openai(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def _pydantic(*locs: list[Any], kind: str = "extra_forbidden", said: str = "Extra inputs are not permitted") -> Any:
    return {"detail": [{"type": kind, "loc": ["body", *loc], "msg": said, "input": 1} for loc in locs]}


def _drop(*names: str) -> tuple[dict[str, str], dict[str, str]]:
    return {f"optional_fields.{name}": REJECTED for name in names}, dict.fromkeys(names, GONE)


def _field(error: Any, name: str, status: int = 400, value: Any = 1, **more: Any) -> Case:
    """*error* names one optional field, among others that stay."""
    return Case(error, ask(**{"store": True, "top_k": 2, name: value, **more}), *_drop(name), {}, status)


FIELDS: Final[dict[str, Case]] = {
    "vLLM, param": _field(_openai("Extra inputs are not permitted (parameter=stream_options)", "stream_options"), "stream_options", stream=True),
    "Azure serverless, #/field": _field({"error": {"code": 400, "message": "Validation error at #/stream_options: Extra inputs are not permitted"}}, "stream_options", stream=True),
    "Mistral, loc": _field(_pydantic(["store"]), "store", 422, True),
    "Mistral, JSON inside of the message": _field(
        {"object": "error", "message": '{"detail":[{"type":"extra_forbidden","loc":["body","frequency_penalty"],"msg":"Extra inputs are not permitted"}]}', "type": "internal_error_proxy", "code": "1000"},
        "frequency_penalty", 422,
    ),
    "loc as a path": _field({"detail": "Validation Error", "errors": [{"loc": "body -> seed", "msg": "Extra inputs are not permitted"}]}, "seed", 422),
    "vLLM, loc in words": _field(_openai("1 validation error:\n  {'type': 'extra_forbidden', 'loc': 'body.prompt_cache_key', 'msg': 'Extra inputs are not permitted', 'input': 'x'}"), "prompt_cache_key"),
    "Go": _field({"error": 'json: unknown field "store"'}, "store", value=True),
    "serde": _field(_openai("Failed to deserialize the JSON body into the target type: unknown field `seed`, expected one of `model`, `messages`, `store` at line 1 column 60"), "seed", 422),
    "OpenAI, unrecognized": _field(_openai("Unrecognized request argument supplied: top_k"), "top_k"),
    "OpenAI, unknown": _field(_openai("Unknown parameter: 'min_p'.", "min_p", "unknown_parameter"), "min_p"),
    "OpenAI, unsupported": _field(_openai("Unsupported parameter: 'frequency_penalty' is not supported with this model.", "frequency_penalty", "unsupported_parameter"), "frequency_penalty"),
    "OpenAI, one value only": _field(_openai("Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.", "temperature", "unsupported_value"), "temperature"),
    "Gemini": _field([{"error": {"code": 400, "message": 'Invalid JSON payload received. Unknown name "seed": Cannot find field.', "status": "INVALID_ARGUMENT"}}], "seed"),
    "Groq": _field(_openai("property 'logit_bias' is unsupported"), "logit_bias", value={"1": 1}),
    "JSON schema": _field(_openai("Additional properties are not allowed ('verbosity' was unexpected)"), "verbosity", value="low"),
    "Python": _field({"error": "create() got an unexpected keyword argument 'metadata'"}, "metadata", value={"a": "b"}),
    "camel case": _field(_openai("promptCacheKey is not supported"), "prompt_cache_key"),
    "in words": _field(_openai("Parallel tool calls are not supported by this model."), "parallel_tool_calls", value=False, tools=[F]),
    "field first": _field(_openai("user: Extra inputs are not permitted"), "user", value="ann"),
    "field and value": _field(_openai("top_logprobs is not available (parameter=top_logprobs, value=2)"), "top_logprobs", logprobs=True),
    "two at once": Case(_openai("Unsupported parameters: store, metadata"), ask(store=True, metadata={"a": "b"}, seed=1), *_drop("store", "metadata")),
    "logprobs": Case(_openai("logprobs is not supported by this model"), ask(logprobs=True, top_logprobs=2), {"optional_fields.logprobs": REJECTED}, {"logprobs": GONE, "top_logprobs": GONE}),
    "a field of the profile's, in neutral words": Case(_openai("There is something with 'service_tier'."), ask(service_tier="flex"), *_drop("service_tier"), {"optional_fields.service_tier": "kept"}),
    "mlx-vlm's own field": Case(_pydantic(["context_management"]), ask(), {"optional_fields.context_management": REJECTED}, {"context_management": GONE}, {"always_send": {"context_management": []}}, 422),
}  # fmt: skip

FACTS: Final[dict[str, Case]] = {
    # roles and their order
    "DeepSeek, developer": Case(_openai("Failed to deserialize the JSON body into the target type: messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool` at line 1 column 60"), ask(DEVELOPER, user(), user="u"), {"developer_role": REJECTED}, {"messages": [SYSTEM, user()]}),
    "halogen, developer": Case(_openai("chat template rejected the request: Unexpected message role."), ask(DEVELOPER, user()), {"developer_role": REJECTED}, {"messages": [SYSTEM, user()]}),
    "mlx-lm, developer": Case({"error": "Unexpected message role."}, ask(DEVELOPER, user()), {"developer_role": REJECTED}, {"messages": [SYSTEM, user()]}, {}, 404),
    "Mistral, developer": Case(_pydantic(["messages", 0, "role"], kind="literal_error", said="Input should be 'system', 'user', 'assistant' or 'tool'"), ask(DEVELOPER, user(), user="u"), {"developer_role": REJECTED}, {"messages": [SYSTEM, user()]}, {}, 422),
    "vLLM, system": Case(_openai("System message must be at the beginning."), ask(user(), SYSTEM), {"late_system": REJECTED}, {"messages": [SYSTEM, user()]}),
    "oMLX, system": Case({"detail": "Chat template error: System message must be at the beginning."}, ask(user(), SYSTEM), {"late_system": REJECTED}, {"messages": [SYSTEM, user()]}),
    "Mistral, system": Case(_openai("Unexpected role 'system' after role 'user'"), ask(user(), SYSTEM), {"late_system": REJECTED}, {"messages": [SYSTEM, user()]}),
    "llama.cpp, alternate": Case({"error": {"code": 500, "message": "\n------------\nWhile executing CallExpression at line 47, column 32 in source:\n...\nError: Jinja Exception: After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.", "type": "server_error"}}, ask(user("a"), user("b")), {"consecutive_roles": REJECTED}, {"messages": [user("a\n\nb")]}, {}, 500),
    "llama.cpp, two assistants": Case(_openai("Cannot have 2 or more assistant messages at the end of the list."), ask(user(), ASSISTANT, ASSISTANT), {"consecutive_roles": REJECTED}, {"messages": [user(), {"role": "assistant", "content": "Hello\n\nHello"}]}),
    "Perplexity, alternate": Case(_openai("Last message must have role `user`. After the (optional) system message(s), user and assistant roles should be alternating."), ask(user("a"), user("b")), {"consecutive_roles": REJECTED}, {"messages": [user("a\n\nb")]}),
    # content
    "Groq, string": Case(_openai("'messages.0' : for 'role:system' the following must be satisfied[('messages.0.content' : value must be a string)]"), ask({"role": "system", "content": PARTS}, user()), {"content_parts": REJECTED}, {"messages": [{"role": "system", "content": "a"}, user()]}),
    "serde, string": Case(_openai("messages[0].content: invalid type: sequence, expected a string"), ask(user(PARTS)), {"content_parts": REJECTED}, {"messages": [user("a")]}),
    "tool content": Case(_pydantic(["messages", 2, "tool", "content"], kind="string_type", said="Input should be a valid string"), ask(user(), CALLED, {**RESULT, "content": PARTS}), {"tool_content_parts": REJECTED}, {"messages": [user(), CALLED, {**RESULT, "content": "a"}]}, {}, 422),
    "xAI, one element": Case({"code": "Client specified an invalid argument", "error": "The model expects a single `text` element per message."}, ask(user([*PARTS, *PARTS])), {"content_parts": REJECTED}, {"messages": [user("aa")]}),
    "xAI, null": Case({"code": "Client specified an invalid argument", "error": "Each message must have at least one content element."}, ask(user(), CALLED, RESULT), {"null_content": REJECTED}, {"messages": [user(), {**CALLED, "content": ""}, RESULT]}),
    "Bedrock, null": Case({"error": {"message": "bedrock error: The content field in the Message object at messages.1 is empty. Add a ContentBlock object to the content field and try again.", "type": None}}, ask(user(), CALLED, RESULT), {"null_content": REJECTED}, {"messages": [user(), {**CALLED, "content": ""}, RESULT]}),
    "missing content": Case(_pydantic(["messages", 1, "content"], kind="missing", said="Field required"), ask(user(), {"role": "assistant", "tool_calls": [call("f")]}, RESULT), {"missing_content": REJECTED}, {"messages": [user(), {"role": "assistant", "tool_calls": [call("f")], "content": ""}, RESULT]}, {}, 422),
    "llama.cpp, refusal": Case({"error": {"code": 400, "message": "unsupported content[].type", "type": "invalid_request_error"}}, ask(user(), {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}), {"refusal_parts": REJECTED}, {"messages": [user(), {"role": "assistant", "content": [{"type": "text", "text": "No."}]}]}),
    # earlier turns
    "Cerebras, reasoning": Case({"message": "messages.1.assistant.reasoning_content: property 'messages.1.assistant.reasoning_content' is unsupported", "type": "invalid_request_error", "param": "validation_error", "code": "wrong_api_format"}, ask(user(), {**ASSISTANT, "reasoning_content": "r"}, user(), seed=1), {"reasoning_history": "none"}, {"messages": [user(), ASSISTANT, user()]}, {"reasoning_history": "reasoning_content", "optional_fields.seed": "unknown"}),
    "Mistral, reasoning": Case(_pydantic(["messages", 1, "assistant", "reasoning"]), ask(user(), {**ASSISTANT, "reasoning": "r"}, user()), {"reasoning_history": "none"}, {"messages": [user(), ASSISTANT, user()]}, {"reasoning_history": "reasoning"}, 422),
    "LM Studio, thinking": Case({"error": 'Error rendering prompt with jinja template: "Cannot pass both content and thinking in an assistant message with tool calls! Put the analysis message in one or the other, but not both.".'}, ask(user(), {**CALLED, "reasoning_content": "r"}, RESULT), {"reasoning_history": "none"}, {"messages": [user(), CALLED, RESULT]}, {"reasoning_history": "reasoning_content"}),
    "DeepSeek, reasoning": Case(_openai("The `reasoning_content` in the thinking mode must be passed back to the API."), ask(user(), {**CALLED, "reasoning_content": "r"}, RESULT), {"reasoning_history": "reasoning_content"}, {"messages": [user(), {**CALLED, "reasoning_content": "r"}, RESULT]}, {"reasoning_history": "none"}),
    "Mistral, call ids": Case({"object": "error", "message": "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.", "type": "invalid_request_error", "code": "3280"}, ask(user(), CALLED, RESULT), {"call_ids": "alphanumeric_9"}, {"messages": None}),
    "llama.cpp, arguments": Case({"error": {"code": 500, "message": "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error at line 1, column 1", "type": "server_error"}}, ask(user(), {**CALLED, "tool_calls": [call("f", "")]}, RESULT), {"empty_arguments": REJECTED}, {"messages": [user(), {**CALLED, "tool_calls": [call("f", "{}")]}, RESULT]}, {}, 500),
    "Groq, name": Case(_openai("'messages.2' : for 'role:tool' the following must be satisfied[('messages.2.name' : property 'name' is unsupported)]"), ask(user(), CALLED, {**RESULT, "name": "f"}), {"tool_message_name": REJECTED}, {"messages": [user(), CALLED, RESULT]}),
    "Gemini, name": Case([{"error": {"code": 400, "message": "* GenerateContentRequest.contents[2].parts[0].function_response.name: Name cannot be empty.", "status": "INVALID_ARGUMENT"}}], ask(user(), CALLED, RESULT), {"tool_message_name": "required"}, {"messages": [user(), CALLED, {**RESULT, "name": "f"}]}),
    # tools
    "strict, by path": Case(_pydantic(["tools", 0, "function", "strict"]), ask(tools=[function("f", strict=True)]), {"tool_strict": REJECTED}, {"tools": [F]}, {}, 422),
    "strict, by name": Case(_openai("Unknown field 'strict' in tools.0.function"), ask(tools=[function("f", strict=False)]), {"tool_strict": REJECTED}, {"tools": [F]}),
    "TokenMix, strict": Case(_openai("invalid value for parameter 'tools'", "tools"), ask(tools=[function("f", strict=True)]), {"tool_strict": REJECTED}, {"tools": [F]}),
    "LM Studio, parameters": Case({"error": '[\n  {\n    "code": "invalid_union_discriminator",\n    "options": [\n      "object"\n    ],\n    "path": [\n      0,\n      "function",\n      "parameters",\n      "type"\n    ],\n    "message": "Invalid discriminator value. Expected \'object\'"\n  }\n]'}, ask(tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}]), {"empty_parameters": REJECTED}, {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]}),
    "vLLM, no tools": Case(_openai("`tools` must not be an empty array. Either provide at least one tool or omit the field entirely. (parameter=tools)", "tools"), ask(tools=[]), {"empty_tools": REJECTED}, {"tools": GONE}),
    "Azure, no tools": Case(_openai("Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified.", "parallel_tool_calls"), ask(parallel_tool_calls=False), {"empty_tools": REJECTED}, {"parallel_tool_calls": GONE}),
    "vLLM, a choice without tools": Case(_openai("When using `tool_choice`, `tools` must be set."), ask(tool_choice="auto"), {"empty_tools": REJECTED}, {"tool_choice": GONE}),
    "functions": Case(_openai("Unknown parameter: 'functions'.", "functions", "unknown_parameter"), ask(functions=[F["function"]]), {"legacy_functions": REJECTED}, {"functions": GONE, "tools": [F]}),
    "function messages": Case(_openai("messages[1].role: unknown variant `function`, expected one of `system`, `user`, `assistant`, `tool`"), ask(user(), {"role": "function", "name": "f", "content": "1"}), {"legacy_functions": REJECTED}, {"messages": [user(), {"role": "tool", "content": "1", "tool_call_id": "function_call_1"}]}),
    # the choice between them
    "LM Studio, named": Case({"error": "Invalid tool_choice type: 'object'. Supported string values: none, auto, required"}, ask(tools=[F], tool_choice=NAMED), {"tool_choice.named": REJECTED}, {"tool_choice": "required"}),
    "DashScope, required": Case(_openai("<400> InternalError.Algo.InvalidParameter: The tool_choice parameter does not support being set to required or object in thinking mode"), ask(tools=[F], tool_choice="required", reasoning_effort="high"), {"tool_choice.required": REJECTED, "tool_choice.named": REJECTED}, {"tool_choice": "auto", "messages": None}),
    "DashScope, named": Case(_openai("The tool_choice parameter does not support being set to required or object in thinking mode"), ask(tools=[F], tool_choice=NAMED), {"tool_choice.required": REJECTED, "tool_choice.named": REJECTED}, {"tool_choice": "auto", "messages": None}),
    "auto": Case(_openai("tool_choice 'auto' is not supported"), ask(tools=[F], tool_choice="auto"), {"tool_choice.auto": REJECTED}, {"tool_choice": GONE}),
    "none": Case(_openai("tool_choice: Input should be 'auto' or 'required'", "tool_choice"), ask(tools=[F], tool_choice="none"), {"tool_choice.none": REJECTED}, {"tool_choice": GONE, "tools": GONE}),
    "allowed_tools": Case(_openai("Invalid value for `tool_choice`!", "tool_choice"), ask(tools=[F, function("g")], tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [NAMED]}), {"tool_choice.allowed_tools": REJECTED}, {"tool_choice": "auto", "tools": [F]}, {"tool_choice.allowed_tools": "kept"}),
    # the format of the answer
    "LM Studio, object": Case({"error": "'response_format.type' must be 'json_schema' or 'text'"}, ask(response_format=OBJECT), {"response_format.json_object": REJECTED}, {"response_format": {"type": "json_schema", "json_schema": {"name": "object", "schema": {"type": "object"}}}}),
    "DeepSeek, schema": Case(_openai("This response_format type is unavailable now"), ask(response_format=SCHEMA), {"response_format.json_schema": REJECTED}, {"response_format": GONE, "messages": None}),
    "OpenAI, schema": Case(_openai("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.", "response_format"), ask(response_format=SCHEMA), {"response_format.json_schema": REJECTED}, {"response_format": GONE, "messages": None}),
    "OpenAI, the word": Case(_openai("'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.", "messages"), ask(response_format=OBJECT), {"response_format.json_object_needs_word": True}, {"messages": [{"role": "system", "content": "Answer in JSON."}, user()]}),
    "DeepSeek, the word": Case(_openai("Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'."), ask(response_format=OBJECT), {"response_format.json_object_needs_word": True}, {"messages": None}),
    # the limit
    "Azure, max_tokens": Case(_openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "max_tokens", "unsupported_parameter"), ask(max_tokens=5), {"max_tokens_field": "max_completion_tokens"}, {"max_tokens": GONE, "max_completion_tokens": 5}),
    "Mistral, max_completion_tokens": Case(_pydantic(["max_completion_tokens"]), ask(max_completion_tokens=5), {"max_tokens_field": "max_tokens"}, {"max_completion_tokens": GONE, "max_tokens": 5}, {"max_tokens_field": "both"}, 422),
    "both, one refused": Case(_openai("Unknown parameter: 'max_completion_tokens'. Use 'max_tokens' instead."), ask(max_completion_tokens=5, max_tokens=6), {"max_tokens_field": "max_tokens"}, {"max_completion_tokens": GONE, "max_tokens": 5}, {"max_tokens_field": "both"}),
    # the stream
    "GPT4All, stream": Case(_openai("'stream' is not supported"), ask(stream=True), {"stream": "never"}, {"stream": GONE}),
    "stream, in words": Case(_openai("Streaming is not supported for this model."), ask(stream=True, stream_options={}), {"stream": "never"}, {"stream": GONE, "stream_options": GONE}),
    "stream, the other way round": Case(_openai("This model does not support streaming."), ask(stream=True), {"stream": "never"}, {"stream": GONE}),
    "llama-cpp-python, tools": Case({"error": {"message": "Cannot use tools with stream", "type": "internal_server_error", "param": None, "code": None}}, ask(stream=True, tools=[F]), {"stream_with_tools": REJECTED}, {"stream": GONE}, {}, 500),
    "llama.cpp, logprobs": Case({"error": {"code": 400, "message": "logprobs is not supported with tools + stream", "type": "invalid_request_error"}}, ask(stream=True, tools=[F], logprobs=True), {"stream_logprobs_with_tools": REJECTED}, {"logprobs": GONE}),
    "logprobs": Case(_openai("logprobs are not supported with stream"), ask(stream=True, logprobs=True, top_logprobs=1), {"stream_logprobs": REJECTED}, {"logprobs": GONE, "top_logprobs": GONE}),
    # reasoning efforts
    "vLLM, effort": Case(_openai("Unexpected reasoning effort high. Supported types are xhigh (default), medium, and low."), ask(reasoning_effort="high"), {"reasoning_efforts.high": None}, {"reasoning_effort": GONE}),
    "vLLM, effort's value": Case({"error": {"message": "1 validation error:\n  {'type': 'literal_error', 'loc': 'body.reasoning_effort', 'msg': \"Input should be 'none', 'minimal', 'low', 'medium', 'high', 'xhigh' or 'max'\", 'input': 'ultra'}", "type": "Bad Request", "param": "body.reasoning_effort", "code": 400}}, ask(reasoning_effort="ultra"), {"reasoning_efforts.ultra": None}, {"reasoning_effort": GONE}),
    "Ollama, effort": Case(_openai('invalid reasoning value: "ultra" (must be "minimal", "low", "medium", "high")'), ask(reasoning_effort="ultra"), {"reasoning_efforts.ultra": None}, {"reasoning_effort": GONE}),
    "OpenAI, effort": Case(_openai("Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. Supported values are: 'low', 'medium', and 'high'.", "reasoning_effort", "unsupported_value"), ask(reasoning_effort="minimal"), {"reasoning_efforts.minimal": None}, {"reasoning_effort": GONE}),
    "pydantic, effort": Case(_pydantic(["reasoning_effort"], kind="literal_error", said="Input should be 'low' or 'medium'"), ask(reasoning_effort="high"), {"reasoning_efforts.high": None}, {"reasoning_effort": GONE}, {}, 422),
    "Ollama, thinking": Case(_openai('"llama3.2" does not support thinking'), ask(reasoning_effort="high"), {"optional_fields.reasoning_effort": REJECTED}, {"reasoning_effort": GONE}),
    "OpenAI, no effort": Case(_openai("Unrecognized request argument supplied: reasoning_effort"), ask(reasoning_effort="high"), {"optional_fields.reasoning_effort": REJECTED}, {"reasoning_effort": GONE}),
    # nothing named: what is not known to be kept
    "Gemini, nothing named": Case([{"error": {"code": 400, "message": "Request contains an invalid argument.", "status": "INVALID_ARGUMENT"}}], ask(store=True, seed=1, top_k=3, temperature=1), {"optional_fields.store": REJECTED, "optional_fields.top_k": REJECTED}, {"store": GONE, "top_k": GONE}, {"optional_fields.store": "unknown", "optional_fields.seed": "kept", "unknown_fields": "unknown"}),
    "no words at all": Case({}, ask(store=True, seed=1), {"optional_fields.seed": REJECTED}, {"seed": GONE}, {"optional_fields.store": "ignored", "optional_fields.seed": "unknown"}),
}  # fmt: skip

_ALL_UNKNOWN: Final = {
    "optional_fields": dict.fromkeys(("store", "seed", "user", "stream_options", "logprobs"), "unknown")
}
_OPTIONAL: Final = {"store": True, "seed": 1, "user": "u", "logprobs": True}

NOTHING: Final[dict[str, Case]] = {
    name: Case(error, ask(*messages, **{**_OPTIONAL, **fields}), {}, {}, _ALL_UNKNOWN, status)
    for name, error, messages, fields, status in (
        # about a value, which another request may say otherwise
        ("vLLM, range", _openai("temperature must be in [0, 2], got 5.0. (parameter=temperature, value=5.0)", "temperature"), [], {"temperature": 5}, 400),
        ("vLLM, logprobs", _openai("Requested sample logprobs of 50, which is greater than max allowed: 20 (parameter=logprobs, value=50)", "logprobs"), [], {"top_logprobs": 50}, 400),
        ("vLLM, bias", _openai("token_id(s) [999999] in logit_bias contain out-of-vocab token ids. Vocabulary size: 640 (parameter=logit_bias, value=[999999])", "logit_bias"), [], {"logit_bias": {"999999": 1}}, 400),
        ("vLLM, limit", _openai("max_tokens=5000 cannot be greater than max_model_len=512. Please request fewer output tokens. (parameter=max_tokens, value=5000)", "max_tokens"), [], {"max_tokens": 5000}, 400),
        ("DeepSeek, limit", _openai("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"), [], {"max_tokens": 9000}, 400),
        ("mlx-lm, logprobs", {"error": "top_logprobs must be at most 11"}, [], {"top_logprobs": 20}, 400),
        ("mlx-vlm, type", _pydantic(["seed"], kind="int_type", said="Input should be a valid integer"), [], {"seed": "x"}, 422),
        ("llama.cpp, type", _openai("Field 'temperature': [json.exception.type_error.302] type must be number, but is string"), [], {"temperature": "x"}, 400),
        ("an effort that no server knows", _openai("Unexpected reasoning effort quite a lot. Supported types are low."), [], {"reasoning_effort": "quite a lot"}, 400),
        ("mlx-vlm, effort", _pydantic(["reasoning_effort"], kind="string_type", said="Input should be a valid string"), [], {"reasoning_effort": 3}, 422),
        # about the client's own schema, tool or message
        ("vLLM, grammar", _openai("Grammar error: Invalid type: objekt"), [], {"response_format": SCHEMA}, 400),
        ("vLLM, no name", _openai("6 validation errors:\n  {'type': 'missing', 'loc': 'body.response_format.json_schema.name', 'msg': 'Field required'}", "body.response_format.json_schema.name"), [], {"response_format": SCHEMA}, 400),
        ("OpenAI, schema", _openai("Invalid schema for response_format 'x': In context=(), 'additionalProperties' is required to be supplied and to be false.", "response_format", "invalid_json_schema"), [], {"response_format": SCHEMA}, 400),
        ("mlx-vlm, no schema", {"detail": "response_format json_schema must include a schema field"}, [], {"response_format": SCHEMA}, 400),
        ("vLLM, no such tool", _openai("The tool specified in `tool_choice` does not match any of the specified `tools` (parameter=tool_choice)", "tool_choice"), [], {"tools": [F], "tool_choice": {"type": "function", "function": {"name": "x"}}}, 400),
        ("vLLM, bogus choice", _openai('Invalid value for `tool_choice`: bogus! Only named tools, "none", "auto" or "required" are supported. (parameter=tool_choice)', "tool_choice"), [], {"tools": [F], "tool_choice": "bogus"}, 400),
        ("llama.cpp, no content", _openai("All non-assistant messages must contain 'content'"), [{"role": "user"}], {}, 400),
        ("Mistral, order", _openai("Expected last role User or Tool for serving but got assistant"), [user(), ASSISTANT], {}, 400),
        ("a role of nobody", _openai("messages[0].role: unknown variant `bot`, expected one of `system`, `user`, `assistant`"), [{"role": "bot", "content": "a"}], {}, 400),
        ("LM Studio, template", {"error": 'Error rendering prompt with jinja template: "Unknown test: sequence".'}, [], {}, 400),
        ("an answer's format, in neutral words", _openai("There is something with 'response_format'."), [], {"response_format": OBJECT}, 400),
        ("a stream, in neutral words", _openai("There is something with 'stream'."), [], {"stream": True}, 400),
        # about a demand, which no answer could do without
        ("OpenAI, stop", _openai("Unsupported parameter: 'stop' is not supported with this model.", "stop", "unsupported_parameter"), [], {"stop": "X"}, 400),
        ("a grammar", _openai("Unknown parameter: 'grammar'.", "grammar"), [], {"grammar": "root ::= 'a'"}, 400),
        ("Ollama, tools", _openai("registry.ollama.ai/library/qwen:4b does not support tools"), [], {"tools": [F]}, 400),
        # about how the server was started
        ("vLLM, flags", {"object": "error", "message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', "type": "BadRequestError", "code": 400}, [], {"tools": [F], "tool_choice": "auto"}, 400),
        ("llama.cpp, flags", {"error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}}, [], {"tools": [function("f", strict=True)]}, 500),
        # of another kind
        ("overflow", _openai("This model's maximum context length is 512 tokens. However, you requested 400 output tokens (parameter=max_tokens, value=400)", "max_tokens"), [], {"max_tokens": 400}, 400),
        ("image", {"error": "Model does not support images. Please use a model that does."}, [user([{"type": "image_url", "image_url": {"url": "data:,"}}])], {}, 400),
        ("filter", {"error": {"message": "The response was filtered.", "param": "prompt", "code": "content_filter", "status": 400}}, [], {}, 400),
        ("key", _openai("Unknown parameter: 'store'", "store"), [], {}, 401),
        ("rate", _openai("Unknown parameter: 'store'", "store"), [], {}, 429),
        ("crash", {"error": {"message": "Internal error while handling 'store'", "type": "server_error"}}, [], {}, 500),
        ("no model", _openai("The model `m` does not exist", "model", "model_not_found"), [], {}, 404),
    )
}  # fmt: skip

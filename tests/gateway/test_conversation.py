"""Recorded calls become one conversation, the same for every API, streamed or not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from model_chats import APIS, SYSTEM, ModelChat
from scripted_model import ScriptedModel

from evopolicygym.gateway import conversation as conversation_module
from evopolicygym.gateway.conversation import StepKind, SubmissionMark, ThreadKind, read_conversation
from evopolicygym.gateway.exchange import Exchange, ModelApi
from evopolicygym.gateway.messages import MessageRole, PartKind, canonical, read_answer, read_request


def two_commands(history):
    done = sum(past.kind == "result" for past in history)
    return ("$ echo one", "$ python3 submit.py 0-3", "All is done.")[min(done, 2)]


def steps_of(thread):
    """Return the kind of each step with what it says, without the ids."""
    return [(str(step.kind), [plain(part) for part in step.parts]) for step in thread.steps]


def plain(part):
    if part.kind is PartKind.CALL:
        return "call", part.name, json.dumps(json.loads(part.text))
    return str(part.kind), "", part.text  # only Gemini names the tool of a result


EXPECTED = [
    ("system", [("text", "", SYSTEM)]),
    ("user", [("text", "", "Begin.")]),
    ("assistant", [("call", "bash", '{"command": "echo one"}')]),
    ("tool", [("result", "", "ran echo one")]),
    ("assistant", [("call", "bash", '{"command": "python3 submit.py 0-3"}')]),
    ("tool", [("result", "", "ran python3 submit.py 0-3")]),
    ("assistant", [("text", "", "All is done.")]),
    ("user", [("text", "", "Continue.")]),
    ("assistant", [("text", "", "All is done.")]),
]


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("api", APIS)
def test_every_api_becomes_the_same_conversation(api, streams):
    with ScriptedModel(two_commands) as model:
        chat = ModelChat(model, api, streams)
        chat.prompt("Begin.")
        chat.prompt("Continue.")
    conversation = read_conversation(chat.exchanges)
    (thread,) = conversation.threads
    assert steps_of(thread) == EXPECTED
    calls = [part.id for step in thread.steps for part in step.parts if part.kind is PartKind.CALL]
    results = [part.id for step in thread.steps for part in step.parts if part.kind is PartKind.RESULT]
    assert calls == results and len(set(calls)) == 2
    assert [step.call for step in thread.steps if step.kind is StepKind.ASSISTANT] == [1, 2, 3, 4]
    usage = conversation.usage
    assert usage and (usage.fresh_input, usage.output) == (3600, 200)


def test_side_calls_and_sub_agents_are_threads_of_their_own():
    with ScriptedModel(two_commands) as model:
        main = ModelChat(model, ModelApi.ANTHROPIC_MESSAGES)
        title = ModelChat(model, ModelApi.ANTHROPIC_MESSAGES, system="Find a title.")
        helper = ModelChat(model, ModelApi.ANTHROPIC_MESSAGES, system="You explore files.")
        title.has_tools = False
        main.prompt("Begin.")
        title.prompt("Begin.")
        helper.prompt("Look around.")
        main.prompt("Continue.")
        again = ModelChat(model, ModelApi.ANTHROPIC_MESSAGES)
        again.prompt("Another session.")
    calls = sorted(
        (*main.exchanges, *title.exchanges, *helper.exchanges, *again.exchanges),
        key=lambda exchange: exchange.started_at,
    )
    threads = read_conversation(calls).threads
    assert [thread.kind for thread in threads] == ["main", "side", "agent", "main"]
    assert [len([step for step in thread.steps if step.kind is StepKind.ASSISTANT]) for thread in threads] == [
        4,
        1,
        3,
        3,
    ]


def test_submissions_stand_where_they_were_made():
    with ScriptedModel(two_commands) as model:
        chat = ModelChat(model, ModelApi.OPENAI_CHAT)
        chat.prompt("Begin.")
    first, second, third = chat.exchanges
    timed = [replace(first, started_at=100.0, duration_s=1.0), replace(second, started_at=102.0, duration_s=1.0),
             replace(third, started_at=110.0, duration_s=1.0)]  # fmt: skip
    (thread,) = read_conversation(timed, [SubmissionMark(1, 104.0, "submission 1")]).threads
    kinds = [step.kind for step in thread.steps]
    assert kinds == ["system", "user", "assistant", "tool", "assistant", "submission", "tool", "assistant"]


def test_a_client_that_leaves_the_history_to_the_server():
    def body(number, item, previous=None):
        more = {"previous_response_id": previous} if previous else {}
        return json.dumps({"model": "m", "input": [item], **more}).encode()

    def answer(number):
        message = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": f"Said {number}."}],
        }
        return json.dumps({"id": f"resp_{number}", "output": [message]}).encode()

    def user(words):
        return {"type": "message", "role": "user", "content": words}

    calls = [call(1, body(1, user("One")), answer(1)), call(2, body(2, user("Two"), "resp_1"), answer(2))]
    (thread,) = read_conversation(calls).threads
    assert [step.text for step in thread.steps] == ["One", "Said 1.", "Two", "Said 2."]


def call(number: int, request: bytes, response: bytes, api: ModelApi = ModelApi.OPENAI_RESPONSES, **more) -> Exchange:
    values = {"status": 200, "is_complete": True} | more
    return Exchange(number=number, turn=1, api=api, method="POST", target="/", request_headers={}, request_body=request,
                    response_headers={}, response_body=response, started_at=float(number), first_byte_s=0.1,
                    duration_s=0.5, **values)  # fmt: skip


def test_failures_are_notes():
    with ScriptedModel(two_commands) as model:
        chat = ModelChat(model, ModelApi.ANTHROPIC_MESSAGES)
        chat.history.append({"role": "user", "content": "Begin."})
        for model.fault in ("429", "cut", None):
            chat.ask()
    (thread,) = read_conversation(chat.exchanges).threads
    notes = [step.text for step in thread.steps if step.kind is StepKind.NOTE]
    assert notes == ["call 1 failed with HTTP 429: a scripted failure", "the answer to call 2 was cut"]
    assert [step.kind for step in thread.steps].count(StepKind.USER) == 1  # not once for each attempt
    lost = replace(chat.exchanges[0], status=0, response_body=b"", is_complete=False)
    assert read_conversation([lost]).threads[0].steps[-1].text == "call 1 got no answer"


def test_reasoning_images_and_what_is_not_known():
    content = [{"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "text", "text": "Look."}]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA" * 100}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a frame"}, image]}
    messages = [{"role": "user", "content": [image, {"type": "new_kind", "x": 1}]},
                {"role": "assistant", "content": content}, {"role": "user", "content": [result]}]  # fmt: skip
    request = read_request(call(1, json.dumps({"messages": messages}).encode(), b"", ModelApi.ANTHROPIC_MESSAGES))
    assert [(part.role, part.kind, part.text) for part in request.parts] == [
        (MessageRole.USER, PartKind.IMAGE, "image/png, 300 bytes"),
        (MessageRole.USER, PartKind.OTHER, '{"type": "new_kind", "x": 1}'),
        (MessageRole.ASSISTANT, PartKind.REASONING, "Hm."),
        (MessageRole.ASSISTANT, PartKind.TEXT, "Look."),
        (MessageRole.TOOL, PartKind.RESULT, "a frame\n[image/png, 300 bytes]"),
    ]


def sse(*events) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\r\n\r\n" for event in events)


STREAMS = {
    ModelApi.ANTHROPIC_MESSAGES: sse(
        {"type": "message_start", "message": {"id": "m1"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Let me "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "see."}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I "}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "look."}},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "c", "name": "ls"}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"a":'}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": " 1}"}},
    ),
    ModelApi.OPENAI_CHAT: sse(
        {"id": "m1", "choices": [{"delta": {"role": "assistant", "reasoning_content": "Let me "}}]},
        {"choices": [{"delta": {"reasoning_content": "see."}}]},
        {"choices": [{"delta": {"content": "I "}}]},
        {"choices": [{"delta": {"content": "look."}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "ls"}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"a":'}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": " 1}"}}]}}]},
    ),
    ModelApi.OPENAI_RESPONSES: sse(
        {"type": "response.created", "response": {"id": "m1", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "summary": []}},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Let me "},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "see."},
        {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message", "role": "assistant"}},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "I "},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "look."},
        {"type": "response.output_item.added", "output_index": 2,
         "item": {"type": "function_call", "call_id": "c", "name": "ls"}},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"a":'},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": " 1}"},
    ),
    ModelApi.GEMINI: sse(
        {"responseId": "m1", "candidates": [{"content": {"parts": [{"text": "Let me ", "thought": True}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "see.", "thought": True}, {"text": "I "}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "look."}]}}]},
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": "ls", "id": "c", "args": {"a": 1}}}]}}]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("api", APIS)
def test_streams_are_joined_even_if_they_are_cut(api):
    """All pieces of a text arrive, and the closing events do not."""
    answer = read_answer(call(1, b"{}", STREAMS[api], api, is_complete=False))
    assert answer.id == "m1"
    kinds = [(part.kind, part.key[3], part.name, part.id) for part in answer.parts]
    assert kinds == [("reasoning", "Let me see.", "", ""), ("text", "I look.", "", ""), ("call", '{"a": 1}', "ls", "c")]


@pytest.mark.parametrize("api", APIS)
def test_nonsense_is_left_out(api):
    """Bodies of any other shape than the API's make an empty conversation, not an error."""
    shapes = [None, 1, "x", [], {}, [1], [[]], {"type": 1}, {"role": []}, [{"content": [3]}], {"parts": {"a": 1}}]
    names = ("messages", "input", "contents", "system", "instructions", "systemInstruction", "tools", "content",
             "output", "choices", "candidates", "error", "model", "previous_response_id")  # fmt: skip
    for name in names:
        for shape in shapes:
            body = json.dumps({name: shape}).encode()
            read_conversation([call(1, body, body, api), call(2, sse({name: shape, "type": shape}), sse(shape), api)])
    deep = b"[" * 5000 + b"]" * 5000
    assert read_conversation([call(1, deep, deep, api)]).threads[0].kind is ThreadKind.MAIN


def test_arguments_of_a_tool_that_are_nested_as_deep_as_can_be_parsed_are_text():
    """They are parsed at some depths at which they cannot be written again."""
    for depth in range(100, 1100, 10):
        arguments = f'{{"a": {"[" * depth}{"]" * depth}}}'
        assert canonical(f" {arguments} ") in (arguments, arguments.strip())
    assert canonical('{"b":1,"a":2}') == '{"a": 2, "b": 1}', "control"
    assert canonical(f"[{'9' * 5000}]") == f"[{'9' * 5000}]"


def chat_call(number: int, system: str, question: str) -> Exchange:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    return Exchange(
        number, 1, ModelApi.OPENAI_CHAT, "POST", "/chat/completions", {}, body, 200, {}, b"{}", True, 1e9, 0.0, 0.0
    )


@pytest.mark.timeout(60)
def test_numbers_in_a_long_system_prompt_are_left_out_at_once():
    """An agent can plant a prompt of letters only, which took the pattern hours."""
    prompts = ("a" * 1_000_000, f"Today is day {9:x}. " + "a" * 5000, f"Today is day {1000:x}. " + "a" * 5000, "bed 1")
    calls = [chat_call(number, system, f"Question {number}.") for number, system in enumerate(prompts, 1)]
    threads = read_conversation([*calls, calls[1]]).threads
    assert [thread.kind for thread in threads] == ["side", "main", "main", "side"]


def test_what_a_conversation_keeps_is_bounded(monkeypatch):
    """Bodies share chunks: a small recording can be gigabytes. A history that is repeated counts once."""
    monkeypatch.setattr(conversation_module, "MAX_KEPT", 13_000)
    calls = [chat_call(number, "", f"{number} " + "x" * 2000) for number in range(1, 9)]
    read = read_conversation(calls)
    assert len(read.threads) == 3 and read.notes == (
        "the conversation is too large; the calls after number 3 were not read",
    )
    read = read_conversation([replace(calls[0], number=number) for number in range(1, 100)])
    assert len(read.threads) == 1 and not read.notes
    many = json.dumps({"model": "m", "messages": [{"content": "x"}] * 30}).encode()  # 16 bytes each
    read = read_conversation([replace(calls[0], number=number, request_body=many) for number in (1, 2)])
    assert read.notes == ("the conversation is too large; the calls after number 1 were not read",)

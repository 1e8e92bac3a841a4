// The official SDK for JavaScript: chunks as they come, its streaming helper, and plain requests.
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

import { object, results, schema, serve, tiredMs, tools } from "./job.mjs";

const Trip = z.object({ city: z.string(), days: z.number().int() });
const surfaces = { stream, helper, plain };

async function ask(job, outcome) {
  const client = new OpenAI({
    baseURL: job.base_url, apiKey: job.key, defaultHeaders: { "x-request-id": job.id }, timeout: tiredMs,
  });
  const request = { model: job.model, messages: [{ role: "user", content: job.prompt }] };
  if (job.task === "object") {
    outcome.value = await askForObject(client, job.surface, request, outcome);
    return;
  }
  if (job.task === "tools") request.tools = tools;
  for (;;) {
    const message = await surfaces[job.surface](client, request, outcome);
    request.messages.push(message);
    if (!message.tool_calls?.length) return;
    for (const call of message.tool_calls) {
      outcome.calls.push([call.function.name, JSON.parse(call.function.arguments)]);
      request.messages.push({ role: "tool", tool_call_id: call.id, content: results[call.function.name] });
    }
  }
}

async function stream(client, request, outcome) {
  outcome.text = "";
  let reasoning = "";
  const calls = [];
  const chunks = await client.chat.completions.create({
    ...request, stream: true, stream_options: { include_usage: true },
  });
  for await (const chunk of chunks) {
    if (chunk.usage) outcome.usage = [chunk.usage.prompt_tokens, chunk.usage.completion_tokens];
    for (const { delta, finish_reason } of chunk.choices) {
      outcome.finish = finish_reason ?? outcome.finish;
      outcome.text += delta.content ?? "";
      reasoning += delta.reasoning_content ?? "";
      for (const piece of delta.tool_calls ?? []) {
        const { name, arguments: more } = piece.function;
        calls[piece.index] ??= { id: piece.id, type: "function", function: { name, arguments: "" } };
        calls[piece.index].function.arguments += more ?? "";
      }
    }
  }
  outcome.reasoning += reasoning;
  return {
    role: "assistant",
    content: outcome.text || null,
    ...(reasoning && { reasoning_content: reasoning }),
    ...(calls.length && { tool_calls: calls }),
  };
}

async function helper(client, request, outcome) {
  outcome.text = "";
  const running = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
  running.on("content", (delta) => (outcome.text += delta));
  return whole(await running.finalChatCompletion(), outcome);
}

async function plain(client, request, outcome) {
  return whole(await client.chat.completions.create(request), outcome);
}

function whole(completion, outcome) {
  const { message, finish_reason } = completion.choices[0];
  outcome.text = message.content ?? "";
  outcome.reasoning += message.reasoning_content ?? "";
  outcome.finish = finish_reason;
  outcome.usage = completion.usage ? [completion.usage.prompt_tokens, completion.usage.completion_tokens] : null;
  return message;
}

async function askForObject(client, surface, request, outcome) {
  if (surface === "stream") {
    const response_format = { type: "json_schema", json_schema: { name: object, schema, strict: true } };
    return JSON.parse((await stream(client, { ...request, response_format }, outcome)).content);
  }
  const wanted = { ...request, response_format: zodResponseFormat(Trip, object) };
  const completion =
    surface === "plain"
      ? await client.chat.completions.parse(wanted)
      : await client.chat.completions.stream(wanted).finalChatCompletion();
  return completion.choices[0].message.parsed;
}

await serve(ask, ({ status, code, headers }) => ({
  status: status ?? null, code: code ?? null, wait: headers?.get("retry-after") ?? null,
}));

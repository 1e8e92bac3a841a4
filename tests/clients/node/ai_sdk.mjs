// The AI SDK with its provider for compatible servers: streamed and plain, agents' loop of tools included.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";

import { results, schema, serve, tools } from "./job.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

async function ask(job, outcome) {
  const [surface, schemas] = job.surface.split("-");
  const provider = createOpenAICompatible({
    name: "svir",
    baseURL: job.base_url,
    apiKey: job.key,
    headers: { "x-request-id": job.id },
    includeUsage: true,
    supportsStructuredOutputs: schemas === "schema",
  });
  const request = { model: provider(job.model), prompt: job.prompt };
  if (job.task === "object") request.output = Output.object({ schema: jsonSchema(schema) });
  if (job.task === "tools") Object.assign(request, { tools: toolSet(), stopWhen: stepCountIs(5) });
  const steps = surface === "stream" ? await stream(request, outcome) : await plain(request, outcome);
  for (const step of steps) {
    outcome.reasoning += step.reasoningText ?? "";
    outcome.calls.push(...step.toolCalls.map((call) => [call.toolName, call.input]));
    outcome.text = step.text;
    outcome.finish = step.finishReason;
    outcome.usage = [step.usage.inputTokens, step.usage.outputTokens];
  }
}

function toolSet() {
  const entries = tools.map(({ function: { name, description, parameters } }) => [
    name,
    tool({ description, inputSchema: jsonSchema(parameters), execute: async () => results[name] }),
  ]);
  return Object.fromEntries(entries);
}

async function stream(request, outcome) {
  const running = streamText({ ...request, onError() {} });
  let failure;
  for await (const part of running.fullStream) {
    if (part.type === "start-step") outcome.text = "";
    if (part.type === "text-delta") outcome.text += part.text;
    if (part.type === "error") failure = part.error;
  }
  if (failure !== undefined) throw failure;
  if (request.output) outcome.value = await running.output;
  return running.steps;
}

async function plain(request, outcome) {
  const done = await generateText(request);
  if (request.output) outcome.value = done.output;
  return done.steps;
}

function describe(error) {
  const last = error.lastError ?? error;
  return {
    status: last.statusCode ?? null,
    code: last.data?.error?.code ?? last.code ?? null,
    message: String(last.message ?? last),
    wait: last.responseHeaders?.["retry-after"] ?? null,
  };
}

await serve(ask, describe);

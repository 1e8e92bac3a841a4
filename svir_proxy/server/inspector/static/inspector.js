// The inspector's page. It shows what the feed of one worker tells, and keeps nothing. Whatever servers and clients
// chose is put on the page as text: there is no HTML in this file, and the policy of the page lets none be made.
"use strict";

const FEED = "/svir/inspector/events";
const CHAT = "/v1/chat/completions";
const ROWS = 150; // of one answer that are shown at its beginning, and as many at its end

const requests = new Map(); // number -> what is known of the request
let hello = null;
let state = null;
let selected = null; // the number of the request that is looked at
let detail = null; // what stands on the page for it

const byId = (id) => document.getElementById(id);

/** An element: properties, then children, which are elements or text. */
function el(tag, props, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (name === "class") made.className = value;
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Change a text only where it is another: who reads it with a cursor or a screen reader is not disturbed. */
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// ---------------------------------------------------------------- words and numbers

const number = (value) => value.toLocaleString("en-US");

function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60000 ? `${(ms / 1000).toFixed(2)} s` : `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

function statusOf(summary) {
  if (!summary.over) return { text: "running", kind: "warn runs" };
  if (summary.error && summary.status < 400) return { text: `${summary.status} broke`, kind: "bad" };
  const kind = summary.status >= 500 ? "bad" : summary.status >= 400 ? "warn" : "good";
  return { text: summary.status === 499 ? "499 left" : String(summary.status), kind };
}

function pill({ text, kind }) {
  return el("span", { class: `pill ${kind}` }, text);
}

// ---------------------------------------------------------------- the feed

function connect() {
  const source = new EventSource(FEED);
  source.addEventListener("hello", (event) => greet(JSON.parse(event.data)));
  source.addEventListener("state", (event) => { state = JSON.parse(event.data); later(showState); });
  source.addEventListener("request", (event) => learn(JSON.parse(event.data)));
  source.addEventListener("ready", () => showConnection(true));
  source.addEventListener("error", () => {
    showConnection(false);
    if (source.readyState === EventSource.CLOSED) setTimeout(again, 2000);
  });
}

/** The feed was refused: either somebody has to log in, or there is none at the moment. */
async function again() {
  try {
    const answer = await fetch(FEED, { method: "HEAD", cache: "no-store" });
    if (answer.status === 401) { location.assign("/svir/inspector/login"); return; }
  } catch { /* the proxy does not answer: neither will the feed, for now */ }
  connect();
}

function greet(news) {
  hello = news;
  requests.clear();
  byId("logout").hidden = !hello.locked;
  byId("play-key-field").hidden = !hello.keys;
  const told = [];
  if (hello.was_behind) told.push("This page was too slow for what it was told; some of it is missing.");
  if (hello.workers > 1) told.push(`This is worker ${hello.worker}, one of ${hello.workers}: what the others serve is not shown here.`);
  byId("notice").hidden = told.length === 0;
  say(byId("notice"), told.join(" "));
  if (detail !== null) detail.stale = true;
}

function showConnection(live) {
  byId("connection").classList.toggle("is-live", live);
  say(byId("connection-text"), live ? `live, version ${hello.version}` : "not connected, trying again");
}

function learn(news) {
  const n = news.summary.n;
  const known = requests.get(n) || { rows: [], changes: {}, client: null };
  known.summary = news.summary;
  known.attempts = news.attempts;
  known.sent = news.sent;
  if (news.client) known.client = news.client;
  Object.assign(known.changes, news.changes);
  for (const row of news.rows) addRow(known, row);
  requests.set(n, known);
  while (hello && requests.size > hello.requests) {
    const old = [...requests.values()].find((one) => one.summary.over) || requests.values().next().value;
    requests.delete(old.summary.n);
  }
  later(showRequests);
  if (n === selected) later(showDetail);
}

/** Rows are kept by answer and number; of a long answer its beginning and its end. */
function addRow(known, row) {
  const [attempt, index] = row;
  const rows = known.rows[attempt] || (known.rows[attempt] = []);
  if (rows.length && rows[rows.length - 1][1] >= index) return;
  rows.push(row);
  if (rows.length > 2 * ROWS) rows.splice(ROWS, 1);
}

const waiting = new Set();
/** Draw once a frame, however much is told. */
function later(draw) {
  if (waiting.size === 0) {
    requestAnimationFrame(() => {
      const drawn = [...waiting];
      waiting.clear();
      for (const one of drawn) one();
    });
  }
  waiting.add(draw);
}

// ---------------------------------------------------------------- the list of requests

const lines = new Map(); // number -> row of the table

function showRequests() {
  const body = byId("requests").tBodies[0];
  for (const [n, row] of lines) {
    if (!requests.has(n)) { row.remove(); lines.delete(n); }
  }
  let running = 0;
  let failed = 0;
  for (const n of [...requests.keys()].sort((a, b) => a - b)) {
    const { summary } = requests.get(n);
    running += !summary.over;
    failed += summary.over && (summary.status >= 400 || summary.error !== null);
    let row = lines.get(n);
    if (!row) {
      row = newLine(n);
      lines.set(n, row);
      body.prepend(row);
    }
    fillLine(row, summary);
  }
  byId("no-requests").hidden = requests.size > 0;
  say(byId("totals"), requests.size ? `${plural(requests.size, "request")}, ${running} running, ${failed} failed` : "");
}

function newLine(n) {
  const cells = ["c-status", "c-model", "c-time number", "c-first number", "c-rate number", "c-at number"];
  const row = el("tr", {}, ...cells.map((name) => el("td", { class: name })));
  row.cells[0].append(pill({ text: "", kind: "" }));
  row.cells[1].append(el("a", { href: `#requests/${n}` }), el("small"));
  return row;
}

function fillLine(row, summary) {
  const status = statusOf(summary);
  const badge = row.cells[0].firstChild;
  say(badge, status.text);
  if (badge.className !== `pill ${status.kind}`) badge.className = `pill ${status.kind}`;
  say(row.cells[1].firstChild, summary.model || summary.path);
  row.cells[1].title = summary.model;
  say(row.cells[1].lastChild, summary.backend);
  say(row.cells[2], duration(summary.ms));
  say(row.cells[3], duration(summary.first_ms));
  say(row.cells[4], summary.rate === null ? "" : String(summary.rate));
  say(row.cells[5], clock(summary.at));
  if (summary.n === selected) row.setAttribute("aria-current", "true");
  else row.removeAttribute("aria-current");
}

// ---------------------------------------------------------------- one request

function showDetail() {
  const known = requests.get(selected);
  const place = byId("detail");
  if (!known) {
    detail = null;
    place.replaceChildren(el("p", { class: "empty" }, selected === null
      ? "Choose a request to see what the client sent, what the server got, and what came back."
      : `Request ${selected} is not kept any more.`));
    return;
  }
  if (detail === null || detail.n !== selected || detail.stale) {
    detail = { n: selected, head: el("div"), client: el("div"), attempts: [], body: el("div") };
    place.replaceChildren(detail.head, detail.client, detail.body);
  }
  detail.head.replaceChildren(...headOf(known));
  if (!known.attempts.length && known.client && !detail.client.firstChild) {
    detail.client.append(el("h3", {}, "What the client sent"), json(known.client));
  } else if (known.attempts.length) {
    detail.client.replaceChildren();
  }
  known.attempts.forEach((attempt, index) => {
    if (!detail.attempts[index]) {
      detail.attempts[index] = newAttempt(index, known.attempts.length);
      detail.body.append(detail.attempts[index].place);
    }
    fillAttempt(detail.attempts[index], attempt, known, index);
  });
}

function headOf({ summary, sent, attempts }) {
  const made = [
    el("a", { class: "back", href: "#requests" }, "All requests"),
    el("h2", {}, pill(statusOf(summary)), el("span", { class: "mono" }, `${summary.method} ${summary.path}`)),
    facts([
      ["Model", summary.model], ["Backend", summary.backend], ["Key", summary.key], ["Client", summary.agent],
      ["Kind", summary.model ? (summary.stream ? "stream" : "whole answer") : ""],
      ["Ended as", summary.finish], ["Time", duration(summary.ms)], ["First token", duration(summary.first_ms)],
      ["Tokens a second", summary.rate === null ? "" : String(summary.rate)],
      ["Tokens", summary.tokens_out === null ? "" : `${number(summary.tokens_in || 0)} in, ${number(summary.tokens_out)} out`],
      ["Sent to the client", sent.status ? `${plural(sent.bytes, "byte")}, the head at ${duration(sent.at)}` : ""],
      ["Request id", summary.id], ["At", clock(summary.at)],
    ]),
  ];
  if (summary.error) made.push(errorBox(summary.error, "The client was told"));
  const notes = summary.notes.filter((note) => note.startsWith("failover="));
  if (notes.length) made.push(el("p", {}, `Asked elsewhere first: ${notes.map((note) => note.slice(9)).join(", ")}.`));
  if (!summary.seen) {
    made.push(el("p", { class: "empty" }, summary.over && hello.record === "watched"
      ? "Nobody looked when it ran, or it is long ago, so nothing of its content was kept."
      : "Nothing of its content is kept."));
  } else if (!attempts.length && summary.over && !summary.error && summary.path.endsWith("/chat/completions") === false) {
    made.push(el("p", { class: "empty" }, "This endpoint passes through: its bodies are not read."));
  }
  if (sent.headers) {
    const shown = sent.headers.map(([name, value]) => `${name}: ${value}`).join("\n");
    made.push(el("details", { open: detail.headersOpen === true, ontoggle: (event) => { detail.headersOpen = event.target.open; } },
      el("summary", {}, "Headers of the answer"), el("pre", {}, shown)));
  }
  return made;
}

function facts(pairs) {
  const list = el("dl");
  for (const [name, value] of pairs) {
    if (value) list.append(el("div", {}, el("dt", {}, name), el("dd", {}, value)));
  }
  return list;
}

function errorBox(error, who) {
  return el("div", { class: "error" }, el("strong", {}, `${error.status} ${error.kind}`), ` ${who}: ${error.message}`);
}

function newAttempt(index) {
  const made = {
    title: el("h3", {}), bar: el("div", { class: "bar", "aria-hidden": "true" }), legend: el("ul", { class: "legend" }),
    error: el("div"), changes: el("div"), events: el("div"), drawn: -1, changed: false, rows: null,
  };
  made.place = el("section", { class: "attempt", "aria-label": `Attempt ${index + 1}` },
    made.title, made.bar, made.legend, made.error, made.changes, made.events);
  return made;
}

function fillAttempt(made, attempt, known, index) {
  const many = known.attempts.length > 1 ? `Attempt ${index + 1}: ` : "";
  const status = attempt.status ? ` answered ${attempt.status}` : attempt.error ? " failed" : attempt.ended === null ? " is asked" : "";
  say(made.title, `${many}${attempt.backend}${status}`);
  showTimes(made, attempt, known.summary);
  const told = known.attempts.length === 1 && known.summary.error; // above, once is enough
  const error = attempt.error && !told ? [errorBox(attempt.error, "The proxy read this as")] : [];
  if (attempt.error_body) error.push(el("details", {}, el("summary", {}, "What the server said"), el("pre", { class: "json" }, attempt.error_body)));
  if (made.error.childElementCount !== error.length) made.error.replaceChildren(...error);
  const changes = known.changes[index];
  if (changes && !made.changed) {
    made.changed = true;
    made.changes.append(...changesOf(changes));
  }
  if (known.rows[index]) showRows(made, known.rows[index], attempt);
}

/** The parts of the attempt's time, in order; those that have no end yet go on. */
function showTimes(made, attempt, summary) {
  const end = attempt.ended ?? summary.ms;
  const at = [attempt.began, attempt.asked ?? end, attempt.head ?? end, attempt.first_output ?? end, attempt.last_output ?? attempt.first_output ?? end, end];
  const parts = [["queue", "in line"], ["head", "until the server answered"], ["think", "until the first token"], ["output", "output"], ["end", "until the end"]];
  const shown = parts.map(([name, words], i) => [name, words, Math.max(0, at[i + 1] - at[i])]).filter(([name, , ms]) => ms >= 0.5 || (name === "output" && attempt.first_output !== null));
  const whole = shown.reduce((sum, [, , ms]) => sum + ms, 0) || 1;
  made.bar.replaceChildren(...shown.map(([name, , ms]) => {
    const part = el("span", { class: `p-${name}` });
    part.style.width = `${(100 * ms) / whole}%`;
    return part;
  }));
  made.legend.replaceChildren(...shown.map(([name, words, ms]) => el("li", {}, el("i", { class: `p-${name}` }), `${words} ${duration(ms)}`)));
}

function changesOf({ server, lines: diff, reasons }) {
  const changed = diff.filter(([mark]) => mark !== " ").length;
  const made = [el("h3", {}, "What went to the server")];
  if (reasons.length) {
    made.push(el("ul", { class: "reasons" }, ...reasons.map((one) => el("li", {},
      el("code", {}, one.note), one.done ? `: ${one.done}` : "",
      one.fact ? el("small", {}, `${server}: ${one.fact} is ${JSON.stringify(one.value)}${one.evidence ? `: ${one.evidence}` : ""}`) : null))));
  }
  made.push(el("details", { open: changed > 0 },
    el("summary", {}, changed ? `The request, with ${plural(changed, "changed line")}` : "The request, as the client sent it"),
    json(diff)));
  return made;
}

/** A text of JSON with its changes marked, for the eye and for the ear. */
function json(diff) {
  const marks = { "+": ["add", "added: "], "-": ["del", "removed: "] };
  return el("pre", { class: "json", tabIndex: 0 }, ...diff.map(([mark, depth, text]) => {
    const [kind, said] = marks[mark] || ["", ""];
    return el(kind === "add" ? "ins" : kind === "del" ? "del" : "span", { class: kind, title: said.trim() }, `${"  ".repeat(depth)}${text}`);
  }));
}

function showRows(made, rows, attempt) {
  if (made.rows === null) {
    made.rows = el("tbody");
    made.box = el("div", { class: "events", tabIndex: 0, role: "region", "aria-label": "The answer as it came" },
      el("table", {}, el("thead", {}, el("tr", {}, ...["ms", "The server sent", "Made canonical"].map((text) => el("th", { scope: "col" }, text)))), made.rows));
    made.events.append(el("h3", {}, "The answer, as it came"), made.box);
  }
  const fresh = rows.filter((row) => row[1] > made.drawn);
  if (!fresh.length) return;
  const follows = made.box.scrollHeight - made.box.scrollTop - made.box.clientHeight < 40;
  for (const row of fresh) {
    if (made.drawn >= 0 && row[1] > made.drawn + 1) made.rows.append(gap(row[1] - made.drawn - 1));
    made.rows.append(rowOf(row));
    made.drawn = row[1];
  }
  while (made.rows.childElementCount > 2 * ROWS + 1) {
    const old = made.rows.children[ROWS];
    if (old.className === "gap") {
      old.count += 1;
      made.rows.children[ROWS + 1].remove();
    } else {
      old.replaceWith(gap(1));
    }
    say(made.rows.children[ROWS].firstChild, `${plural(made.rows.children[ROWS].count, "piece")} not shown`);
  }
  if (follows && attempt.ended === null) made.box.scrollTop = made.box.scrollHeight;
}

function gap(count) {
  const made = el("tr", { class: "gap" }, el("td", { colSpan: 3 }, `${plural(count, "piece")} not shown`));
  made.count = count;
  return made;
}

function rowOf([, , ms, raw, events]) {
  const said = events.map((event) => JSON.stringify(event)).join("\n");
  return el("tr", {}, el("td", {}, ms.toFixed(0)), el("td", {}, raw), el("td", { class: events.some((event) => event.note) ? "note" : "" }, said));
}

// ---------------------------------------------------------------- backends, models, keys

function showState() {
  byId("backends").replaceChildren(...state.backends.map(backendCard));
  say(byId("model-count"), String(state.models.length));
  byId("models").replaceChildren(...state.models.map((model) => el("tr", {},
    el("td", { class: "mono" }, model.name),
    el("td", { class: "mono" }, model.backends.map(([name, id]) => `${name}: ${id}`).join(", ")),
    el("td", {}, model.alias ? "an alias" : "the server's list"))));
  byId("play-models").replaceChildren(...state.models.filter((model) => !model.name.includes("*")).map((model) => el("option", { value: model.name })));
  if (!byId("play-model").value && state.models.length) byId("play-model").value = state.models[0].name;
  showKeys(state.keys);
}

const BREAKERS = {
  closed: "failed last, and is asked in its turn",
  open: "fails, and is asked last for a while",
  half_open: "failed, and one request may try it",
};

function backendCard(backend) {
  const health = backend.away ? { text: "away", kind: "bad" } : backend.list.state === "ok" ? { text: "answers", kind: "good" }
    : backend.list.state === "unknown" ? { text: "not asked yet", kind: "" } : { text: backend.list.state, kind: "warn" };
  const card = el("section", { class: "card" },
    el("h3", {}, backend.name, pill(health)),
    facts([
      ["Server", `${backend.server} (${backend.profile})`], ["Address", backend.url],
      ["Models listed", number(backend.models)],
      ["Priority, weight", `${backend.priority}, ${backend.weight}`],
      ["Places", backend.places ? `${backend.places[0]} of ${backend.places[1]} taken, ${backend.places[2]} in line` : "no limit"],
      ["Requests", `${number(backend.requests)}, ${number(backend.errors)} failed`],
      ["Tokens", `${number(backend.tokens_in)} in, ${number(backend.tokens_out)} out`],
    ]));
  if (backend.list.message) card.append(el("p", { class: "hint" }, backend.list.message));
  const breakers = Object.entries(backend.breakers).map(([model, one]) => el("li", {}, el("code", {}, model || "any model"), ` ${BREAKERS[one]}`));
  if (breakers.length) card.append(el("strong", {}, "Breakers"), el("ul", {}, ...breakers));
  const learned = backend.learned.map((one) => el("li", {}, el("code", {}, one.fact), ` is ${JSON.stringify(one.value)} for ${one.model || "any model"}`));
  if (learned.length) card.append(el("strong", {}, "Learned"), el("ul", {}, ...learned));
  return card;
}

function showKeys(keys) {
  byId("no-keys").hidden = keys.length > 0;
  byId("keys-table").hidden = keys.length === 0;
  say(byId("keys-where"), state.store ? `Limits are counted ${state.store}; what is used is what the key's last request found.` : "");
  byId("keys").replaceChildren(...keys.map((key) => el("tr", {},
    el("th", { scope: "row" }, key.name === null ? "everybody" : key.name, key.expires ? el("small", {}, `until ${key.expires} UTC`) : null),
    el("td", {}, key.models ? key.models.join(", ") || "none" : "all"),
    el("td", {}, ...limitsOf(key)),
    ...["requests", "errors", "tokens_in", "tokens_out"].map((what) => el("td", { class: "number" }, number(key[what]))))));
}

function limitsOf(key) {
  const running = key.running ? [["at a time", ...key.running]] : [];
  const all = [...running, ...key.limits.map(([setting, used, amount]) => [setting.replace("_per_", " a "), used, amount])];
  return all.length ? all.map(([words, used, amount]) => el("div", { class: "limit" },
    el("meter", { min: 0, max: amount, value: Math.min(used, amount), high: amount * 0.8, "aria-label": words }), `${number(used)} of ${number(amount)} ${words}`)) : ["none"];
}

// ---------------------------------------------------------------- the playground

const TOOL = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather of a city.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
let running = null; // what stops the request

function bodyOfForm() {
  const messages = [{ role: "user", content: byId("play-user").value }];
  if (byId("play-system").value) messages.unshift({ role: "system", content: byId("play-system").value });
  const body = { model: byId("play-model").value, messages, stream: byId("play-stream").checked };
  if (body.stream && byId("play-usage").checked) body.stream_options = { include_usage: true };
  if (byId("play-tool").checked) body.tools = [TOOL];
  const more = byId("play-more").value.trim();
  return more ? Object.assign(body, JSON.parse(more)) : body;
}

async function play(event) {
  event.preventDefault();
  if (running) return;
  let body;
  say(byId("play-problem"), "");
  try {
    body = bodyOfForm();
  } catch (problem) {
    say(byId("play-problem"), `More fields: ${problem.message}`);
    return;
  }
  running = new AbortController();
  const began = performance.now();
  const answer = { content: "", reasoning: "", calls: [], usage: null, finish: null, error: null };
  showAnswer(answer, "asked");
  byId("play-stop").disabled = false;
  const headers = { "content-type": "application/json" };
  if (hello && hello.keys && byId("play-key").value) headers.authorization = `Bearer ${byId("play-key").value}`;
  let told = "";
  try {
    const response = await fetch(CHAT, { method: "POST", headers, body: JSON.stringify(body), signal: running.signal, credentials: "omit" });
    const backend = response.headers.get("x-svir-backend");
    told = `${response.status}${backend ? ` from ${backend}` : ""}`;
    if ((response.headers.get("content-type") || "").startsWith("text/event-stream")) {
      await readStream(response, (chunk) => { takeChunk(answer, chunk); showAnswer(answer, `${told}, streaming`); });
    } else {
      takeWhole(answer, await response.json());
    }
  } catch (problem) {
    answer.error = running.signal.aborted ? "stopped" : String(problem.message);
  }
  running = null;
  byId("play-stop").disabled = true;
  const usage = answer.usage ? `, ${plural(answer.usage.completion_tokens, "token")}` : "";
  const end = answer.error ? `: ${answer.error}` : `, ended as ${answer.finish}`;
  showAnswer(answer, `${told || "No answer"}${end}${usage}, ${duration(performance.now() - began)}`);
}

async function readStream(response, take) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (text + value).split("\n\n");
    text = events.pop();
    for (const one of events) {
      if (one.startsWith("data: ") && one !== "data: [DONE]") take(JSON.parse(one.slice(6)));
    }
  }
}

function takeChunk(answer, chunk) {
  if (chunk.error) answer.error = chunk.error.message;
  if (chunk.usage) answer.usage = chunk.usage;
  const choice = (chunk.choices || [])[0];
  if (!choice) return;
  const { content, reasoning_content: reasoning, refusal, tool_calls: calls } = choice.delta;
  answer.content += content || refusal || "";
  answer.reasoning += reasoning || "";
  for (const call of calls || []) {
    if (call.id) answer.calls[call.index] = { name: call.function.name, arguments: "" };
    answer.calls[call.index].arguments += call.function.arguments || "";
  }
  if (choice.finish_reason) answer.finish = choice.finish_reason;
}

function takeWhole(answer, body) {
  if (body.error) { answer.error = body.error.message; return; }
  const [choice] = body.choices;
  answer.usage = body.usage || null;
  answer.finish = choice.finish_reason;
  answer.content = choice.message.content || choice.message.refusal || "";
  answer.reasoning = choice.message.reasoning_content || "";
  answer.calls = (choice.message.tool_calls || []).map((call) => call.function);
}

function showAnswer(answer, status) {
  say(byId("play-status"), status);
  say(byId("play-content"), answer.content);
  byId("play-reasoning").hidden = !answer.reasoning;
  say(byId("play-reasoning").lastElementChild, answer.reasoning);
  byId("play-calls").replaceChildren(...answer.calls.map((call) => el("div", { class: "call" }, el("strong", {}, call.name), el("pre", {}, call.arguments))));
}

// ---------------------------------------------------------------- where one is

function go() {
  const [section, which] = location.hash.slice(1).split("/");
  const names = ["requests", "backends", "models", "keys", "playground"];
  const shown = names.includes(section) ? section : "requests";
  for (const name of names) byId(`section-${name}`).hidden = name !== shown;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#${shown}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const before = selected;
  selected = shown === "requests" && which ? Number(which) : null;
  byId("section-requests").classList.toggle("has-chosen", selected !== null);
  if (before !== selected) {
    showRequests();
    showDetail();
    if (selected !== null) byId("detail").focus({ preventScroll: true });
  }
}

window.addEventListener("hashchange", go);
byId("play").addEventListener("submit", play);
byId("play-stop").addEventListener("click", () => { if (running) running.abort(); });
go();
connect();

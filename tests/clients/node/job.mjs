// Does the jobs of a plan with a client, as tests/clients/job.py does it for Python.
import { readFileSync, writeFileSync } from "node:fs";

const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
export const { tools, results, object, schema, tired } = plan;
export const tiredMs = tired * 1000;

// The classes that `instanceof` knows, and the name that an error goes by.
function namesOf(error) {
  const names = [error?.name].filter(Boolean);
  for (let kind = Object.getPrototypeOf(error); kind && kind !== Object.prototype; kind = Object.getPrototypeOf(kind))
    names.push(kind.constructor.name);
  return names.length ? [...new Set(names)] : ["Object"];
}

function outcomeOf() {
  return {
    text: "", reasoning: "", calls: [], finish: null, usage: null, value: null,
    errors: [], status: null, code: null, message: "", wait: null,
  };
}

// `ask(job, outcome)` fills in the outcome; `describe(error)` gives {status, code, wait} of an error of this client.
export async function serve(ask, describe) {
  const done = plan.jobs.map(async (job) => {
    const outcome = outcomeOf();
    try {
      await ask(job, outcome);
    } catch (error) {
      Object.assign(outcome, { errors: namesOf(error), message: String(error?.message ?? error) }, describe(error));
    }
    return [job.id, outcome];
  });
  writeFileSync(process.argv[3], JSON.stringify(Object.fromEntries(await Promise.all(done))));
}

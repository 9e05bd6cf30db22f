// Answers the page's questions one after the other: { id, what, given } is answered by { id, answer } or { id, problem }.

import { start } from "./engine.js";

async function read(name) {
  const found = await fetch(new URL(name, import.meta.url));
  if (!found.ok) throw new Error(`${name}: ${found.status} ${found.statusText}`);
  return new Uint8Array(await found.arrayBuffer());
}

const started = start(read);
started.then(
  ({ about }) => postMessage({ about }),
  (error) => postMessage({ problem: String(error) }),
);

onmessage = async ({ data: { id, what, given } }) => {
  try {
    postMessage({ id, answer: (await started).ask(what, ...given) });
  } catch (error) {
    postMessage({ id, problem: String(error).trim().split("\n").at(-1) });
  }
};

// The page: an editor, and what ptxkit says of the text in it. All work is done by the worker, so typing never waits.

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { search, searchKeymap } from "@codemirror/search";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, drawSelection, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from "@codemirror/view";

const PAUSE = 250; // milliseconds after the last key, before the text is examined
const $ = (id) => document.getElementById(id);

// --- the worker

const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
const waiting = new Map();
let last = 0;
let ready = false;

worker.onerror = (event) => say(`The worker failed: ${event.message}`);
worker.onmessage = ({ data }) => {
  if (data.id === undefined) return data.about ? begin(data.about) : say(`ptxkit could not be started: ${data.problem}`);
  const { resolve, reject } = waiting.get(data.id);
  waiting.delete(data.id);
  if (data.problem === undefined) resolve(data.answer);
  else reject(new Error(data.problem));
};

function ask(what, ...given) {
  const id = ++last;
  worker.postMessage({ id, what, given });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

function begin(about) {
  ready = true;
  document.title = `ptxkit ${about.version} playground`;
  if (!about.executes)
    $("limits").textContent = "NumPy is missing, so kernels are not executed here: errors that only an execution shows become warnings or are missed.";
  examine();
}

function say(text) {
  $("status").textContent = text;
}

// --- the editor

const paint = StateEffect.define();
const painted = StateField.define({
  create: () => Decoration.none,
  update(marks, change) {
    marks = marks.map(change.changes);
    for (const effect of change.effects) if (effect.is(paint)) marks = effect.value;
    return marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});
const marks = Object.fromEntries(
  ["comment", "directive", "type", "opcode", "modifier", "register", "special", "number", "string", "label", "function", "variable", "error"].map((kind) => [
    kind,
    Decoration.mark({ class: `ptx-${kind}` }),
  ]),
);
const look = EditorView.theme({
  "&": { height: "100%", fontSize: "13px", background: "var(--paper)", color: "var(--ink)" },
  ".cm-scroller": { fontFamily: 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace', lineHeight: "1.45" },
  ".cm-gutters": { background: "var(--title)", color: "var(--comment)", borderRight: "1px solid var(--border)" },
  ".cm-activeLine, .cm-activeLineGutter": { background: "var(--here)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "var(--taken)" },
  ".cm-panels, .cm-tooltip": { background: "var(--title)", color: "var(--ink)", borderColor: "var(--border)" },
  ".cm-tooltip-lint": { maxWidth: "60ch" },
  ".cm-textfield, .cm-button": { background: "var(--paper)", color: "var(--ink)", border: "1px solid var(--border)", backgroundImage: "none" },
  ".cm-searchMatch": { background: "var(--taken)" },
  ".ptx-comment": { color: "var(--comment)" },
  ".ptx-directive": { color: "var(--opcode)" },
  ".ptx-type": { color: "var(--modifier)" },
  ".ptx-opcode": { color: "var(--opcode)", fontWeight: "600" },
  ".ptx-modifier": { color: "var(--modifier)" },
  ".ptx-register": { color: "var(--register)" },
  ".ptx-special": { color: "var(--special)" },
  ".ptx-number, .ptx-string": { color: "var(--number)" },
  ".ptx-label, .ptx-function": { color: "var(--label)" },
  ".ptx-variable": { color: "var(--variable)" },
  ".ptx-error": { color: "var(--wrong)" },
});

const changed = EditorView.updateListener.of((update) => {
  if (!update.docChanged) return;
  edits += 1;
  clearTimeout(timer);
  timer = setTimeout(examine, PAUSE);
});
const view = new EditorView({
  parent: $("editor"),
  state: EditorState.create({
    doc: "",
    extensions: [
      lineNumbers(),
      highlightActiveLine(),
      highlightActiveLineGutter(),
      drawSelection(),
      history(),
      search({ top: true }),
      lintGutter(),
      painted,
      look,
      changed,
      EditorState.tabSize.of(4),
      EditorView.contentAttributes.of({ "aria-label": "PTX" }),
      keymap.of([...lintKeymap, ...searchKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
    ],
  }),
});

function replace(text) {
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, selection: { anchor: 0 }, scrollIntoView: true });
}

function show(at) {
  view.dispatch({ selection: { anchor: Math.min(at, view.state.doc.length) }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
  view.focus();
}

// --- examining: one question at a time, always about the newest text

let timer = 0;
let edits = 0;
let asked = -1; // the number of edits that the question under way is about
let shown = -1; // that the answers on the page are about
let found = null;

async function examine() {
  if (!ready || asked === edits) return;
  if (asked > shown) return; // its answer starts the next
  const about = (asked = edits);
  const text = view.state.sliceDoc();
  const began = performance.now();
  say("Examining…");
  try {
    const answer = await ask("examine", text);
    say(`${Math.round(performance.now() - began)} ms`);
    if (about === edits) {
      found = answer;
      mark(answer, text);
      list(answer.findings);
      tell(answer.requires);
      offer(answer.functions);
      stale = { graph: true, formatted: true };
      refresh();
    }
  } catch (error) {
    say(String(error.message ?? error));
  }
  shown = about;
  if (about !== edits) examine();
}

function mark(answer, text) {
  const colors = answer.tokens.filter(([from, to, kind]) => marks[kind] && to > from).map(([from, to, kind]) => marks[kind].range(from, to));
  view.dispatch({ effects: paint.of(Decoration.set(colors)) });
  const end = text.length;
  const diagnostics = answer.findings.map((one) => ({
    from: Math.min(one.from, end),
    to: Math.min(one.to, end),
    severity: one.severity,
    source: `${one.rule} ${one.name}`,
    message: one.text,
    actions: one.fix ? [{ name: one.fix.text, apply: () => apply(one.fix) }] : [],
  }));
  view.dispatch(setDiagnostics(view.state, diagnostics));
}

function apply(fix) {
  view.dispatch({ changes: fix.edits });
}

// --- answers

function element(kind, properties = {}, ...children) {
  const made = Object.assign(document.createElement(kind), properties);
  made.append(...children);
  return made;
}

// a message, with what stands in backquotes as code
function prose(text) {
  return text.split("`").map((part, i) => (i % 2 ? element("code", { textContent: part }) : part));
}

function lineButton(line, at) {
  return element("button", { className: "line", type: "button", textContent: `line ${line}`, onclick: () => show(at) });
}

function list(findings) {
  $("count").textContent = findings.length ? `(${findings.length})` : "";
  const cards = findings.map((one) => {
    const rule = element("span", { className: "dim", textContent: ` ${one.rule} ${one.name}` });
    const card = element("article", { className: one.severity });
    card.append(
      element("p", {}, element("span", { className: "severity", textContent: one.severity }), rule, ", ", lineButton(one.line, one.from)),
      element("h2", {}, ...prose(one.text)),
    );
    const steps = one.related.map((also) => element("li", {}, lineButton(also.line, also.from), ": ", ...prose(also.text)));
    const notes = one.notes.map((note) => element("li", {}, ...prose(note)));
    if (steps.length + notes.length) card.append(element("ul", {}, ...steps, ...notes));
    if (one.fix) card.append(element("p", {}, element("button", { type: "button", onclick: () => apply(one.fix) }, ...prose(one.fix.text))));
    if (one.why) card.append(element("details", {}, element("summary", { textContent: "why" }), element("p", {}, ...prose(one.why))));
    return card;
  });
  $("findings").replaceChildren(...(cards.length ? cards : [element("p", { textContent: "No findings." })]));
}

function tell(needs) {
  const head = element("tr", {}, ...["function", "needs", "because of", "line"].map((word) => element("th", { textContent: word })));
  const rows = needs.map((one) =>
    element(
      "tr",
      {},
      element("td", { textContent: one.function }),
      element("td", {}, ...one.needs.flatMap((choice, i) => (i ? [element("br"), choice] : [choice]))),
      element("td", { textContent: one.because || "–" }),
      element("td", {}, one.line ? lineButton(one.line, view.state.doc.line(one.line).from) : "–"),
    ),
  );
  $("requires").replaceChildren(rows.length ? element("table", {}, head, ...rows) : element("p", { textContent: "There is no function." }));
}

function offer(functions) {
  const chosen = $("function").value;
  $("function").replaceChildren(...functions.map(([name, readable]) => element("option", { value: name, textContent: readable })));
  if (functions.some(([name]) => name === chosen)) $("function").value = chosen;
}

let stale = { graph: false, formatted: false };

async function refresh() {
  const open = tabs.find((tab) => tab.getAttribute("aria-selected") === "true").getAttribute("aria-controls");
  if (!found || !stale[open]) return;
  stale[open] = false;
  const text = view.state.sliceDoc();
  if (open === "graph") await draw(text);
  if (open === "formatted") {
    const answer = await ask("formatted", text);
    $("text").textContent = answer.text ?? answer.reason;
    $("take").disabled = answer.text === undefined || answer.text === text;
  }
}

async function draw(text) {
  const name = $("function").value;
  const answer = name ? await ask("graph", text, name, $("color").value) : { reason: "There is no function with a body." };
  $("picture").hidden = answer.page === undefined;
  $("no-picture").hidden = answer.page !== undefined;
  $("no-picture").textContent = answer.reason ?? "";
  if (answer.page !== undefined) $("picture").srcdoc = answer.page;
}

$("picture").onload = () => setTheme($("picture").contentDocument?.documentElement);
$("function").onchange = $("color").onchange = () => draw(view.state.sliceDoc());
$("take").onclick = () => replace($("text").textContent);

// --- tabs

const tabs = [...document.querySelectorAll("[role=tab]")];

function open(tab) {
  for (const other of tabs) {
    other.setAttribute("aria-selected", String(other === tab));
    other.tabIndex = other === tab ? 0 : -1;
    $(other.getAttribute("aria-controls")).hidden = other !== tab;
  }
  refresh();
}

for (const tab of tabs) tab.onclick = () => open(tab);
document.querySelector("[role=tablist]").onkeydown = (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
  open(next);
  next.focus();
};
document.addEventListener("keydown", (event) => {
  if (!event.altKey || event.ctrlKey || event.metaKey || !/^Digit[0-4]$/.test(event.code)) return;
  event.preventDefault();
  const number = Number(event.code.slice(5));
  if (number === 0) return view.focus();
  open(tabs[number - 1]);
  tabs[number - 1].focus();
});

// --- light and dark

let theme = localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

function setTheme(root) {
  if (root) root.dataset.theme = theme;
}

setTheme(document.documentElement);
$("theme").onclick = () => {
  theme = theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", theme);
  setTheme(document.documentElement);
  setTheme($("picture").contentDocument?.documentElement);
};

// --- texts to begin with

async function load(name) {
  replace(await (await fetch(new URL(`examples/${name}`, import.meta.url))).text());
}

$("example").onchange = () => load($("example").value);
$("file").onchange = async () => {
  const [file] = $("file").files;
  if (file) replace(await file.text());
};
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", async (event) => {
  const file = event.dataTransfer?.files[0];
  if (!file) return;
  event.preventDefault();
  replace(await file.text());
});

const contents = await (await fetch(new URL("contents.json", import.meta.url))).json();
$("example").append(...contents.examples.map((name) => element("option", { value: name, textContent: name })));
await load(contents.examples[0]);

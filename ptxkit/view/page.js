"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const data = JSON.parse(find("data").textContent);
  const HEIGHT = 18, MARGIN = 20;
  const LETTER = { error: "E", warning: "W", info: "i" };
  const panes = [];
  let active = null, lit = -1, hits = [], hit = -1, finding = -1;

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }
  // a message, with what stands in backquotes as code
  const prose = (text) => text.split("`").map((part, i) => (i % 2 ? element("code", {}, part) : part));
  const say = (text) => { find("spoken").textContent = text; };
  const count = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
  const base = (path) => path.split(/[\\/]/).pop();
  // neighbouring lines get hues that are far apart
  const hue = (key) => Math.round((data.keys.length ? data.keys[key][0] * 61 + data.keys[key][1] * 137.508 : key * 137.508) % 360);

  // --- colours of words; only of the rows that are seen ---

  const PTX = /(\/\/.*|\/\*.*?\*\/)|("[^"]*")|([%$][\w$]+)|(\.[A-Za-z_]\w*)|(\b(?:0[xXfFdD][\da-fA-F]+|\d[\w.]*)U?\b)|([A-Za-z_][\w$]*)/g;
  const SOURCE = /(\/\/.*|\/\*.*?\*\/|#\s.*)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(\b(?:alignas|auto|bool|break|case|char|class|const|constexpr|continue|def|do|double|else|enum|float|for|from|half|if|import|in|inline|int|lambda|let|long|namespace|not|and|or|return|short|signed|sizeof|static|struct|switch|template|typename|uint\d+_t|int\d+_t|unsigned|using|void|volatile|while|with|__global__|__device__|__shared__|__host__|extern)\b)|(#\w+|@[\w.]+)|(\b\d[\w.]*\b)|([A-Za-z_]\w*)/g;
  const SASS = /(\/\*[0-9a-f]+\*\/|\/\/.*)|("[^"]*")|(\b(?:U?R\d+|U?RZ|U?P[\dT]+|SR_[\w.]+)\b)|(\.[A-Za-z_]\w*)|(\b0x[\da-f]+\b|\b\d+\b)|([A-Za-z_][\w$]*)/g;
  const KINDS = { ptx: ["comment", "number", "register", "modifier", "number", ""], source: ["comment", "number", "opcode", "label", "number", ""], sass: ["comment", "number", "register", "modifier", "number", ""] };

  function words(kind, text) {
    const pattern = kind === "ptx" ? PTX : kind === "source" ? SOURCE : SASS;
    const made = [];
    let at = 0, first = kind !== "source" && !/^\s*(\.[a-z]|\)|\/\/)/.test(text);
    if (text.length > 2000) return [text];
    for (const match of text.matchAll(pattern)) {
      const group = match.slice(1).findIndex((one) => one !== undefined);
      let name = KINDS[kind][group];
      if (first && group === 5 && text[match.index + match[0].length] !== ":") { name = "opcode"; first = false; }
      else if (kind === "ptx" && group === 2 && match[0][0] === "$") name = "label";
      if (!name) continue;
      if (match.index > at) made.push(text.slice(at, match.index));
      made.push(element("span", { class: name }, match[0]));
      at = match.index + match[0].length;
    }
    made.push(text.slice(at));
    return made;
  }

  // --- a pane: rows of equal height, of which those exist that are seen ---

  class Pane {
    constructor(kind, title) {
      this.kind = kind;
      this.head = element("h2", {}, title);
      this.scroller = element("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": title });
      this.space = element("div", { class: "space" });
      this.scroller.append(this.space);
      this.root = element("section", { class: `pane ${kind}` }, this.head, this.scroller);
      this.cursor = 0;
      this.rows = [];
      this.drawn = [0, 0];
      this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
      this.scroller.addEventListener("focus", () => { active = this; });
      this.scroller.addEventListener("mouseover", (event) => { const row = event.target.closest(".row"); if (row) light(this, Number(row.dataset.row)); });
      this.scroller.addEventListener("mouseleave", () => light(null, -1));
      this.scroller.addEventListener("click", (event) => {
        const row = event.target.closest(".row");
        if (!row) return;
        const at = Number(row.dataset.row);
        if (event.target.closest(".note button")) { this.move(at); explain(this.notes.get(at)); return; }
        this.move(at);
        follow(this, at, false);
      });
      new ResizeObserver(() => this.draw(true)).observe(this.scroller);
      panes.push(this);
    }

    // lines: texts; numberOf(row), rowOf(line); keyOf: by row; made: by row how many lines it made; notes: by row the findings
    // heat: by row how many threads executed it, or null
    show(lines, keyOf, numberOf, rowOf, made, notes, missing, heat) {
      Object.assign(this, { lines, keyOf, numberOf, rowOf, made, notes, missing: Boolean(missing), heat: heat ?? null, cursor: 0 });
      this.hottest = this.heat ? this.heat.reduce((most, one) => Math.max(most, one), 1) : 1;
      this.places = new Map();
      keyOf.forEach((key, row) => { if (key >= 0) { const list = this.places.get(key); if (list) list.push(row); else this.places.set(key, [row]); } });
      const widest = lines.reduce((most, line) => Math.max(most, line.length), 0);
      this.space.style.height = `${lines.length * HEIGHT}px`;
      this.space.style.width = `${Math.min(widest, 20000) + 16}ch`;
      this.root.style.setProperty("--gutter", `${String(numberOf(lines.length - 1) || 0).length + 2}ch`);
      this.draw(true);
    }

    draw(anew) {
      const first = Math.max(0, Math.floor(this.scroller.scrollTop / HEIGHT) - MARGIN);
      const last = Math.min(this.lines?.length ?? 0, Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / HEIGHT) + MARGIN);
      const [from, to] = this.drawn;
      if (!anew && first >= from - MARGIN / 2 && last <= to + MARGIN / 2 && Math.abs(first - from) < MARGIN / 2) return;
      this.drawn = [first, last];
      const made = [];
      for (let i = first; i < last; i++) made.push(this.row(i));
      this.rows = made;
      this.space.replaceChildren(...made);
      this.paint();
    }

    row(i) {
      const row = element("div", { class: `row${this.missing ? " missing" : ""}`, "data-row": i });
      row.style.transform = `translateY(${i * HEIGHT}px)`;
      const note = element("span", { class: "note" }), found = this.notes.get(i);
      if (found) {
        const worst = ["error", "warning", "info"].find((one) => found.some((n) => data.findings[n].severity === one));
        note.append(element("button", { type: "button", class: worst, tabindex: "-1", title: found.map((n) => data.findings[n].text).join("\n"), "aria-label": count(found.length, "finding") }, found.length > 1 ? String(found.length) : LETTER[worst]));
      }
      row.append(element("span", { class: "at" }, String(this.numberOf(i) || "")), note, ...this.warmth(i), element("code", {}, ...words(this.missing ? "ptx" : this.kind, this.lines[i])));
      if (this.made[i]) row.append(element("span", { class: "made", title: `made ${count(this.made[i], "line")} of PTX` }, String(this.made[i])));
      const key = this.keyOf[i];
      if (key >= 0) { row.classList.add("linked"); row.style.setProperty("--h", hue(key)); }
      return row;
    }

    // how many threads executed the row, as a number on a colour
    warmth(i) {
      if (!this.heat) return [];
      if (!this.heat[i]) return [element("span", { class: "heat" })];
      const share = Math.log(this.heat[i] + 1) / Math.log(this.hottest + 1);
      const made = element("span", { class: "heat", title: `executed ${count(this.heat[i], "time")}, all threads together` }, this.heat[i].toLocaleString("en"));
      made.style.setProperty("--share", `${Math.round(8 + 62 * share ** 2)}%`);
      return [made];
    }

    paint() {
      for (const row of this.rows) {
        const i = Number(row.dataset.row);
        row.classList.toggle("lit", lit >= 0 && this.keyOf[i] === lit);
        row.classList.toggle("exact", exact !== null && this.kind === exact[0] && this.numberOf(i) === exact[1]);
        row.classList.toggle("cursor", i === this.cursor && this === active);
        row.classList.toggle("hit", this.found?.has(i) ?? false);
        row.classList.toggle("current", hit >= 0 && hits[hit][0] === this && hits[hit][1] === i);
      }
    }

    reveal(row, always) {
      const top = row * HEIGHT, seen = this.scroller.clientHeight;
      if (!always && top >= this.scroller.scrollTop && top + HEIGHT <= this.scroller.scrollTop + seen) return;
      this.scroller.scrollTop = Math.max(0, top - seen / 2 + HEIGHT);
      this.draw();
    }

    move(row) {
      this.cursor = Math.max(0, Math.min(row, this.lines.length - 1));
      active = this;
      this.scroller.focus({ preventScroll: true });
      this.reveal(this.cursor);
      light(this, this.cursor);
      say(`line ${this.numberOf(this.cursor)}: ${this.lines[this.cursor].trim().slice(0, 200)}`);
    }
  }

  // --- which line made what ---

  let exact = null;

  function light(pane, row) {
    lit = pane && row >= 0 ? pane.keyOf[row] ?? -1 : -1;
    exact = pane && pane.kind === "sass" && data.sass.lineOf[row] ? ["ptx", data.sass.lineOf[row]] : null;
    panes.forEach((one) => one.paint());
    status(pane, row);
  }

  function status(pane, row) {
    const parts = [];
    if (lit >= 0) {
      if (data.keys.length) parts.push(`${base(data.files[data.keys[lit][0]].name)}:${data.keys[lit][1]}`);
      for (const one of panes) if (one.kind !== "source" && one.places.get(lit)) parts.push(`${count(one.places.get(lit).length, "line")} of ${one.kind === "ptx" ? "PTX" : "SASS"}`);
      const at = pane.kind === "ptx" ? row : pane.kind === "sass" ? ptx.rowOf(data.sass.lineOf[row]) : -1;
      const calls = at >= 0 ? data.calls[data.callOf[at]] : undefined;
      if (calls && calls.length > 1) parts.push(`inlined: ${calls.map(base).join(" ← ")}`);
    }
    find("status").textContent = parts.join(" · ");
  }

  // shows in the other panes what a line made, or what made it; once more, the next such line
  function follow(pane, row, again) {
    const key = pane.keyOf[row];
    if (key < 0) return;
    if (pane.kind !== "source" && data.keys.length) chooseFile(data.keys[key][0]);
    for (const other of panes) {
      const list = other === pane ? undefined : other.places.get(key);
      if (!list) continue;
      other.next = again ? list.find((one) => one > other.cursor) ?? list[0] : list[0];
      const near = list.some((one) => one * HEIGHT >= other.scroller.scrollTop && (one + 1) * HEIGHT <= other.scroller.scrollTop + other.scroller.clientHeight);
      other.cursor = other.next;
      if (again || !near) other.reveal(other.next, true);
    }
    light(pane, row);
  }

  // --- the panes ---

  const made = data.keys.map(() => 0);
  data.keyOf.forEach((key) => { if (key >= 0 && data.keys.length) made[key] += 1; });
  // of a line of the source, the sum of what it made
  const heat = data.heat && data.keys.length ? data.keys.map(() => 0) : null;
  if (heat) data.keyOf.forEach((key, row) => { if (key >= 0) heat[key] += data.heat[row]; });
  const files = data.files.map((file, number) => {
    const byLine = new Map();
    data.keys.forEach(([at, line], key) => { if (at === number && made[key]) byLine.set(line, key); });
    const numbers = [...byLine.keys()].sort((a, b) => a - b);
    const texts = file.text === null ? numbers.map((line) => `line ${line} of ${base(file.name)}, which is not found`) : file.text.split("\n");
    const numberOf = file.text === null ? (row) => numbers[row] : (row) => row + 1;
    const rowOf = file.text === null ? (line) => numbers.indexOf(line) : (line) => line - 1;
    const notes = new Map();
    data.findings.forEach((one, n) => { if (one.source && one.source[0] === number) put(notes, rowOf(one.source[1]), n); });
    return { name: file.name, texts, keyOf: texts.map((_, row) => byLine.get(numberOf(row)) ?? -1), numberOf, rowOf, notes, missing: file.text === null };
  });
  function put(map, key, value) { const list = map.get(key); if (list) list.push(value); else map.set(key, [value]); }

  let file = -1;
  const source = files.length ? new Pane("source", "Source") : null;
  const choice = element("select", { "aria-label": "Source file" }, ...files.map((one, i) => element("option", { value: i, title: one.name }, base(one.name) + (one.missing ? " (not found)" : ""))));
  function chooseFile(number) {
    if (!source || number === file) return;
    file = number;
    choice.value = String(number);
    const one = files[number];
    const warm = heat && one.keyOf.map((key) => (key >= 0 ? heat[key] : 0));
    source.show(one.texts, one.keyOf, one.numberOf, one.rowOf, one.keyOf.map((key) => (key >= 0 ? made[key] : 0)), one.notes, one.missing, warm);
    source.scroller.scrollTop = 0;
    const first = one.keyOf.findIndex((key) => key >= 0);
    source.reveal(Math.max(first, 0));
  }
  if (source) {
    source.head.replaceChildren("Source ", choice);
    choice.addEventListener("change", () => chooseFile(Number(choice.value)));
  }

  const ptx = new Pane("ptx", "PTX");
  {
    const lines = data.text.split("\n"), numbers = [], rows = new Map();
    for (const [first, last] of data.spans) for (let line = first; line <= last; line++) { rows.set(line, numbers.length); numbers.push(line); }
    const notes = new Map();
    const rowOf = (line) => rows.get(line) ?? -1;
    data.findings.forEach((one, n) => put(notes, rowOf(one.line), n));
    if (!source) ptx.head.append(element("small", {}, "no source: compile with -lineinfo"));
    ptx.show(lines, data.keyOf, (row) => numbers[row], rowOf, [], notes, false, data.heat);
  }
  let sass = null;
  if (data.sass) {
    sass = new Pane("sass", "SASS");
    sass.show(data.sass.text.split("\n"), data.sass.keyOf, () => "", () => -1, [], new Map());
  } else if (data.noSass) {
    ptx.head.append(element("small", { title: data.noSass }, `no SASS: ${data.noSass}`));
  }
  find("panes").append(...panes.map((pane) => pane.root));
  panes.forEach((pane) => pane.draw(true));
  if (source) chooseFile(Math.max(0, files.findIndex((one) => !one.missing)));
  active = ptx;
  ptx.cursor = Math.max(0, data.functions.length ? ptx.rowOf(data.functions[0][2]) : 0);
  ptx.scroller.scrollTop = Math.max(0, (ptx.cursor - 2) * HEIGHT);
  ptx.draw(true);

  // --- functions, findings ---

  const menu = find("function");
  data.functions.forEach(([, readable], i) => menu.append(element("option", { value: i }, readable)));
  menu.hidden = !data.functions.length;
  menu.addEventListener("change", () => {
    const [name, , line] = data.functions[menu.value], row = ptx.rowOf(line);
    ptx.move(row);
    ptx.reveal(row, true);
    const code = data.keyOf.findIndex((key, i) => i >= row && key >= 0);
    if (code >= 0) follow(ptx, code, false);
    const at = sass ? sass.lines.indexOf(`${name}:`) : -1;
    if (at >= 0) sass.reveal(at, true);
  });

  const order = data.findings.map((_, i) => i).sort((a, b) => data.findings[a].line - data.findings[b].line);
  find("findings").textContent = data.findings.length ? count(data.findings.length, "finding") : "No findings";
  find("findings").disabled = !data.findings.length;

  const go = (line) => element("button", { type: "button", class: "go", "data-line": line }, `line ${line}`);
  function explain(list) {
    const articles = list.map((n) => {
      const one = data.findings[n];
      const where = one.source ? element("p", {}, `${data.files[one.source[0]].name}:${one.source[1]}`) : "";
      const more = [...one.related.map(([line, text]) => element("li", {}, go(line), ": ", ...prose(text))), ...one.notes.map((text) => element("li", {}, ...prose(text))), ...(one.fix ? [element("li", {}, "fix: ", ...prose(one.fix))] : [])];
      return element("article", {}, element("h3", {}, element("span", { class: `word ${one.severity}` }, `${one.severity} ${one.rule} `), ...prose(one.text)), where,
        element("p", {}, go(one.line), ` of the PTX, ${one.name}`), element("ul", {}, ...more), ...(data.why[one.rule] ? [element("p", { class: "comment" }, ...prose(data.why[one.rule]))] : []));
    });
    find("details").replaceChildren(element("button", { type: "button", class: "close", "aria-label": "Close" }, "×"), ...articles);
    find("details").hidden = false;
    find("details").scrollTop = 0;
    say(list.map((n) => `${data.findings[n].severity}: ${data.findings[n].text}`).join(". "));
  }
  find("details").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.dataset.line) { const row = ptx.rowOf(Number(button.dataset.line)); if (row >= 0) { ptx.move(row); follow(ptx, row, false); } } else if (button) find("details").hidden = true;
  });
  function nextFinding(by) {
    if (!order.length) return;
    finding = finding < 0 && by < 0 ? order.length - 1 : (finding + by + order.length) % order.length;
    const row = ptx.rowOf(data.findings[order[finding]].line);
    explain(ptx.notes.get(row));
    ptx.move(row);
    follow(ptx, row, false);
  }
  find("findings").addEventListener("click", () => nextFinding(1));

  // --- search ---

  function search() {
    const query = find("query").value.trim().toLowerCase();
    hits = []; hit = -1;
    panes.forEach((pane) => { pane.found = new Set(); });
    const line = query.match(/^:(\d+)$/);
    if (line) { find("hits").textContent = ""; panes.forEach((pane) => pane.paint()); return; }
    if (query) {
      for (const pane of panes) pane.lines.forEach((text, row) => { if (text.toLowerCase().includes(query)) { hits.push([pane, row]); pane.found.add(row); } });
    }
    find("hits").textContent = query ? (hits.length ? `${hits.length.toLocaleString("en")} found` : "none") : "";
    panes.forEach((pane) => pane.paint());
    if (query) say(`${hits.length} found`);
  }
  function step(by, focus) {
    const line = find("query").value.trim().match(/^:(\d+)$/);
    if (line) { const row = ptx.rowOf(Number(line[1])); if (row >= 0) { ptx.move(row); follow(ptx, row, false); } return; }
    if (!hits.length) return;
    hit = hit < 0 && by < 0 ? hits.length - 1 : (hit + by + hits.length) % hits.length;
    const [pane, row] = hits[hit];
    pane.cursor = row;
    pane.reveal(row);
    if (focus) pane.move(row); else { active = pane; light(pane, row); }
    find("hits").textContent = `${hit + 1} of ${hits.length.toLocaleString("en")}`;
    panes.forEach((one) => one.paint());
  }
  let later = 0;
  find("query").addEventListener("input", () => { clearTimeout(later); later = setTimeout(search, 120); });
  find("search").addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(later); if (hit < 0) search(); step(1, false); });
  find("previous").addEventListener("click", () => step(-1, false));

  // --- the graph ---

  function graph() {
    if (!data.graphs.page) { find("details").replaceChildren(element("button", { type: "button", class: "close" }, "×"), element("p", {}, `No graph: ${data.graphs.reason}`)); find("details").hidden = false; return; }
    const frame = find("frame"), row = ptx.cursor;
    let name = null;
    for (const [one, , line] of data.functions) if (ptx.rowOf(line) <= row) name = one;
    const choose = () => {
      const inner = frame.contentDocument, which = data.graphs.functions.indexOf(name);
      if (!inner) return;
      inner.documentElement.dataset.theme = dark() ? "dark" : "light";
      const select = inner.getElementById("function");
      if (select && which >= 0 && select.value !== String(which)) { select.value = String(which); select.dispatchEvent(new Event("change")); }
    };
    find("drawing").showModal();
    if (frame.srcdoc) choose(); else { frame.addEventListener("load", choose, { once: true }); frame.srcdoc = data.graphs.page; }
  }
  find("graph").addEventListener("click", graph);
  find("close").addEventListener("click", () => find("drawing").close());
  if (!data.graphs.page) find("graph").title = `No graph: ${data.graphs.reason}`;

  // --- theme, keys ---

  const dark = () => { const chosen = document.documentElement.dataset.theme; return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches; };
  const theme = () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; };
  find("theme").addEventListener("click", theme);
  const keys = () => { find("keys").hidden = !find("keys").hidden; find("help").setAttribute("aria-expanded", String(!find("keys").hidden)); };
  find("help").addEventListener("click", keys);

  function side(by) { const at = panes.indexOf(active), next = panes[(at + by + panes.length) % panes.length]; next.move(next.cursor); }
  function clear() {
    find("details").hidden = true;
    find("query").value = "";
    search();
    active.move(active.cursor);
  }
  const page = () => Math.max(1, Math.floor(active.scroller.clientHeight / HEIGHT) - 2);
  const ACTIONS = {
    "/": () => { find("query").focus(); find("query").select(); },
    n: () => step(1, true), N: () => step(-1, true), "]": () => nextFinding(1), "[": () => nextFinding(-1), g: graph, t: theme, "?": keys, Escape: clear,
    ArrowDown: () => active.move(active.cursor + 1), ArrowUp: () => active.move(active.cursor - 1), j: () => active.move(active.cursor + 1), k: () => active.move(active.cursor - 1),
    ArrowRight: () => side(1), ArrowLeft: () => side(-1), PageDown: () => active.move(active.cursor + page()), PageUp: () => active.move(active.cursor - page()),
    Home: () => active.move(0), End: () => active.move(active.lines.length - 1), Enter: () => follow(active, active.cursor, true),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || find("drawing").open) return;
    const typing = event.target.closest("input, select");
    if (typing && event.key !== "Escape") return;
    if (event.target.closest("button, iframe") && ["Enter", " "].includes(event.key)) return;
    const action = ACTIONS[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
})();

"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const functions = JSON.parse(find("data").textContent);
  const pictures = [...document.querySelectorAll("svg.picture")];
  const stage = find("stage"), panel = find("panel");
  const SVG = "http://www.w3.org/2000/svg";
  let at = 0, view = null, chosenBox = -1, chosenRegister = -1, hits = [], hit = -1, about = null;
  const views = [];

  // --- what the script knows of a picture, found once a function ---

  function known(number) {
    const one = functions[number];
    if (one.nodes) return one;
    const prefix = `f${number}`;
    one.nodes = one.boxes.map((_, i) => document.getElementById(`${prefix}b${i}`));
    one.edges = one.arrows.map((_, i) => document.getElementById(`${prefix}e${i}`));
    one.rows = [...pictures[number].querySelectorAll("g.row")].map((element) => {
      const [first, last] = element.id.slice(element.id.indexOf("i") + 1).split("_").map(Number);
      return { element, first, last, node: element.closest(".node") };
    });
    one.boxOf = [];
    one.boxes.forEach(([, start, end], i) => { for (let k = start; k < end; k++) one.boxOf[k] = i; });
    one.texts = one.instructions.map((tokens) => tokens.map((token) => token[1]).join(""));
    return one;
  }

  const now = () => functions[at];
  const svg = () => pictures[at];
  const say = (text) => { find("spoken").textContent = text; };

  // --- moving about ---

  function ratio() { return Math.max(stage.clientHeight, 1) / Math.max(stage.clientWidth, 1); }

  function show() {
    view.h = view.w * ratio();
    svg().setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`);
    find("zoom").textContent = `${Math.round((75 * stage.clientWidth) / view.w)}%`;
  }

  function extent() {
    const graph = svg().querySelector("g.graph");
    const box = graph.getBBox(), matrix = graph.transform.baseVal.consolidate().matrix;
    return { x: box.x + matrix.e, y: box.y + matrix.f, w: box.width, h: box.height };
  }

  function fit() {
    const all = extent();
    const width = Math.max(all.w, all.h / ratio(), 50) * 1.04;
    view = { x: all.x + all.w / 2 - width / 2, y: all.y - all.h * 0.02, w: width };
    const spare = width * ratio() - all.h;
    if (spare > 0) view.y = all.y - spare / 2;
    show();
  }

  function entry() {
    // as wide as the picture if letters stay legible, else as its first block, which begins at the left if it is wider still
    const all = extent(), box = placed(now().nodes[0]), natural = stage.clientWidth * 0.8, widest = stage.clientWidth * 1.2;
    const whole = all.w * 1.04 <= widest, shown = whole ? all : box;
    const width = Math.min(Math.max(shown.w * 1.04, natural), widest);
    const x = shown.w <= width ? shown.x + shown.w / 2 - width / 2 : shown.x - 8;
    view = { x, y: whole ? all.y - 12 : box.y - 24, w: width };
    show();
  }

  function placed(element) {
    const box = element.getBBox(), matrix = svg().querySelector("g.graph").transform.baseVal.consolidate().matrix;
    return { x: box.x + matrix.e, y: box.y + matrix.f, w: box.width, h: box.height };
  }

  function reveal(element) {
    const box = placed(element);
    const inside = box.x >= view.x && box.y >= view.y && box.x + box.w <= view.x + view.w && box.y + box.h <= view.y + view.h;
    if (inside) return;
    const widest = stage.clientWidth * 1.2;
    if (view.w > widest) view.w = widest;
    view.h = view.w * ratio();
    view.x = box.x + Math.min(box.w, view.w) / 2 - view.w / 2;
    view.y = box.y + Math.min(box.h, view.h) / 2 - view.h / 2;
    show();
  }

  function zoom(factor, x = 0.5, y = 0.5) {
    const width = Math.min(Math.max(view.w * factor, 40), 400000);
    view.x += (view.w - width) * x;
    view.y += (view.w - width) * ratio() * y;
    view.w = width;
    show();
  }

  function pan(x, y) { view.x += x; view.y += y; show(); }

  const pointers = new Map();
  let moved = 0;
  stage.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    pointers.set(event.pointerId, event);
    moved = 0;
  });
  stage.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const scale = view.w / stage.clientWidth;
    const dx = event.clientX - before.clientX, dy = event.clientY - before.clientY;
    moved += Math.abs(dx) + Math.abs(dy);
    if (pointers.size === 2) {
      const other = [...pointers.entries()].find(([id]) => id !== event.pointerId)[1];
      const apart = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
      const frame = stage.getBoundingClientRect();
      zoom(apart(before) / apart(event), (other.clientX - frame.x) / frame.width, (other.clientY - frame.y) / frame.height);
    } else if (moved > 4) {
      if (!stage.classList.contains("dragging")) { stage.classList.add("dragging"); stage.setPointerCapture(event.pointerId); }
      pan(-dx * scale, -dy * scale);
    }
    pointers.set(event.pointerId, event);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    stage.addEventListener(end, (event) => { pointers.delete(event.pointerId); stage.classList.remove("dragging"); });
  }
  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    const frame = stage.getBoundingClientRect();
    const lines = event.deltaMode === 1 ? 20 : 1;
    zoom(Math.exp(event.deltaY * lines * 0.0015), (event.clientX - frame.x) / frame.width, (event.clientY - frame.y) / frame.height);
  }, { passive: false });

  // --- marks: frames and fields that are laid over rows and boxes ---

  function mark(element, kind, box, before) {
    const rect = document.createElementNS(SVG, "rect");
    const { x, y, width, height } = box;
    for (const [name, value] of Object.entries({ x, y, width, height, rx: 2, class: `mark ${kind}` })) rect.setAttribute(name, value);
    if (before) element.insertBefore(rect, before); else element.append(rect);
  }

  function unmark(...kinds) {
    svg().querySelectorAll(kinds.map((kind) => `.mark.${kind}`).join(",")).forEach((rect) => rect.remove());
  }

  function markRow(row, kind) {
    const words = row.element.getBBox(), around = row.node.getBBox();
    mark(row.element, kind, { x: around.x + 1, y: words.y - 0.5, width: around.width - 2, height: words.height + 1 }, row.element.querySelector("text"));
  }

  function markBox(box, kind) {
    const node = now().nodes[box], around = node.getBBox();
    mark(node, kind, { x: around.x - 2, y: around.y - 2, width: around.width + 4, height: around.height + 4 });
  }

  // --- registers ---

  const within = (ranges, first, last) => ranges.some(([start, end]) => start <= last && end > first);

  function chooseRegister(number) {
    clearRegister();
    const one = now(), [name, type, ranges, definitions, uses] = one.registers[number];
    chosenRegister = number;
    const defines = new Set(definitions), reads = new Set(uses);
    const enters = (i) => within(ranges, i, i) && !(defines.has(i) && !reads.has(i));
    svg().classList.add("ranging");
    one.boxes.forEach(([, start, end], i) => {
      if (within(ranges, start, end - 1)) one.nodes[i].classList.add("alive");
    });
    one.arrows.forEach(([source, target], i) => {
      if (within(ranges, one.boxes[source][2] - 1, one.boxes[source][2] - 1) && enters(one.boxes[target][1])) one.edges[i]?.classList.add("alive");
    });
    for (const row of one.rows) {
      if (!within(ranges, row.first, row.last)) continue;
      markRow(row, "live");
      const has = (sites) => sites.some((i) => i >= row.first && i <= row.last);
      if (has(definitions)) markRow(row, "def");
      if (has(uses)) markRow(row, has(definitions) ? "use both" : "use");
      row.element.querySelectorAll("text").forEach((text) => { if (text.textContent === name) text.classList.add("chosen"); });
    }
    const length = ranges.reduce((sum, [start, end]) => sum + end - start, 0);
    const boxes = one.boxes.filter(([, start, end]) => within(ranges, start, end - 1)).length;
    say(`${name} is live at ${length} instructions in ${boxes} blocks, ${definitions.length} definitions, ${uses.length} uses`);
    const sites = (title, list) => [element("h3", {}, `${title} (${list.length})`), element("ol", {}, ...list.map((i) => line(i, true)))];
    panel.replaceChildren(
      element("h2", {}, `${name} `, element("small", { class: "comment" }, type)),
      element("p", {}, `live at ${count(length, "instruction")} of ${count(boxes, one.level === "blocks" ? "block" : "box")}`),
      element("button", { type: "button", "data-clear": "1" }, "Clear"),
      ...sites("Written", definitions), ...sites("Read", uses));
    panel.scrollTop = 0;
  }

  function clearRegister() {
    if (chosenRegister < 0) return;
    chosenRegister = -1;
    svg().classList.remove("ranging");
    svg().querySelectorAll(".alive").forEach((element) => element.classList.remove("alive"));
    svg().querySelectorAll("text.chosen").forEach((element) => element.classList.remove("chosen"));
    unmark("live", "def", "use");
  }

  // --- the panel ---

  const count = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function words(i) {
    const one = now();
    return one.instructions[i].map(([kind, text, register]) => {
      const name = one.kinds[kind];
      if (register === undefined) return element("span", { class: name }, text);
      return element("button", { type: "button", class: `register${register === chosenRegister ? " chosen" : ""}`, "data-register": register }, text);
    });
  }

  function line(i, jump) {
    const one = now(), ranges = chosenRegister < 0 ? [] : one.registers[chosenRegister][2];
    const note = [one.notes[i], one.sources[i]].filter(Boolean).join(" ");
    const place = jump
      ? element("button", { type: "button", class: "at", "data-go": i, title: "Show in the picture" }, `${one.boxes[one.boxOf[i]][0]}:${one.lines[i]}`)
      : element("span", { class: "at", title: `line ${one.lines[i]}, ${count(one.pressure[i], "register")} of 32 bits at once` }, String(one.lines[i]));
    return element("li", { "data-instruction": i, class: !jump && within(ranges, i, i) ? "live" : "" }, place, element("code", {}, ...words(i)), ...(note ? [element("small", {}, note)] : []));
  }

  function chooseBox(number, quietly) {
    const one = now(), [title, start, end, labels, badges] = one.boxes[number];
    unmark("frame");
    chosenBox = number;
    markBox(number, "frame");
    reveal(one.nodes[number]);
    if (quietly) return;
    clearRegister();
    const jumps = (which, other, head) => {
      const list = one.arrows.filter((arrow) => arrow[which] === number);
      return [element("h3", {}, head), element("div", {}, ...(list.length ? list.map((arrow) => element("button", { type: "button", class: "jump", "data-box": arrow[other] },
        `${arrow[2] ? arrow[2] + " " : ""}${one.boxes[arrow[other]][0]}${arrow[3] ? " (back)" : ""}`)) : ["none"]))];
    };
    const most = 3000, lines = [];
    for (let i = start; i < Math.min(end, start + most); i++) lines.push(line(i, false));
    panel.replaceChildren(
      element("h2", {}, `${title} ${labels}`),
      element("p", {}, [badges, count(end - start, "instruction"), `needs at most ${count(Math.max(...one.pressure.slice(start, Math.min(end, start + 60000))), "register")}`].filter(Boolean).join(", ")),
      ...jumps(1, 0, "From"), ...jumps(0, 1, "To"), element("h3", {}, "Instructions"), element("ol", {}, ...lines),
      ...(end - start > most ? [element("p", {}, `${count(end - start - most, "instruction")} more`)] : []));
    panel.scrollTop = 0;
    say(`${title} ${labels} ${badges}, ${count(end - start, "instruction")}`);
  }

  function overview() {
    const one = now();
    panel.replaceChildren(element("h2", {}, one.name), element("p", {}, one.about),
      element("p", {}, "Click a register to see where it is live, a block for its listing."));
  }

  function go(i) {
    const one = now();
    chooseBox(one.boxOf[i], true);
    const row = one.rows.find((found) => found.first <= i && i <= found.last);
    if (row) reveal(row.element);
  }

  panel.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.register) chooseRegister(Number(button.dataset.register));
    else if (button.dataset.go) go(Number(button.dataset.go));
    else if (button.dataset.box) chooseBox(Number(button.dataset.box));
    else if (button.dataset.clear) clear();
  });

  stage.addEventListener("click", (event) => {
    if (moved > 4) return;
    const node = event.target.closest(".node");
    if (!node) { clear(); return; }
    const stub = node.id.match(/^f\d+s(\d+)$/);
    if (stub) { chooseBox(now().arrows[stub[1]][1]); return; }
    const row = event.target.closest("g.row");
    const register = row && event.target.localName === "text" ? registerAt(row, event.target.textContent) : undefined;
    if (register !== undefined) chooseRegister(register);
    else chooseBox(now().nodes.indexOf(node));
  });

  function registerAt(row, text) {
    const first = Number(row.id.slice(row.id.indexOf("i") + 1).split("_")[0]);
    const [head, tail] = text.split("…");
    const token = now().instructions[first].find((one) => one[2] !== undefined && (one[1] === text || (tail !== undefined && one[1].startsWith(head) && one[1].endsWith(tail))));
    return token?.[2];
  }

  function clear() {
    clearRegister();
    unmark("frame", "hit", "current");
    chosenBox = -1; hits = []; hit = -1;
    find("hits").textContent = "";
    overview();
  }

  // --- search ---

  function search() {
    const one = now(), query = find("query").value.trim().toLowerCase();
    unmark("hit", "current");
    hits = []; hit = -1;
    if (!query) { find("hits").textContent = ""; return; }
    const whole = one.registers.findIndex(([name]) => name.toLowerCase() === query);
    const matches = (i) => whole >= 0 ? one.instructions[i].some((token) => token[2] === whole)
      : `${one.texts[i]} ${one.sources[i] || ""} ${one.notes[i] || ""}`.toLowerCase().includes(query);
    const labelled = new Set(one.boxes.filter(([title, , , labels]) => title.toLowerCase() === query || labels.toLowerCase().includes(query)).map((box) => box[1]));
    for (let i = 0; i < one.texts.length; i++) if (labelled.has(i) || matches(i)) hits.push(i);
    const found = new Set(hits);
    for (const row of one.rows) {
      for (let i = row.first; i <= row.last; i++) if (found.has(i)) { markRow(row, "hit"); break; }
    }
    find("hits").textContent = hits.length ? `${hits.length} found` : "none";
    say(`${hits.length} found`);
  }

  function step(by) {
    if (!hits.length) return;
    hit = (hit + by + hits.length) % hits.length;
    unmark("current");
    const row = now().rows.find((found) => found.first <= hits[hit] && hits[hit] <= found.last);
    if (row) { markRow(row, "current"); reveal(row.element); }
    find("hits").textContent = `${hit + 1} of ${hits.length}`;
    if (chosenRegister < 0) {
      chooseBox(now().boxOf[hits[hit]]);
      const listed = panel.querySelector(`li[data-instruction="${hits[hit]}"]`);
      if (listed) { listed.classList.add("hit"); listed.scrollIntoView({ block: "nearest" }); }
    }
    say(`${hit + 1} of ${hits.length}: ${now().texts[hits[hit]]}`);
  }

  find("query").addEventListener("input", search);
  find("search").addEventListener("submit", (event) => { event.preventDefault(); if (!hits.length) search(); step(1); });
  find("previous").addEventListener("click", () => step(hit < 0 ? 0 : -1));
  find("query").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.shiftKey) { event.preventDefault(); step(hit < 0 ? 0 : -1); }
    if (event.key === "Escape") { find("query").value = ""; clear(); stage.focus(); }
  });

  // --- the rest of the controls ---

  function open(number) {
    if (view) { views[at] = view; clear(); }
    pictures[at].setAttribute("hidden", "");
    at = number;
    pictures[at].removeAttribute("hidden");
    known(at);
    if (views[at]) { view = views[at]; show(); } else entry();
    find("query").value = "";
    overview();
  }

  function toggleLegend() {
    const hidden = find("legend").toggleAttribute("hidden");
    find("help").setAttribute("aria-expanded", String(!hidden));
    show();
  }

  find("function").addEventListener("change", (event) => open(Number(event.target.value)));
  find("in").addEventListener("click", () => zoom(0.8));
  find("out").addEventListener("click", () => zoom(1.25));
  find("fit").addEventListener("click", fit);
  find("start").addEventListener("click", entry);
  find("help").addEventListener("click", toggleLegend);
  find("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme === "dark" || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme:dark)").matches);
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  });
  if (functions.length < 2) find("function").disabled = true;

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input, select");
    if (typing) return;
    if (event.key === "/") { event.preventDefault(); find("query").focus(); return; }
    if (event.key === "?") { toggleLegend(); return; }
    if (event.key === "Escape") { clear(); stage.focus(); return; }
    if (event.target.closest("#panel, button")) return;
    const far = view.w * 0.12, boxes = now().boxes.length;
    const keys = {
      ArrowUp: () => pan(0, -far), ArrowDown: () => pan(0, far), ArrowLeft: () => pan(-far, 0), ArrowRight: () => pan(far, 0),
      "+": () => zoom(0.8), "=": () => zoom(0.8), "-": () => zoom(1.25), "0": fit, Home: entry,
      n: () => chooseBox((chosenBox + 1) % boxes), p: () => chooseBox((Math.max(chosenBox, 0) + boxes - 1) % boxes),
      Enter: () => { (panel.querySelector("button") || panel).focus(); },
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  addEventListener("resize", () => { if (view) show(); });
  open(0);
  // in a small window, or in a frame of another page, the picture needs the room
  if (innerHeight < 700 || innerWidth < 700) toggleLegend();
})();

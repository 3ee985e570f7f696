// Linked panes over the stages of a kernel. Draws what explorer.py has computed, `panes`, `choices`, `overview` and
// `problem`, by code.js.

const STAGE_WIDTH = 600; // pixels in which most lines of a stage can be read

// One pane: a list of lines, each with its number and its group, the line of the source that it came from.
function drawPane(pane, view) {
  const code = element("div", "code", [], { tabindex: 0, role: "group" });
  const heading = element("h4", "", `${pane.title}, ${pane.counted}`);
  const legend = pane.legend ? [element("div", "legend", pane.legend)] : [];
  const box = element("section", "pane", [heading, ...legend, code], { "aria-label": pane.title });
  const changed = new Set(pane.changed);
  const all = pane.lines.map((parts, index) => {
    const line = codeLine(parts, pane.rows[index]);
    line.depth = line.textContent.trim() ? line.textContent.search(/\S/) : Infinity;
    if (changed.has(index)) line.classList.add("changed");
    if (pane.groups[index] >= 0) {
      line.classList.add("linked");
      line.group = pane.groups[index];
      line.tabIndex = -1;
    }
    return line;
  });
  const drawn = { box, code, all, lines: [], groups: new Map() };
  // A line can be folded where deeper ones follow it: functions and loops, in Python and in MLIR.
  all.forEach((line, index) => {
    const next = all[index + 1]?.depth;
    if (pane.folds && next !== Infinity && next > line.depth) addFold(line, drawn, view);
  });
  layOut(drawn);
  code.addEventListener("scroll", () => paint(view, drawn));
  return drawn;
}

function addFold(line, drawn, view) {
  const button = element("button", "fold", [], { tabindex: -1, "data-mark": "▾", "aria-label": "fold" });
  button.onclick = (event) => {
    event.stopPropagation();
    line.folded = !line.folded;
    button.dataset.mark = line.folded ? "▸" : "▾";
    button.setAttribute("aria-label", line.folded ? "unfold" : "fold");
    layOut(drawn);
    paint(view, drawn);
  };
  line.prepend(button);
}

// The lines that are not folded away, in order, and where each group stands among them.
function layOut(drawn) {
  let hidden = Infinity;
  drawn.lines = drawn.all.filter((line) => {
    if (line.depth > hidden) return false;
    hidden = line.folded ? line.depth : Infinity;
    return true;
  });
  drawn.groups = Map.groupBy(drawn.lines.keys(), (row) => drawn.lines[row].group);
  drawn.groups.delete(undefined);
  drawn.code.replaceChildren(...drawn.lines);
}

// The rows that can be seen in a pane. All lines are of one height.
function visible(drawn) {
  const height = drawn.lines[0]?.offsetHeight || 1;
  const first = Math.floor(drawn.code.scrollTop / height);
  return [first, first + Math.ceil(drawn.code.clientHeight / height), height];
}

// Light the lines of the shown group that can be seen: one line of the source may have become thousands.
function paint(view, drawn) {
  const [first, last] = visible(drawn);
  for (const line of drawn.on ?? []) line.classList.remove("on");
  const seen = drawn.lines.slice(Math.max(0, first - 3), last + 3);
  drawn.on = seen.filter((line) => line.group !== undefined && line.group === view.lit);
  for (const line of drawn.on) line.classList.add("on");
}

// Show a group: its lines light up in every pane, and where none of them can be seen, the first scrolls into view.
function light(view, group, from) {
  if (group === view.lit) return;
  view.lit = group;
  // All places are read before any is changed: one layout, not one for each pane.
  const moves = [];
  for (const drawn of view.panes) {
    const rows = drawn.groups.get(group) ?? [];
    const [first, last, height] = visible(drawn);
    if (rows.length && drawn.code !== from?.parentElement && !rows.some((row) => row >= first && row < last - 1))
      moves.push([drawn.code, Math.max(0, rows[0] * height - drawn.code.clientHeight / 3)]);
  }
  for (const [code, top] of moves) code.scrollTop = top;
  for (const drawn of view.panes) paint(view, drawn);
}

// Show the first line that a choice has changed, where nothing is lit that the pane has lines of.
function showChange(view, drawn) {
  const row = drawn.lines.findIndex((line) => line.classList.contains("changed"));
  if (row < 0 || drawn.groups.has(view.lit)) return;
  drawn.code.scrollTop = Math.max(0, row * visible(drawn)[2] - drawn.code.clientHeight / 3);
}

// Put the open panes into the holder, in order. A pane that was drawn before is taken as it was.
function showPanes(view, model, holder) {
  const open = model.get("panes").filter((pane) => view.open.has(pane.name));
  for (const pane of open) if (!view.drawn.has(pane.name)) view.drawn.set(pane.name, drawPane(pane, view));
  view.panes = open.map((pane) => view.drawn.get(pane.name));
  for (const drawn of view.drawn.values()) if (!view.panes.includes(drawn)) drawn.box.remove();
  view.panes.forEach(({ box }, index) => {
    if (holder.children[index] !== box) holder.insertBefore(box, holder.children[index] ?? null);
  });
  const lit = view.lit;
  view.lit = undefined;
  light(view, lit); // in the new pane too
}

function listen(view, holder) {
  const pin = (line) => {
    if (line?.group === undefined) return;
    view.pinned = view.pinned === line.group ? undefined : line.group;
    light(view, line.group, line);
  };
  const follow = (line) => {
    if (line?.group !== undefined && view.pinned === undefined) light(view, line.group, line);
  };
  holder.onmouseover = (event) => follow(event.target.closest?.(".line"));
  holder.onclick = (event) => {
    if (!document.getSelection()?.toString()) pin(event.target.closest?.(".line"));
  };
  holder.onkeydown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      const lines = [...event.target.closest(".code").querySelectorAll(".line.linked")];
      const at = lines.indexOf(document.activeElement) + step;
      const next = lines[Math.min(Math.max(at, 0), lines.length - 1)];
      next?.focus();
      follow(next);
    } else if (event.key === "Enter") {
      pin(document.activeElement?.closest(".line"));
    } else if (event.key === "Escape") {
      view.pinned = undefined;
      light(view, undefined);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
}

// The lines of the open panes that hold a text, marked.
function search(view, text) {
  return view.panes.flatMap((drawn) => drawn.lines).filter((line) => {
    const hit = text !== "" && line.textContent.toLowerCase().includes(text.toLowerCase());
    line.classList.toggle("found", hit);
    return hit;
  });
}

function drawBar(view, model, toggled) {
  const input = element("input", "", [], { type: "search", "aria-label": "find in the open panes" });
  input.placeholder = "find";
  const counter = element("span");
  let next = 0;
  const find = () => {
    const found = search(view, input.value);
    counter.textContent = input.value ? `${found.length} found` : "";
    return found;
  };
  const go = (line) => line?.scrollIntoView({ block: "nearest" });
  input.oninput = () => { next = 0; go(find()[0]); };
  input.onkeydown = (event) => {
    event.stopPropagation();
    if (event.key !== "Enter") return;
    const found = find();
    go(found[++next % found.length]);
  };
  const buttons = model.get("panes").map(({ name, title }) => {
    const button = element("button", "", title, { title: `Show or hide ${title}` });
    button.setAttribute("aria-pressed", view.open.has(name));
    button.onclick = () => {
      if (!view.open.delete(name)) view.open.add(name);
      button.setAttribute("aria-pressed", view.open.has(name));
      toggled();
      find();
    };
    return button;
  });
  return element("div", "bar", [...buttons, input, counter]);
}

function drawChoices(view, model, bar) {
  const choices = model.get("choices");
  if (!choices?.can_change || !view.alive) return;
  const selects = {};
  const onchange = () => {
    const chosen = Object.fromEntries(Object.entries(selects).map(([name, select]) => [name, select.value]));
    const panes = model.get("panes").map(({ name }) => ({ name, open: view.open.has(name) }));
    model.send({ choose: { ...chosen, panes } });
  };
  for (const name of ["target", "num_warps", "num_stages"]) {
    const [now, from] = choices[name];
    const values = from.includes(now) ? from : [now, ...from];
    const options = values.map((value) => element("option", "", String(value)));
    selects[name] = element("select", "", options, { onchange });
    selects[name].value = now;
    bar.append(element("label", "", [`${name} `, selects[name]]));
  }
  bar.append(element("button", "", "passes", { onclick: () => model.send({ passes: true }) }));
}

function drawPasses(box, message, model) {
  if (message.passes) {
    const buttons = message.passes.map(([number, name]) =>
      element("button", "", name, { onclick: () => model.send({ diff: number }) }));
    const head = element("div", "", `${message.passes.length} of ${message.all} passes changed something:`);
    box.replaceChildren(head, ...buttons, element("pre"));
  } else if (message.diff !== undefined) {
    const kinds = { "+": "add", "-": "del" };
    const lines = message.diff.split("\n").map((text) => element("div", kinds[text[0]], text || " "));
    box.querySelector("pre")?.replaceChildren(...lines);
  }
}

function render({ model, el }) {
  const view = { panes: [] };
  const top = element("div");
  const problem = element("div", "problem", [], { role: "alert" });
  const holder = element("div", "panes");
  const passes = element("div", "passes");
  listen(view, holder);
  const renew = (stages = Infinity) => {
    const isOpen = ({ name, open }) => open && (name === "source" || stages-- > 0);
    view.open = new Set(model.get("panes").filter(isOpen).map(({ name }) => name));
    view.drawn = new Map();
    const show = () => showPanes(view, model, holder);
    const bar = drawBar(view, model, show);
    drawChoices(view, model, bar);
    top.replaceChildren(bar);
    holder.replaceChildren();
    passes.replaceChildren();
    show();
    for (const drawn of view.panes) showChange(view, drawn);
  };
  const tell = () => { problem.textContent = model.get("problem") ?? ""; };
  const answer = (message) => {
    if (!message.hello) {
      drawPasses(passes, message, model);
    } else if (!view.alive) {
      view.alive = true;
      drawChoices(view, model, top.firstChild);
    }
  };
  const listeners = Object.entries({ "change:panes": () => renew(), "change:problem": tell, "msg:custom": answer });
  for (const listener of listeners) model.on(...listener);
  renew();
  tell();
  const root = element("div", "course-widget course-explorer", [top, problem, holder, passes]);
  el.append(root);
  // The stages that there is room for side by side; the others are a click away.
  const sized = new ResizeObserver(() => {
    if (!root.clientWidth) return; // not on the page yet
    sized.disconnect();
    const stages = Math.max(1, Math.floor(root.clientWidth / STAGE_WIDTH));
    if (view.open.size > 1 + stages) renew(stages);
  });
  sized.observe(root);
  model.send({ hello: true });
  return () => { sized.disconnect(); for (const listener of listeners) model.off(...listener); };
}

export default { render };

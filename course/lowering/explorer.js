// Linked panes over the stages of a kernel. Draws what explorer.py has computed: `panes`, `choices`, `overview`, `problem`.
// Stands behind code.js.

// One pane: a list of lines, each with its number and its group, the line of the source that it came from.
function drawPane(pane, view) {
  const box = element("section", "pane");
  box.setAttribute("aria-label", pane.title);
  box.append(element("h4", "", `${pane.title}, ${pane.lines.length} lines`));
  const code = element("div", "code");
  const drawn = { code, all: [], lines: [], groups: new Map() };
  const changed = new Set(pane.changed);
  pane.lines.forEach((parts, index) => {
    const line = codeLine(parts, pane.rows[index]);
    if (pane.groups[index] >= 0) {
      line.classList.add("linked");
      line.group = pane.groups[index];
      line.tabIndex = -1;
    }
    if (changed.has(index)) line.classList.add("changed");
    line.depth = line.textContent.trim() ? line.textContent.search(/\S/) : Infinity;
    drawn.all.push(line);
  });
  // A line can be folded where deeper ones follow it: functions and loops, in Python and in MLIR.
  if (pane.folds) drawn.all.forEach((line, index) => {
    const next = drawn.all[index + 1];
    if (next && next.depth !== Infinity && next.depth > line.depth) addFold(line, drawn, view);
  });
  layOut(drawn);
  code.tabIndex = 0;
  code.setAttribute("role", "group");
  code.addEventListener("scroll", () => paint(view, drawn));
  box.append(code);
  return { box, drawn };
}

function addFold(line, drawn, view) {
  const button = element("button", "fold");
  const tell = () => {
    button.dataset.mark = line.folded ? "▸" : "▾";
    button.setAttribute("aria-label", line.folded ? "unfold" : "fold");
  };
  button.onclick = (event) => {
    event.stopPropagation();
    line.folded = !line.folded;
    tell();
    layOut(drawn);
    paint(view, drawn);
  };
  button.tabIndex = -1;
  tell();
  line.prepend(button);
}

// The lines that are not folded away, in order, and where each group stands among them.
function layOut(drawn) {
  drawn.lines = [];
  drawn.groups = new Map();
  let hidden;
  for (const line of drawn.all) {
    if (hidden !== undefined && line.depth > hidden) continue;
    hidden = line.folded ? line.depth : undefined;
    if (line.group !== undefined) {
      if (!drawn.groups.has(line.group)) drawn.groups.set(line.group, []);
      drawn.groups.get(line.group).push(drawn.lines.length);
    }
    drawn.lines.push(line);
  }
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
  drawn.on = drawn.lines.slice(Math.max(0, first - 3), last + 3).filter((line) => line.group !== undefined && line.group === view.lit);
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

// Put the open panes into the holder, in order. A pane that was drawn before is taken as it was.
function showPanes(view, model, holder) {
  const shown = model.get("panes").filter((pane) => view.open.has(pane.name));
  const boxes = shown.map((pane) => {
    if (!view.drawn.has(pane.name)) view.drawn.set(pane.name, drawPane(pane, view));
    return view.drawn.get(pane.name);
  });
  for (const { box } of view.drawn.values()) if (!boxes.some((each) => each.box === box)) box.remove();
  boxes.forEach(({ box }, index) => {
    if (holder.children[index] !== box) holder.insertBefore(box, holder.children[index] ?? null);
  });
  view.panes = boxes.map(({ drawn }) => drawn);
  const lit = view.lit;
  view.lit = undefined;
  light(view, lit); // in the new pane too
}

function listen(view, holder) {
  const lineOf = (event) => event.target.closest?.(".line");
  holder.addEventListener("mouseover", (event) => {
    const line = lineOf(event);
    if (line?.group !== undefined && view.pinned === undefined) light(view, line.group, line);
  });
  const pin = (line) => {
    if (line?.group === undefined) return;
    const same = view.pinned === line.group;
    view.pinned = same ? undefined : line.group;
    light(view, line.group, line);
  };
  holder.addEventListener("click", (event) => {
    if (!document.getSelection()?.toString()) pin(lineOf(event));
  });
  holder.addEventListener("keydown", (event) => {
    const code = event.target.closest(".code");
    const lines = [...code.querySelectorAll(".line.linked")];
    const at = lines.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      const next = lines[Math.min(Math.max(at + step, 0), lines.length - 1)];
      next?.focus();
      if (next && view.pinned === undefined) light(view, next.group, next);
    } else if (event.key === "Enter") {
      pin(document.activeElement.closest(".line"));
    } else if (event.key === "Escape") {
      view.pinned = undefined;
      light(view, undefined);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  });
}

function search(view, text, counter) {
  const found = view.panes.flatMap((drawn) => drawn.lines).filter((line) => {
    const hit = text !== "" && line.textContent.toLowerCase().includes(text.toLowerCase());
    line.classList.toggle("found", hit);
    return hit;
  });
  counter.textContent = text ? `${found.length} found` : "";
  return found;
}

function drawBar(view, model, toggled) {
  const bar = element("div", "bar");
  for (const pane of model.get("panes")) {
    const button = element("button", "", pane.title);
    button.setAttribute("aria-pressed", view.open.has(pane.name));
    button.title = `Show or hide ${pane.title}`;
    button.onclick = () => {
      if (!view.open.delete(pane.name)) view.open.add(pane.name);
      button.setAttribute("aria-pressed", view.open.has(pane.name));
      toggled();
      search(view, input.value, counter);
    };
    bar.append(button);
  }
  const input = element("input");
  const counter = element("span");
  input.type = "search";
  input.placeholder = "find";
  input.setAttribute("aria-label", "find in the open panes");
  let next = 0;
  input.oninput = () => { next = 0; search(view, input.value, counter)[0]?.scrollIntoView({ block: "nearest" }); };
  input.onkeydown = (event) => {
    event.stopPropagation();
    if (event.key !== "Enter") return;
    const found = search(view, input.value, counter);
    if (found.length) found[++next % found.length].scrollIntoView({ block: "nearest" });
  };
  bar.append(input, counter);
  return bar;
}

function drawChoices(view, model, bar) {
  const choices = model.get("choices");
  if (!choices?.can_change || !view.alive) return;
  const selects = {};
  for (const name of ["target", "num_warps", "num_stages"]) {
    const [now, from] = choices[name];
    const label = element("label", "", `${name} `);
    const select = (selects[name] = element("select"));
    for (const value of from.includes(now) ? from : [now, ...from]) {
      const option = element("option", "", String(value));
      option.selected = value === now;
      select.append(option);
    }
    select.onchange = () => {
      const chosen = Object.fromEntries(Object.entries(selects).map(([key, each]) => [key, each.value]));
      const panes = model.get("panes").map((pane) => ({ name: pane.name, open: view.open.has(pane.name) }));
      model.send({ choose: { ...chosen, panes } });
    };
    label.append(select);
    bar.append(label);
  }
  const passes = element("button", "", "passes");
  passes.onclick = () => model.send({ passes: true });
  bar.append(passes);
}

function drawPasses(box, message, model) {
  if (message.passes) {
    box.replaceChildren(element("div", "", `${message.passes.length} of ${message.all} passes changed something:`));
    for (const [number, name] of message.passes) {
      const button = element("button", "", name);
      button.onclick = () => model.send({ diff: number });
      box.append(button);
    }
    box.append(element("pre"));
  } else if (message.diff !== undefined) {
    const lines = message.diff.split("\n").map((text) => {
      const kind = text.startsWith("+") ? "add" : text.startsWith("-") ? "del" : "";
      return element("div", kind, text || " ");
    });
    box.querySelector("pre")?.replaceChildren(...lines);
  }
}

function render({ model, el }) {
  const view = { panes: [] };
  const root = element("div", "course-widget course-explorer");
  const top = element("div");
  const problem = element("div", "problem");
  problem.setAttribute("role", "alert");
  const holder = element("div", "panes");
  const passes = element("div", "passes");
  listen(view, holder);
  const show = () => showPanes(view, model, holder);
  const renew = () => {
    view.open = new Set(model.get("panes").filter((pane) => pane.open).map((pane) => pane.name));
    view.drawn = new Map();
    view.lit = view.pinned = undefined;
    const bar = drawBar(view, model, show);
    drawChoices(view, model, bar);
    top.replaceChildren(bar);
    holder.replaceChildren();
    passes.replaceChildren();
    show();
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
  model.on("change:panes", renew);
  model.on("change:problem", tell);
  model.on("msg:custom", answer);
  renew();
  tell();
  root.append(top, problem, holder, passes);
  el.append(root);
  model.send({ hello: true });
  return () => {
    model.off("change:panes", renew);
    model.off("change:problem", tell);
    model.off("msg:custom", answer);
  };
}

export default { render };

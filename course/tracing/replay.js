// Step through the programs of a launch: draws `trace`, which replay_state.py makes, by code.js.

const PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442"];
const LOADED = "#56B4E9", STORED = "#D55E00", ODD_NAN = "#D5007F", ODD_INF = "#000000";
const UNDEFINED = "rgba(128,128,128,.16)"; // a masked lane, whose value means nothing
const MOST_MAP = 4096; // programs that are drawn as a map
const TABLE_CELLS = 32; // up to so many, numbers are read rather than looked at
const TALLEST = 300; // pixels of a picture, as long as its cells can be seen
const MANY_ROWS = 40; // of cells in all matrices: more do not stand one below the other

const ARRAYS = { u1: Uint8Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };

async function numbers(text) {
  return new Int32Array(await inflate(text));
}

const arrays = new WeakMap();

// The numbers of a step's cells, which come as their type and as bytes in base64.
function array(cells) {
  if (!arrays.has(cells)) arrays.set(cells, new ARRAYS[cells[0]](bytesOf(cells[1]).buffer));
  return arrays.get(cells);
}

// A program's steps, with every variable after each. A function's own variables end with it.
async function unpack(recorded) {
  const steps = JSON.parse(new TextDecoder().decode(await inflate(recorded.steps)));
  const scopes = [];
  let before = -1;
  const known = steps.map((step) => {
    if (step.depth > before) scopes[step.depth] = {};
    before = step.depth;
    scopes.length = step.depth + 1;
    return (scopes[step.depth] = { ...scopes[step.depth], ...step.sets });
  });
  return { ...recorded, steps, known };
}

function number(value) {
  if (Number.isInteger(value)) return String(value);
  if (Number.isFinite(value)) return String(Number(value.toPrecision(5)));
  return String(value).replace("Infinity", "inf").replace("NaN", "nan");
}

function count(value) {
  return value.toLocaleString("en");
}

// White to blue for what is above zero, white to orange for what is below.
function shade(value, least, most) {
  if (Number.isNaN(value)) return ODD_NAN;
  if (!Number.isFinite(value)) return ODD_INF;
  const signed = least < 0;
  const top = signed ? Math.max(-least, most) : most - least;
  const part = top > 0 ? (signed ? value : value - least) / top : 0;
  const [r, g, b] = part < 0 ? [230, 120, 0] : [0, 90, 170];
  const mix = (color) => Math.round(245 + (color - 245) * Math.min(1, Math.abs(part)));
  return `rgb(${mix(r)},${mix(g)},${mix(b)})`;
}

// The first element that a cell stands for, as an index.
function elementOf(cell, shape, [, across], [down, wide]) {
  const columns = shape[shape.length - 1] ?? 1;
  const rows = shape.slice(0, -1).reduce((a, b) => a * b, 1);
  const row = Math.floor(cell / across);
  let left = rows === 1 ? cell * wide : row * down * columns + (cell % across) * wide;
  const index = [];
  for (const size of [...shape].reverse()) {
    index.unshift(left % size);
    left = Math.floor(left / size);
  }
  return index;
}

function hatch(context, x, y, size) {
  context.strokeStyle = "rgba(90,90,90,.9)";
  context.beginPath();
  context.moveTo(x, y + size);
  context.lineTo(x + size, y);
  context.stroke();
}

// A canvas of cells: `color` gives each cell's, `over` draws on it. `choose(cell)` hears clicks,
// `titleOf(cell)` says what is there.
function grid([down, across], wide, color, { over, titleOf, choose, label }) {
  const size = Math.max(3, Math.min(14, Math.floor(wide / across), Math.max(6, Math.floor(TALLEST / down))));
  const canvas = element("canvas");
  const sharp = Math.min(2, window.devicePixelRatio || 1);
  canvas.width = across * size * sharp;
  canvas.height = down * size * sharp;
  canvas.style.width = `${across * size}px`;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  const context = canvas.getContext("2d");
  context.scale(sharp, sharp);
  const inset = size > 5 ? 1 : 0;
  for (let cell = 0; cell < down * across; cell++) {
    const fill = color(cell);
    if (fill === undefined) continue;
    const x = (cell % across) * size, y = Math.floor(cell / across) * size;
    context.fillStyle = fill;
    context.fillRect(x, y, size - inset, size - inset);
    over?.(context, cell, x, y, size - inset);
  }
  const cellAt = ({ offsetX, offsetY }) => {
    const column = Math.min(across - 1, Math.floor(offsetX / size));
    return Math.floor(offsetY / size) * across + column;
  };
  if (titleOf) {
    canvas.addEventListener("mousemove", (event) => { canvas.title = titleOf(cellAt(event)); });
  }
  if (choose) {
    canvas.style.cursor = "pointer";
    canvas.addEventListener("click", (event) => choose(cellAt(event)));
  }
  return canvas;
}

function valueHead(name, value) {
  const head = element("div", "head");
  head.append(element("b", "", name));
  if (value.text !== undefined) {
    const type = value.of ? `${value.dtype} into ${value.of}` : value.dtype;
    head.append(` = ${value.text}`, element("span", "dim", type ? `  ${type}` : ""));
    return head;
  }
  let range = "";
  if (value.least !== undefined) {
    const [least, most] = [number(value.least), number(value.most)];
    range = value.least === value.most ? `all ${least}` : `${least} … ${most}`;
  }
  const into = value.of ? ` into ${value.of}, elements` : "";
  const type = `${value.dtype} [${value.shape.join(", ")}]`;
  head.append(element("span", "dim", `  ${type}${into}  ${range}`));
  for (const [odd, word] of [["nan", "NaN"], ["inf", "infinite"]])
    if (value[odd]) head.append(element("span", "odd", `, ${count(value[odd])} ${word}`));
  const masked = `, ${count(value.masked ?? 0)} lanes masked (hatched)`;
  if (value.masked) head.append(element("span", "dim", masked));
  const undefinedLanes = value.undefined > 0 ? count(value.undefined) : "some";
  if (value.undefined) head.append(element("span", "odd", `, ${undefinedLanes} undefined (hatched)`));
  return head;
}

function drawValue(view, name, value) {
  const box = element("div", "value");
  box.append(valueHead(name, value));
  if (!value.data) return box;
  const data = array(value.data), mask = value.mask && array(value.mask);
  const isBool = value.dtype === "int1";
  const without = !value.undefined ? " (masked)" : value.masked ? " (masked or undefined)" : " (undefined)";
  const textOf = (cell) => (isBool ? (data[cell] ? "true" : "false") : number(data[cell]));
  const titleOf = (cell) => {
    const index = elementOf(cell, value.shape, value.cells, value.patch).join(", ");
    return `${name}[${index}] = ${textOf(cell)}${mask && !mask[cell] ? without : ""}`;
  };
  const patched = value.patch[0] * value.patch[1];
  if (patched > 1) {
    const shown = "and shows the first: NaN and infinities come before others";
    box.append(element("div", "dim", `a cell stands for ${patched} elements, ${shown}`));
  }
  const table = view.tables.has(name) !== data.length <= TABLE_CELLS;
  if (table) {
    const rows = element("table");
    rows.setAttribute("aria-label", name);
    for (let row = 0; row < value.cells[0]; row++) {
      const line = element("tr");
      for (let column = 0; column < value.cells[1]; column++) {
        const cell = row * value.cells[1] + column;
        if (cell >= data.length) break;
        const text = isBool ? String(data[cell]) : number(data[cell]);
        const item = element("td", mask && !mask[cell] ? "masked" : "", text);
        item.title = titleOf(cell);
        line.append(item);
      }
      rows.append(line);
    }
    box.append(rows);
  } else {
    const least = isBool ? 0 : value.least ?? 0, most = isBool ? 1 : value.most ?? 0;
    const color = (cell) => {
      if (cell >= data.length) return undefined;
      return mask && !mask[cell] ? UNDEFINED : shade(data[cell], least, most);
    };
    box.append(grid(value.cells, 256, color, {
      label: `${name}, ${data.length} cells`,
      titleOf: (cell) => (cell < data.length ? titleOf(cell) : ""),
      over: (context, cell, x, y, size) => { if (mask && !mask[cell]) hatch(context, x, y, size); },
    }));
  }
  const turn = element("button", "turn", table ? "as a picture" : "as numbers");
  turn.onclick = () => {
    if (!view.tables.delete(name)) view.tables.add(name);
    show(view);
  };
  box.firstChild.append(turn);
  return box;
}

function isVector({ shape }) {
  return shape.slice(0, -1).every((size) => size === 1);
}

function bit(bytes, cell) {
  return (bytes[cell >> 3] >> (cell & 7)) & 1;
}

function drawTensor(view, tensor, index) {
  const { program, step } = view;
  const box = element("div", "tensor");
  const type = `${tensor.dtype} [${tensor.shape.join(", ")}]`;
  box.append(element("div", "head", `${tensor.name}  ${type}`));
  const cells = tensor.cells[0] * tensor.cells[1];
  const now = [];
  const past = new Uint8Array(cells);
  program.steps.slice(0, step + 1).forEach((each, at) => {
    for (const touch of each.touches) {
      if (touch.tensor !== index || !touch.cells) continue;
      const bytes = array(touch.cells), mark = touch.kind === "load" ? 1 : 2;
      if (at === step) now.push([touch.kind, bytes]);
      else for (let cell = 0; cell < cells; cell++) past[cell] |= bit(bytes, cell) * mark;
    }
  });
  const twice = new Set(tensor.twice), unwritten = new Set(tensor.unwritten);
  const columns = tensor.shape[tensor.shape.length - 1] ?? 1;
  const most = isVector(tensor) ? Math.ceil(columns / tensor.patch[1]) : cells;
  const at = (cell) => elementOf(cell, tensor.shape, tensor.cells, tensor.patch);
  const inside = (cell) => cell < most; // the last line of a wrapped vector may not be full
  const color = (cell) => {
    if (!inside(cell)) return undefined;
    for (const [kind, bytes] of now) if (bit(bytes, cell)) return kind === "load" ? LOADED : STORED;
    if (past[cell]) return past[cell] & 2 ? "rgba(213,94,0,.35)" : "rgba(86,180,233,.35)";
    const written = tensor.writer[cell];
    if (!written) return "rgba(128,128,128,.16)";
    return `${PALETTE[placeOf(view, ranAs(view, written)) % PALETTE.length]}33`;
  };
  const who = (cell) => {
    const [written, read] = [tensor.writer[cell], tensor.reader[cell]];
    const parts = [`${tensor.name}[${at(cell).join(", ")}]`];
    if (written) parts.push(`written by program ${named(ranAs(view, written))}`);
    else parts.push(read ? `read by program ${named(ranAs(view, read))}` : "touched by no program");
    if (twice.has(cell)) parts.push("written by several programs");
    if (unwritten.has(cell)) parts.push("read, and written by nobody");
    return parts.join(": ");
  };
  box.append(grid(tensor.cells, 300, color, {
    label: `${tensor.name}: what program ${named(program.program)} touches`,
    titleOf: (cell) => (inside(cell) ? who(cell) : ""),
    over: (context, cell, x, y, size) => {
      if (!twice.has(cell) && !unwritten.has(cell)) return;
      context.fillStyle = twice.has(cell) ? "#CC0000" : "#CC79A7";
      context.fillRect(x + size / 4, y + size / 4, Math.max(1, size / 2), Math.max(1, size / 2));
    },
    choose: (cell) => {
      const ordinal = tensor.writer[cell] || tensor.reader[cell];
      view.say(who(cell));
      if (ordinal) open(view, ranAs(view, ordinal), { tensor: index, cell });
    },
  }));
  const marks = [];
  if (twice.size) marks.push("red: written by several programs");
  if (unwritten.size) marks.push("pink: read, and written by nobody");
  if (marks.length) box.append(element("div", "odd", marks.join("; ")));
  return box;
}

// A program's coordinates from its number in the order in which they ran, from 1.
function ranAs({ trace }, ordinal) {
  return trace.ran ? trace.ran[ordinal - 1] : programAt(trace, ordinal - 1);
}

// The program at a place in the order in which a GPU starts them, the first axis fastest.
function programAt({ grid: [x, y] }, place) {
  return [place % x, Math.floor(place / x) % y, Math.floor(place / (x * y))];
}

// A program's place in that order.
function placeOf({ trace }, [a, b, c]) {
  return a + trace.grid[0] * (b + trace.grid[1] * c);
}

function named(program) {
  const used = program[2] ? 3 : program[1] ? 2 : 1;
  return used === 1 ? String(program[0]) : `(${program.slice(0, used).join(", ")})`;
}

function drawPrograms(view) {
  const { trace, program } = view;
  const box = element("div", "programs");
  const [x, y, z] = trace.grid;
  const total = x * y * z, inside = (cell) => cell < total;
  const counted = `${count(total)} program${total === 1 ? "" : "s"}`;
  box.append(element("div", "head", `${counted}, grid (${trace.grid.join(", ")})`));
  const inputs = trace.grid.map((size, axis) => {
    if (size === 1) return undefined;
    const input = element("input");
    Object.assign(input, { type: "number", min: 0, max: size - 1, value: program.program[axis] });
    input.setAttribute("aria-label", `program along axis ${axis}`);
    const typed = (size, axis) => Math.min(size - 1, Math.max(0, Number(inputs[axis]?.value ?? 0)));
    input.onchange = () => open(view, trace.grid.map(typed));
    return input;
  });
  const line = element("div", "", "program ");
  line.append(...inputs.filter(Boolean));
  if (total > 1) box.append(line);
  if (total > 1 && total <= MOST_MAP) {
    const across = y * z > 1 && x <= 64 ? x : Math.min(64, Math.ceil(2 * Math.sqrt(total)));
    const here = placeOf(view, program.program);
    const saved = new Set([...view.programs.values()].map((other) => placeOf(view, other.program)));
    const color = (cell) => {
      if (!inside(cell)) return undefined;
      return cell === here ? "#000" : PALETTE[cell % PALETTE.length];
    };
    box.append(grid([Math.ceil(total / across), across], 300, color, {
      label: "the grid's programs",
      titleOf: (cell) => (inside(cell) ? `program ${named(programAt(trace, cell))}` : ""),
      choose: (cell) => { if (inside(cell)) open(view, programAt(trace, cell)); },
      over: (context, cell, left, top, size) => {
        if (!saved.has(cell) || size < 4) return;
        context.fillStyle = "#fff";
        context.fillRect(left + size / 2 - 1, top + size / 2 - 1, 2, 2);
      },
    }));
  }
  return box;
}

// The innermost loop around a step, and where its iterations begin: steps at its header, in one run of
// the loop.
function loopAround(view, step) {
  const { trace, program } = view;
  const { row, depth } = program.steps[step];
  const around = trace.loops.filter(([first, last]) => first <= row && row <= last);
  if (!around.length) return undefined;
  const length = ([first, last]) => last - first;
  const [first, last] = around.reduce((one, other) => (length(other) < length(one) ? other : one));
  const atDepth = (other) => other.depth === depth && first <= other.row && other.row <= last;
  const inLoop = (other) => other.depth > depth || atDepth(other);
  let begin = step, end = step;
  while (begin > 0 && inLoop(program.steps[begin - 1])) begin--;
  while (end + 1 < program.steps.length && inLoop(program.steps[end + 1])) end++;
  const iterations = [];
  for (let at = begin; at <= end; at++) {
    if (program.steps[at].depth === depth && program.steps[at].row === first) iterations.push(at);
  }
  return { iterations, iteration: iterations.filter((at) => at <= step).length };
}

// Whether a notebook keeps only some of the steps.
function isPart(program) {
  return program.steps.length < program.ran;
}

function show(view) {
  const { program, trace } = view;
  const step = program.steps[view.step];
  view.slider.max = program.steps.length - 1;
  view.slider.value = view.step;
  view.slider.setAttribute("aria-valuetext", `step ${view.step + 1} of ${program.steps.length}`);
  let more = program.cut ? ", the first of more" : "";
  if (isPart(program)) more = `, of ${program.ran} that ran: the others are not saved`;
  view.counter.textContent = `step ${view.step + 1} of ${program.steps.length}${more}`;
  const loop = step && loopAround(view, view.step);
  view.iterationBox.hidden = !loop;
  if (loop) view.iteration.textContent = loop.iteration ? `iteration ${loop.iteration} of the loop` : "";
  view.loop = loop;
  view.lines.forEach((line, row) => {
    line.classList.toggle("on", row === step?.row);
    line.classList.toggle("wrong", row === step?.row && Boolean(step.error));
    if (row === step?.row) keepInSight(view.code, line);
  });
  const done = element("div", "touched");
  for (const touch of step?.touches ?? []) {
    done.append(element("div", touch.outside ? "odd" : "", touch.text));
    if (touch.value) done.append(drawValue(view, "stored", touch.value));
  }
  if (step?.error) done.append(element("div", "odd", step.error));
  const known = program.known[view.step] ?? {};
  const fresh = Object.keys(step?.sets ?? {});
  const values = fresh.map((name) => drawValue(view, name, known[name]));
  const older = Object.keys(known).filter((name) => !fresh.includes(name));
  const rest = element("div", "older");
  for (const name of older) {
    const head = valueHead(name, known[name]);
    if (known[name].data) {
      const shown = view.opened.has(name);
      const button = element("button", "turn", shown ? "hide" : "show");
      button.onclick = () => {
        if (!view.opened.delete(name)) view.opened.add(name);
        show(view);
      };
      if (shown) rest.append(drawValue(view, name, known[name]));
      else head.append(button);
      if (shown) rest.lastChild.firstChild.append(button);
      else rest.append(head);
    } else {
      rest.append(head);
    }
  }
  const line = trace.lines[step?.row]?.row ?? "";
  const title = element("div", "head", `Program ${named(program.program)}: after line ${line}`);
  const before = older.length ? [element("div", "head", "set before"), rest] : [];
  view.values.replaceChildren(title, done, ...values, ...before);
  const tensors = trace.tensors.map((tensor, index) => drawTensor(view, tensor, index));
  view.tensors.replaceChildren(drawPrograms(view), ...tensors);
}

function keepInSight(code, line) {
  const top = line.offsetTop, height = line.offsetHeight;
  const below = top + height > code.scrollTop + code.clientHeight;
  if (top < code.scrollTop || below) code.scrollTop = Math.max(0, top - code.clientHeight / 3);
}

function go(view, step) {
  view.step = Math.max(0, Math.min(view.program.steps.length - 1, step));
  show(view);
}

// Show a program; `at` is an element whose store (or load) is looked for. What was not recorded is
// asked for.
async function open(view, program, at) {
  const key = program.join();
  if (!view.programs.has(key)) {
    view.wanted = { program, at };
    if (view.alive) {
      view.say(`Tracing program ${named(program)} …`);
      view.model.send({ program });
    } else {
      const missing = `Program ${named(program)} is not in the saved trace`;
      view.say(`${missing}: run the cell to step through it.`);
    }
    return;
  }
  view.program = view.programs.get(key);
  let step = 0;
  if (at?.step !== undefined) step = at.step < 0 ? view.program.steps.length + at.step : at.step;
  else if (at?.tensor !== undefined) {
    const { steps } = view.program;
    const isThere = ({ tensor, cells }) =>
      tensor === at.tensor && cells && bit(array(cells), at.cell);
    const writes = (touch) => touch.kind !== "load" && isThere(touch);
    step = steps.findLastIndex(({ touches }) => touches.some(writes));
    if (step < 0) step = steps.findIndex(({ touches }) => touches.some(isThere));
  }
  go(view, step);
}

function drawBar(view) {
  const bar = element("div", "bar");
  const button = (text, label, press) => {
    const created = element("button", "", text);
    created.title = label;
    created.setAttribute("aria-label", label);
    created.onclick = press;
    return created;
  };
  view.slider = element("input");
  Object.assign(view.slider, { type: "range", min: 0, step: 1 });
  view.slider.setAttribute("aria-label", "step");
  view.slider.oninput = () => go(view, Number(view.slider.value));
  view.counter = element("output");
  view.iterationBox = element("span");
  view.iteration = element("span");
  const iterationTo = (by) => {
    const { iterations, iteration } = view.loop;
    const before = iterations[iteration - 1] < view.step ? iterations[iteration - 1] : iterations[iteration - 2];
    const next = by > 0 ? iterations[iteration] : before;
    if (next !== undefined) go(view, next);
  };
  const before = button("◀", "previous iteration of the loop", () => iterationTo(-1));
  const after = button("▶", "next iteration of the loop", () => iterationTo(1));
  view.iterationBox.append(before, " ", view.iteration, " ", after);
  bar.append(
    button("|◀", "first step", () => go(view, 0)),
    button("◀", "step back", () => go(view, view.step - 1)),
    view.slider,
    button("▶", "step", () => go(view, view.step + 1)),
    button("▶|", "last step", () => go(view, Infinity)),
    view.counter, view.iterationBox,
  );
  return bar;
}

function render({ model, el }) {
  const state = model.get("trace");
  const trace = { ...state, tensors: state.tensors.map((tensor) => ({ ...tensor })) };
  const root = element("div", "course-widget course-replay");
  const view = { model, trace, programs: new Map(), tables: new Set(), opened: new Set(), step: 0 };
  const status = element("div", "said");
  status.setAttribute("role", "status");
  view.say = (text) => { status.textContent = text; };
  const failure = element("div", "problem", trace.failure ?? "");
  failure.setAttribute("role", "alert");
  failure.hidden = !trace.failure;
  view.code = element("div", "code");
  view.lines = trace.lines.map(({ row, parts }) => codeLine(parts, row));
  view.code.append(...view.lines);
  view.values = element("div", "values");
  const matrices = trace.tensors.filter((tensor) => !isVector(tensor));
  const rows = matrices.reduce((sum, { cells }) => sum + cells[0], 0);
  view.tensors = element("div", rows > MANY_ROWS ? "tensors many" : "tensors");
  const body = element("div", "body");
  body.append(view.code, view.values, view.tensors);
  root.tabIndex = 0;
  root.setAttribute("aria-label", `${trace.kernel}, step by step`);
  root.addEventListener("keydown", (event) => {
    if (event.target.tagName === "INPUT") {
      event.stopPropagation(); // JupyterLab has uses of its own for Enter
      return;
    }
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    go(view, view.step + by);
    event.preventDefault();
    event.stopPropagation();
  });
  const notes = trace.notes.map((note) => element("div", "note", note));
  root.append(drawBar(view), failure, ...notes, status, body);
  el.append(root);
  const add = async (recorded) => {
    view.programs.set(recorded.program.join(), await unpack(recorded));
  };
  const answer = async (message) => {
    if (message.hello) {
      view.alive = true;
      const { program } = trace.opened;
      if (isPart(view.programs.get(program.join()))) model.send({ program });
      // What was asked for before a session answered.
      if (view.wanted) open(view, view.wanted.program, view.wanted.at);
    } else if (message.problem) {
      view.say(message.problem);
    } else if (message.recorded) {
      await add(message.recorded);
      const key = message.recorded.program.join();
      if (view.wanted?.program.join() === key) {
        view.say("");
        open(view, message.recorded.program, view.wanted.at);
      } else if (view.program?.program.join() === key) {
        open(view, message.recorded.program, trace.opened.at); // all of what was saved in part
      }
      view.wanted = undefined;
    }
  };
  model.on("msg:custom", answer);
  (async () => {
    for (const tensor of trace.tensors) {
      for (const name of ["reader", "writer", "twice", "unwritten"])
        tensor[name] = await numbers(tensor[name]);
    }
    for (const recorded of trace.programs) await add(recorded);
    await open(view, trace.opened.program, trace.opened.at);
    root.dataset.ready = "true";
    model.send({ hello: true });
  })();
  return () => model.off("msg:custom", answer);
}

export default { render };

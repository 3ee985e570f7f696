// Step through the programs of a launch: draws `trace`, which replay_state.py makes, by code.js.

const PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442"];
const LOADED = "#56B4E9", STORED = "#D55E00", ODD_NAN = "#D5007F", ODD_INF = "#000000";
const PAST = [undefined, "rgba(86,180,233,.35)", "rgba(213,94,0,.35)", "rgba(213,94,0,.35)"]; // loaded, stored, both
const UNDEFINED = "rgba(128,128,128,.16)"; // a masked lane, whose value means nothing
const MOST_MAP = 4096; // programs that are drawn as a map
const TABLE_CELLS = 32; // up to so many, numbers are read rather than looked at
const TALLEST = 300; // pixels of a picture, as long as its cells can be seen
const MANY_ROWS = 40; // of cells in all matrices: more do not stand one below the other

const ARRAYS = { u1: Uint8Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };
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

// White to blue for what is above zero, white to orange for what is below.
function shade(value, least, most) {
  if (Number.isNaN(value)) return ODD_NAN;
  if (!Number.isFinite(value)) return ODD_INF;
  const signed = least < 0;
  const top = signed ? Math.max(-least, most) : most - least;
  const part = top > 0 ? (signed ? value : value - least) / top : 0;
  const mix = (color) => Math.round(245 + (color - 245) * Math.min(1, Math.abs(part)));
  return `rgb(${(part < 0 ? [230, 120, 0] : [0, 90, 170]).map(mix)})`;
}

// A numeral for each axis from one number, the last axis fastest.
function unraveled(left, sizes) {
  return sizes.reduceRight((index, size) => {
    index.unshift(left % size);
    left = Math.floor(left / size);
    return index;
  }, []);
}

function isVector({ shape }) {
  return shape.slice(0, -1).every((size) => size === 1);
}

// The first element that a cell stands for, by its name and index.
function elementOf(name, cell, { shape, cells: [, across], patch: [down, wide] }) {
  const row = Math.floor(cell / across), columns = shape.at(-1) ?? 1;
  const first = isVector({ shape }) ? cell * wide : row * down * columns + (cell % across) * wide;
  return `${name}[${unraveled(first, shape).join(", ")}]`;
}

function hatch(context, x, y, size) {
  context.strokeStyle = "rgba(90,90,90,.9)";
  context.beginPath();
  context.moveTo(x, y + size);
  context.lineTo(x + size, y);
  context.stroke();
}

// A dot in the middle of a cell, a part of its size.
function dot(context, x, y, size, part, color) {
  const wide = Math.max(1, size * part);
  context.fillStyle = color;
  context.fillRect(x + (size - wide) / 2, y + (size - wide) / 2, wide, wide);
}

/**
 * A canvas of cells: `color` gives each cell's, `over` draws on it. `choose(cell)` hears clicks,
 * `titleOf(cell)` says what is there.
 * @param {number[]} shape
 * @param {number} wide
 * @param {number} count how many cells there are
 * @param {Record<string, any>} drawn
 */
function grid([down, across], wide, count, { label, color, over, titleOf, choose }) {
  const size = Math.max(3, Math.min(14, Math.floor(wide / across), Math.max(6, Math.floor(TALLEST / down))));
  const sharp = Math.min(2, window.devicePixelRatio || 1);
  const canvas = element("canvas", "", [], {
    role: "img", "aria-label": label, width: across * size * sharp, height: down * size * sharp,
  });
  canvas.style.width = `${across * size}px`;
  const context = canvas.getContext("2d");
  context.scale(sharp, sharp);
  const drawn = size > 5 ? size - 1 : size;
  for (let cell = 0; cell < count; cell++) {
    const x = (cell % across) * size, y = Math.floor(cell / across) * size;
    context.fillStyle = color(cell);
    context.fillRect(x, y, drawn, drawn);
    over?.(context, cell, x, y, drawn);
  }
  // The last line of a vector may not be full.
  const at = (use) => ({ offsetX, offsetY }) => {
    const column = Math.min(across - 1, Math.floor(offsetX / size));
    const cell = Math.floor(offsetY / size) * across + column;
    canvas.title = "";
    if (cell < count) use(cell);
  };
  canvas.onmousemove = at((cell) => { canvas.title = titleOf(cell); });
  if (choose) {
    canvas.style.cursor = "pointer";
    canvas.onclick = at(choose);
  }
  return canvas;
}

// A button that puts a name among others, or takes it away.
function toggle(view, names, name, text) {
  const onclick = () => {
    if (!names.delete(name)) names.add(name);
    show(view);
  };
  return element("button", "turn", text, { onclick });
}

function valueHead(name, value) {
  const { text, dtype = "", of, shape = [], least, most, nan, inf, masked, undefined: lacking } = value;
  const range = least === most ? `all ${number(least)}` : `${number(least)} … ${number(most)}`;
  const into = of ? ` into ${of}` : "";
  const block = `  ${dtype} [${shape.join(", ")}]${into && `${into}, elements`}  ${least === undefined ? "" : range}`;
  const single = of ? ` → ${of}[${text}]` : ` = ${text}`; // a pointer shows what it points to
  const parts = text === undefined ? [["dim", block]] : [["", single], ["dim", dtype && `  ${dtype}`]];
  if (nan) parts.push(["odd", `, ${many(nan)} NaN`]);
  if (inf) parts.push(["odd", `, ${many(inf)} infinite`]);
  if (masked) parts.push(["dim", `, ${many(masked)} lanes masked (hatched)`]);
  if (lacking) parts.push(["odd", `, ${lacking > 0 ? many(lacking) : "some"} undefined (hatched)`]);
  return element("div", "head", [element("b", "", name), ...parts.map((part) => element("span", ...part))]);
}

function drawValue(view, name, value) {
  const head = valueHead(name, value);
  if (!value.data) return element("div", "value", head);
  const data = array(value.data), mask = value.mask && array(value.mask);
  const isBool = value.dtype === "int1";
  const isOut = (cell) => mask && !mask[cell];
  const without = !value.undefined ? " (masked)" : value.masked ? " (masked or undefined)" : " (undefined)";
  const titleOf = (cell) => {
    const shown = isBool ? Boolean(data[cell]) : number(data[cell]);
    return `${elementOf(name, cell, value)} = ${shown}${isOut(cell) ? without : ""}`;
  };
  const box = element("div", "value", head);
  const patched = value.patch[0] * value.patch[1];
  if (patched > 1) {
    const shown = "and shows the first: NaN and infinities come before others";
    box.append(element("div", "dim", `a cell stands for ${patched} elements, ${shown}`));
  }
  const [down, across] = value.cells;
  const isTable = view.tables.has(name) !== data.length <= TABLE_CELLS;
  head.append(toggle(view, view.tables, name, isTable ? "as a picture" : "as numbers"));
  if (isTable) {
    const cells = [...data].map((shown, cell) =>
      element("td", isOut(cell) ? "masked" : "", isBool ? String(shown) : number(shown), { title: titleOf(cell) }));
    const rowOf = (_, row) => element("tr", "", cells.slice(row * across, (row + 1) * across));
    box.append(element("table", "", Array.from({ length: down }, rowOf), { "aria-label": name }));
  } else {
    const least = isBool ? 0 : value.least ?? 0, most = isBool ? 1 : value.most ?? 0;
    box.append(grid(value.cells, 256, data.length, {
      label: `${name}, ${data.length} cells`,
      titleOf,
      color: (cell) => (isOut(cell) ? UNDEFINED : shade(data[cell], least, most)),
      over: (context, cell, ...place) => { if (isOut(cell)) hatch(context, ...place); },
    }));
  }
  return box;
}

function bit(bytes, cell) {
  return (bytes[cell >> 3] >> (cell & 7)) & 1;
}

function drawTensor(view, tensor, index) {
  const { program, step } = view;
  const touches = program.steps.slice(0, step + 1).map(({ touches }) =>
    touches.filter((touch) => touch.tensor === index && touch.cells));
  const now = touches.pop() ?? [];
  const [down, across] = tensor.cells, columns = tensor.shape.at(-1) ?? 1;
  const count = isVector(tensor) ? Math.ceil(columns / tensor.patch[1]) : down * across;
  const past = new Uint8Array(count);
  for (const { kind, cells } of touches.flat()) {
    const bytes = array(cells), mark = kind === "load" ? 1 : 2;
    for (let cell = 0; cell < count; cell++) past[cell] |= bit(bytes, cell) * mark;
  }
  const twice = new Set(tensor.twice), unwritten = new Set(tensor.unwritten);
  const color = (cell) => {
    const touch = now.find(({ cells }) => bit(array(cells), cell));
    if (touch) return touch.kind === "load" ? LOADED : STORED;
    if (past[cell]) return PAST[past[cell]];
    const written = tensor.writer[cell];
    return written ? `${PALETTE[placeOf(view, ranAs(view, written)) % PALETTE.length]}33` : UNDEFINED;
  };
  const titleOf = (cell) => {
    const [written, read] = [tensor.writer[cell], tensor.reader[cell]];
    const parts = [elementOf(tensor.name, cell, tensor)];
    if (written) parts.push(`written by program ${named(ranAs(view, written))}`);
    else parts.push(read ? `read by program ${named(ranAs(view, read))}` : "touched by no program");
    if (twice.has(cell)) parts.push("written by several programs");
    if (unwritten.has(cell)) parts.push("read, and written by nobody");
    return parts.join(": ");
  };
  const canvas = grid(tensor.cells, 300, count, {
    label: `${tensor.name}: what program ${named(program.program)} touches`,
    titleOf,
    color,
    over: (context, cell, ...place) => {
      if (twice.has(cell)) dot(context, ...place, 0.5, "#CC0000");
      else if (unwritten.has(cell)) dot(context, ...place, 0.5, "#CC79A7");
    },
    choose: (cell) => {
      const ordinal = tensor.writer[cell] || tensor.reader[cell];
      view.say(titleOf(cell));
      if (ordinal) open(view, ranAs(view, ordinal), { tensor: index, cell });
    },
  });
  const marks = [];
  if (twice.size) marks.push("red: written by several programs");
  if (unwritten.size) marks.push("pink: read, and written by nobody");
  const head = `${tensor.name}  ${tensor.dtype} [${tensor.shape.join(", ")}]`;
  return element("div", "tensor", [element("div", "head", head), canvas, element("div", "odd", marks.join("; "))]);
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
  const [x, y, z] = trace.grid;
  const total = x * y * z;
  const counted = `${many(total)} program${total === 1 ? "" : "s"}`;
  const box = element("div", "programs", element("div", "head", `${counted}, grid (${trace.grid.join(", ")})`));
  if (total === 1) return box;
  const inputs = trace.grid.map((size, axis) => element("input", "", [], {
    type: "number", min: 0, max: size - 1, value: program.program[axis], "aria-label": `program along axis ${axis}`,
    onchange: () => open(view, inputs.map(({ max, value }) => Math.min(max, Math.max(0, Number(value))))),
  }));
  box.append(element("div", "", ["program ", ...inputs.filter((_, axis) => trace.grid[axis] > 1)]));
  if (total > MOST_MAP) return box;
  const across = y * z > 1 && x <= 64 ? x : Math.min(64, Math.ceil(2 * Math.sqrt(total)));
  const here = placeOf(view, program.program);
  const saved = new Set([...view.programs.values()].map((other) => placeOf(view, other.program)));
  box.append(grid([Math.ceil(total / across), across], 300, total, {
    label: "the grid's programs",
    titleOf: (cell) => `program ${named(programAt(trace, cell))}`,
    color: (cell) => (cell === here ? "#000" : PALETTE[cell % PALETTE.length]),
    over: (context, cell, left, top, size) => {
      if (saved.has(cell) && size > 3) dot(context, left, top, size, 2 / size, "#fff");
    },
    choose: (cell) => open(view, programAt(trace, cell)),
  }));
  return box;
}

// The innermost loop around a step: where its iterations begin, steps at its header in one run of the loop, and
// in which of them the step is.
function loopAround(view, step) {
  const { trace, program: { steps } } = view;
  const { row, depth } = steps[step];
  const around = trace.loops.filter(([first, last]) => first <= row && row <= last);
  if (!around.length) return undefined;
  const length = ([first, last]) => last - first;
  const [first, last] = around.reduce((one, other) => (length(other) < length(one) ? other : one));
  const atDepth = (other) => other.depth === depth && first <= other.row && other.row <= last;
  const isIn = (other) => other && (other.depth > depth || atDepth(other));
  let begin = step, end = step;
  while (isIn(steps[begin - 1])) begin--;
  while (isIn(steps[end + 1])) end++;
  const iterations = [...steps.keys()].slice(begin, end + 1)
    .filter((at) => steps[at].depth === depth && steps[at].row === first);
  return { iterations, iteration: iterations.filter((at) => at <= step).length };
}

// Whether a notebook keeps only some of the steps.
function isPart(program) {
  return program.steps.length < program.ran;
}

function showBar(view) {
  const { program, step } = view;
  const place = `step ${step + 1} of ${program.steps.length}`;
  view.slider.max = program.steps.length - 1;
  view.slider.value = step;
  view.slider.setAttribute("aria-valuetext", place);
  let more = program.cut ? ", the first of more" : "";
  if (isPart(program)) more = `, of ${program.ran} that ran: the others are not saved`;
  view.counter.textContent = place + more;
  view.loop = program.steps[step] && loopAround(view, step);
  view.iterationBox.hidden = !view.loop;
  if (view.loop) view.iteration.textContent = view.loop.iteration ? `iteration ${view.loop.iteration} of the loop` : "";
}

// What was set before: a value is drawn at a click.
function drawOlder(view, name, value) {
  const box = view.opened.has(name) ? drawValue(view, name, value) : valueHead(name, value);
  if (value.data) {
    const isOpen = view.opened.has(name);
    (isOpen ? box.firstChild : box).append(toggle(view, view.opened, name, isOpen ? "hide" : "show"));
  }
  return box;
}

function show(view) {
  const { program, trace } = view;
  const { row, touches = [], sets = {}, error } = program.steps[view.step] ?? {};
  const why = error ? "stops here" : touches.some(({ outside }) => outside) ? "outside the tensor" : "";
  showBar(view);
  view.lines.forEach((line, at) => {
    line.classList.toggle("on", at === row);
    line.classList.toggle("wrong", at === row && Boolean(why));
    line.dataset.why = why;
  });
  if (view.lines[row]) keepInSight(view.code, view.lines[row]);
  const known = Object.entries(program.known[view.step] ?? {});
  const fresh = Object.keys(sets), older = known.filter(([name]) => !fresh.includes(name));
  const done = touches.flatMap(({ outside, text, value }) => [
    element("div", outside ? "odd" : "", text), ...(value ? [drawValue(view, "stored", value)] : []),
  ]);
  view.values.replaceChildren(
    element("div", "head", `Program ${named(program.program)}: after line ${trace.lines[row]?.row ?? ""}`),
    element("div", "touched", [...done, element("div", "odd", error)]),
    ...fresh.map((name) => drawValue(view, name, sets[name])),
    ...(older.length ? [element("div", "head", "set before")] : []),
    element("div", "older", older.map(([name, value]) => drawOlder(view, name, value))),
  );
  const tensors = trace.tensors.map((tensor, index) => drawTensor(view, tensor, index));
  view.tensors.replaceChildren(drawPrograms(view), ...tensors);
}

function keepInSight(code, line) {
  const top = line.offsetTop, below = top + line.offsetHeight > code.scrollTop + code.clientHeight;
  if (top < code.scrollTop || below) code.scrollTop = Math.max(0, top - code.clientHeight / 3);
}

function go(view, step) {
  view.step = Math.max(0, Math.min(view.program.steps.length - 1, step));
  show(view);
}

/** @typedef {{ step?: number, tensor?: number, cell?: number }} Place */

/**
 * The step at which a program stores an element, or loads it; or a step by its number, from the end if below 0.
 * @param {any} program
 * @param {Place} place
 */
function stepOf({ steps }, { step = 0, tensor, cell }) {
  if (tensor === undefined) return step < 0 ? steps.length + step : step;
  const isThere = (touch) => touch.tensor === tensor && touch.cells && bit(array(touch.cells), cell);
  const stores = (touch) => touch.kind !== "load" && isThere(touch);
  const written = steps.findLastIndex(({ touches }) => touches.some(stores));
  return written < 0 ? steps.findIndex(({ touches }) => touches.some(isThere)) : written;
}

/**
 * Show a program at a place in it. What was not recorded is asked for.
 * @param {any} view
 * @param {number[]} program
 * @param {Place} at
 */
function open(view, program, at = {}) {
  const key = program.join();
  if (view.programs.has(key)) {
    view.program = view.programs.get(key);
    go(view, stepOf(view.program, at));
    return;
  }
  view.wanted = { program, at };
  if (view.alive) {
    view.say(`Tracing program ${named(program)} …`);
    view.model.send({ program });
  } else {
    view.say(`Program ${named(program)} is not in the saved trace: run the cell to step through it.`);
  }
}

function drawBar(view) {
  const button = (text, label, onclick) => element("button", "", text, { title: label, "aria-label": label, onclick });
  view.slider = element("input", "", [], { type: "range", min: 0, step: 1, "aria-label": "step" });
  view.slider.oninput = () => go(view, Number(view.slider.value));
  view.counter = element("output");
  view.iteration = element("span");
  const iterationTo = (by) => {
    const { iterations, iteration } = view.loop;
    const begin = iterations[iteration - 1];
    const before = begin < view.step ? begin : iterations[iteration - 2];
    go(view, (by > 0 ? iterations[iteration] : before) ?? view.step);
  };
  view.iterationBox = element("span", "", [
    button("◀", "previous iteration of the loop", () => iterationTo(-1)), " ", view.iteration, " ",
    button("▶", "next iteration of the loop", () => iterationTo(1)),
  ]);
  return element("div", "bar", [
    button("|◀", "first step", () => go(view, 0)),
    button("◀", "step back", () => go(view, view.step - 1)),
    view.slider,
    button("▶", "step", () => go(view, view.step + 1)),
    button("▶|", "last step", () => go(view, Infinity)),
    view.counter, view.iterationBox,
  ]);
}

// What a session answers: that it is there, another program, or why there is none.
async function answer(view, message) {
  const { trace, model } = view;
  if (message.hello) {
    view.alive = true;
    const { program } = trace.opened;
    if (isPart(view.programs.get(program.join()))) model.send({ program });
    // What was asked for before a session answered.
    if (view.wanted) open(view, view.wanted.program, view.wanted.at);
  } else if (message.problem) {
    view.say(message.problem);
  } else if (message.recorded) {
    const key = await add(view, message.recorded);
    if (view.wanted?.program.join() === key) {
      view.say("");
      open(view, message.recorded.program, view.wanted.at);
    } else if (view.program?.program.join() === key) {
      open(view, message.recorded.program, trace.opened.at); // all of what was saved in part
    }
    view.wanted = undefined;
  }
}

async function add(view, recorded) {
  const key = recorded.program.join();
  view.programs.set(key, await unpack(recorded));
  return key;
}

function render({ model, el }) {
  const state = model.get("trace");
  const trace = { ...state, tensors: state.tensors.map((tensor) => ({ ...tensor })) };
  const view = { model, trace, programs: new Map(), tables: new Set(), opened: new Set(), step: 0 };
  const status = element("div", "said", [], { role: "status" });
  view.say = (text) => { status.textContent = text; };
  const failure = element("div", "problem", trace.failure ?? "", { role: "alert" });
  failure.hidden = !trace.failure;
  view.lines = trace.lines.map(({ row, parts }) => codeLine(parts, row));
  view.code = element("div", "code", view.lines);
  view.values = element("div", "values");
  const matrices = trace.tensors.filter((tensor) => !isVector(tensor));
  const rows = matrices.reduce((sum, { cells }) => sum + cells[0], 0);
  view.tensors = element("div", rows > MANY_ROWS ? "tensors many" : "tensors");
  const notes = trace.notes.map((note) => element("div", "note", note));
  const body = element("div", "body", [view.code, view.values, view.tensors]);
  const root = element("div", "course-widget course-replay", [drawBar(view), failure, ...notes, status, body], {
    tabindex: 0, "aria-label": `${trace.kernel}, step by step`,
  });
  root.addEventListener("keydown", (event) => {
    const isInput = event.target.tagName === "INPUT"; // JupyterLab has uses of its own for Enter
    const by = isInput ? undefined : { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by) {
      go(view, view.step + by);
      event.preventDefault();
    }
    if (by || isInput) event.stopPropagation();
  });
  el.append(root);
  const answered = (message) => answer(view, message);
  model.on("msg:custom", answered);
  (async () => {
    for (const tensor of trace.tensors) {
      for (const name of ["reader", "writer", "twice", "unwritten"])
        tensor[name] = new Int32Array(await inflate(tensor[name]));
    }
    for (const recorded of trace.programs) await add(view, recorded);
    open(view, trace.opened.program, trace.opened.at);
    root.dataset.ready = "true";
    model.send({ hello: true });
  })();
  return () => model.off("msg:custom", answered);
}

export default { render };

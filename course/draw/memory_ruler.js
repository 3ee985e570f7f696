// Memory under the threads of a warp, with sliders: computes and draws what memory_ruler.py does.

const SECTOR = 32, THREADS = 32, WIDEST = 16, IN_A_ROW = 4, MOST_SLOTS = 16 * IN_A_ROW;
const LEFT = 94, BYTE = 6.25, CELL = 18, ROW = 23, TOP = 36, ACROSS = 900;
const DTYPES = { 1: "int8", 2: "float16", 4: "float32", 8: "float64" };
const SVG = Object.assign(document.createElement("template"), { innerHTML: "<svg/>" }).content.firstElementChild?.namespaceURI ?? "";
const LEGEND = "Bold: a sector of 32 bytes. Gray: moved for nothing. Blank: not touched.";
const STRIDES = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 1024, 4096];

function shape(name, attributes, held = []) {
  const created = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, String(value));
  created.append(...[held].flat());
  return created;
}

function box(x, y, width, attributes) {
  return shape("rect", { x, y, width, height: CELL, ...attributes });
}

function label(x, y, text, attributes = {}) {
  return shape("text", { x, y: y + CELL / 2, ...attributes }, text);
}

// What is asked for: the elements with a thread each, the sectors touched, and the sentence.
function computed({ stride, per_thread, itemsize, start, threads }) {
  const first = (thread) => start + thread * stride * per_thread;
  const sectorOf = (element) => Math.floor((element * itemsize) / SECTOR);
  const owners = new Map(), loads = [];
  for (let k = 0; k < per_thread; k++) {
    const load = new Set();
    for (let thread = threads - 1; thread >= 0; thread--) {
      owners.set(first(thread) + k, thread);
      load.add(sectorOf(first(thread) + k));
    }
    loads.push(load.size);
  }
  const touched = new Set([...owners.keys()].map(sectorOf).sort((a, b) => a - b));
  const { size } = touched, wanted = owners.size * itemsize, wide = per_thread * itemsize;
  const on = threads === THREADS ? "touch" : "that are on touch";
  const who = threads === 1 ? "The 1 thread that is on touches" : `The ${threads} threads ${on}`;
  const sectors = size === 1 ? "1 sector" : `${size} sectors`;
  let told = `${who} ${sectors}: ${many(size * SECTOR)} bytes are moved, and ${many(wanted)} are wanted.`;
  if (per_thread > 1 && start % per_thread === 0) told += ` Each thread takes its ${wide} bytes in one load.`;
  else if (per_thread > 1) {
    const together = loads.reduce((sum, load) => sum + load);
    told += ` Thread 0 begins at byte ${many(start * itemsize)}, which is no multiple of ${wide}, ` +
      `so the load cannot be wide: ${per_thread} loads touch ${together} sectors.`;
  }
  return { owners, touched, told };
}

/**
 * The places of the ruler, first sector and how many: one, or those that are left out.
 * @param {Set<number>} touched
 * @returns {[number, number][]}
 */
function slotsOf(touched) {
  /** @type {[number, number][]} */
  const slots = [];
  let begin = 0;
  for (const sector of touched) {
    const gap = sector - begin;
    if (gap > (slots.length ? 1 : IN_A_ROW - 1)) slots.push([begin, gap]);
    else for (; begin < sector; begin++) slots.push([begin, 1]);
    slots.push([sector, 1]);
    begin = sector + 1;
  }
  const end = begin;
  while (slots.length % IN_A_ROW) slots.push([begin++, 1]);
  if (slots.length <= MOST_SLOTS) return slots;
  const [rest] = slots[MOST_SLOTS - 1];
  return [...slots.slice(0, MOST_SLOTS - 1), [rest, end - rest]];
}

function drawSlot([sector, count], x, y, { owners, touched }, { itemsize, stride, colors }) {
  const middle = x + (SECTOR * BYTE) / 2, width = itemsize * BYTE, elements = SECTOR / itemsize;
  if (count > 1) return [label(middle, y, `… ${many(count * SECTOR)} bytes …`)];
  const drawn = [];
  for (let place = 0; place < elements; place++) {
    const owner = owners.get(sector * elements + place), left = x + place * width;
    const kind = touched.has(sector) ? "cell waste" : "cell";
    const [color, ink] = colors[owner] ?? [];
    drawn.push(box(left, y, width, { class: kind, ...(color && { style: `fill: ${color}` }) }));
    if (color && itemsize > 1) {
      const text = stride ? String(owner) : "all";
      drawn.push(label(left + width / 2, y, text, { style: `fill: ${ink}; font-size: ${itemsize > 2 ? 10 : 9}px` }));
    }
  }
  return drawn;
}

function drawing(settings, found) {
  const slots = slotsOf(found.touched), { colors, threads } = settings;
  const drawn = [label(LEFT - 6, 1, "thread", { class: "side" })];
  for (let thread = 0; thread < THREADS; thread++) {
    const x = LEFT + thread * 4 * BYTE, [color, ink] = colors[thread], on = thread < threads;
    drawn.push(box(x, 1, 4 * BYTE, on ? { class: "cell waste", style: `fill: ${color}` } : { class: "cell" }));
    drawn.push(label(x + 2 * BYTE, 1, String(thread), on ? { style: `fill: ${ink}` } : { class: "off" }));
  }
  const halos = [], borders = []; // above all cells, and every halo below every border
  slots.forEach((slot, place) => {
    const x = LEFT + (place % IN_A_ROW) * SECTOR * BYTE, y = TOP + Math.floor(place / IN_A_ROW) * ROW;
    if (x === LEFT) drawn.push(label(LEFT - 6, y, `byte ${many(slot[0] * SECTOR)}`, { class: "side" }));
    drawn.push(...drawSlot(slot, x, y, found, settings));
    if (slot[1] > 1) return;
    halos.push(box(x, y, SECTOR * BYTE, { class: "halo" }));
    borders.push(box(x, y, SECTOR * BYTE, { class: "sector" }));
  });
  const end = TOP + (ROW * slots.length) / IN_A_ROW;
  drawn.push(...halos, ...borders, label(LEFT, end, LEGEND, { class: "legend" }));
  const words = `Memory in sectors of ${SECTOR} bytes under the threads of a warp. ${found.told}`;
  return shape("svg", { viewBox: `0 0 ${ACROSS} ${end + ROW}`, role: "img", "aria-label": words }, drawn);
}

function render({ model, el }) {
  const settings = { ...model.get("settings") };
  const paper = element("div", "paper"), told = element("p", "told", [], { role: "status" });
  const changes = [];
  const show = () => {
    for (const change of changes) change();
    const found = computed(settings);
    paper.replaceChildren(drawing(settings, found));
    told.textContent = found.told;
  };
  // A slider over some values of a setting.
  const slider = (name, text, values) => {
    const oninput = () => {
      settings[name] = values[Number(input.value)];
      show();
    };
    const input = element("input", "", [], { type: "range", min: 0, max: values.length - 1, oninput });
    const output = element("span", "value");
    input.value = String(values.indexOf(settings[name]));
    changes.push(() => {
      output.textContent = many(settings[name]);
      input.setAttribute("aria-valuetext", String(settings[name]));
    });
    return element("label", "", [text, input, output]);
  };
  // A list of a setting's values, of which some may not be allowed just now.
  const choice = (name, text, values, allowed) => {
    const onchange = () => {
      settings[name] = Number(select.value);
      show();
    };
    const options = Object.entries(values).map(([value, said]) => element("option", "", said, { value }));
    const select = element("select", "", options, { onchange });
    changes.push(() => {
      for (const option of options) option.disabled = !allowed(Number(option.value));
      select.value = String(settings[name]);
    });
    return element("label", "", [text, select]);
  };
  const upTo = (least, most) => Array.from({ length: most - least + 1 }, (_, at) => least + at);
  const strides = [...new Set([...STRIDES, ...settings.strides])].sort((a, b) => a - b);
  const starts = [...new Set([...upTo(0, 31), settings.start])];
  const bar = element("div", "bar", [
    slider("stride", "stride", strides),
    slider("start", "start", starts),
    slider("threads", "threads on", upTo(1, THREADS)),
    choice("itemsize", "dtype", DTYPES, (size) => size * settings.per_thread <= WIDEST),
    choice("per_thread", "elements per thread", { 1: "1", 2: "2", 4: "4", 8: "8", 16: "16" },
      (count) => count * settings.itemsize <= WIDEST),
  ]);
  bar.addEventListener("keydown", (event) => event.stopPropagation()); // JupyterLab has uses of its own for keys
  el.append(element("div", "course-widget course-ruler", [bar, paper, told], { "aria-label": "a ruler of memory", role: "group" }));
  show();
}

export default { render };

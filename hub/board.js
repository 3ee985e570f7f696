// Draws the room again every few seconds. Everything is set as text: what a seat has written is
// never markup.
const EVERY_MS = 3000;
/** @type {(selector: string) => any} */
const part = (selector) => document.querySelector(selector);
const headers = { "X-XSRFToken": part("meta[name=token]").content };

function make(tag, text = "", className = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

function fill(selector, elements, nothing = "") {
  part(selector).replaceChildren(...(elements.length || !nothing ? elements : [make("li", nothing)]));
}

function bar(exercise, seats) {
  const cell = make("td", "", "bar"), whole = make("div");
  for (const kind of ["right", "trying"]) {
    const piece = make("span", "", kind);
    piece.style.width = `${(100 * exercise[kind]) / seats}%`;
    whole.append(piece);
  }
  cell.append(whole);
  return cell;
}

function rowsOf(room, seats) {
  const rows = [];
  let lesson = "";
  for (const exercise of room.exercises) {
    if (exercise.number.slice(0, 2) !== lesson) {
      lesson = exercise.number.slice(0, 2);
      const row = make("tr", "", "lesson"), head = make("th", `Lesson ${lesson}`);
      head.colSpan = 5;
      row.append(head);
      rows.push(row);
    }
    const row = make("tr", "", exercise.core ? "" : "stretch");
    row.append(make("td", `${exercise.number} ${exercise.title}`));
    for (const kind of ["right", "trying", "hints"]) row.append(make("td", exercise[kind] || "", "number"));
    row.append(bar(exercise, seats));
    rows.push(row);
  }
  return rows;
}

function inOrder(counts) {
  return Object.entries(counts).map(([name, count]) => `${name} ×${count}`).join(", ");
}

function gpuLines(data) {
  const now = Date.now() / 1000;
  const lines = data.queue.map((ticket, place) => {
    const seconds = Math.max(0, Math.round(now - ticket.since));
    const does = place ? "waits to measure" : "measures";
    return make("li", `${ticket.who} ${does} ${ticket.what}, for ${seconds} s`);
  });
  for (const use of data.gpu) {
    const line = make("li", `${use.seat} holds ${use.mib} MiB (process ${use.pid})`);
    const button = make("button", "end it");
    button.addEventListener("click", () => end(use));
    line.append(button);
    lines.push(line);
  }
  return lines;
}

async function end(use) {
  await fetch("end", { method: "POST", headers, body: new URLSearchParams({ seat: use.seat, pid: use.pid }) });
  await draw();
}

async function draw() {
  let data;
  try {
    const answer = await fetch("data", { headers });
    if (!answer.ok) throw new Error(String(answer.status));
    data = await answer.json();
  } catch {
    part("#sum").textContent = "The hub does not answer; this page tries again.";
    return;
  }
  const { room, serving } = data, seats = Object.keys(room.right);
  const solved = Object.values(room.right).reduce((sum, count) => sum + count, 0);
  const mean = seats.length ? (solved / seats.length).toFixed(1) : "0";
  part("#sum").textContent =
    `${serving.length} of ${seats.length} seats are here; ${mean} of ${room.core} core exercises right on average.`;
  const stuck = room.exercises.filter((exercise) => exercise.stuck.length);
  fill("#stuck ul", stuck.map((exercise) =>
    make("li", `${exercise.number} ${exercise.title}: ${exercise.stuck.join(", ")} (${inOrder(exercise.verdicts)})`)),
    "Nobody, as far as the checks tell.");
  const mistaken = room.exercises.filter((exercise) => Object.keys(exercise.mistakes).length);
  fill("#mistakes ul", mistaken.map((exercise) =>
    make("li", `${exercise.number}: ${inOrder(exercise.mistakes)}`)), "None yet.");
  fill("#gpu ul", gpuLines(data), "Nobody measures.");
  fill("#exercises", rowsOf(room, seats.length));
  fill("#seats", seats.map((seat) => {
    const short = data.short_of_memory[seat] ? `, out of memory ×${data.short_of_memory[seat]}` : "";
    const damaged = room.unreadable.includes(seat) ? ", progress unreadable" : "";
    return make("li", `${seat}: ${room.right[seat]}${short}${damaged}`, serving.includes(seat) ? "" : "away");
  }));
}

draw();
setInterval(draw, EVERY_MS);

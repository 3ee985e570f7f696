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

function rowsOf(exercises, seats) {
  const rows = [];
  let lesson = "";
  for (const exercise of exercises) {
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

// A line with a button that has the board do something, after a question where there is one.
function withButton(text, label, action, fields, question = "") {
  const line = make("li", text), button = make("button", label);
  button.addEventListener("click", async () => {
    if (question && !confirm(question)) return;
    const answer = await fetch(action, { method: "POST", headers, body: new URLSearchParams(fields) });
    const said = answer.ok ? await answer.json() : { says: `That failed: ${answer.status}.` };
    if (said.says) alert(said.says);
    await draw();
  });
  line.append(button);
  return line;
}

function gpuLines(data) {
  const now = Date.now() / 1000;
  const lines = data.queue.map((ticket, place) => {
    const seconds = Math.max(0, Math.round(now - ticket.since));
    const does = place ? "waits to measure" : "measures";
    const text = `${ticket.who} ${does} ${ticket.what}, for ${seconds} s`;
    return withButton(text, "take its turn away", "turn", { ticket: ticket.path });
  });
  for (const use of data.gpu) {
    const text = `${use.seat} holds ${use.mib} MiB (process ${use.pid})`;
    lines.push(withButton(text, "end it", "end", { seat: use.seat, pid: use.pid }));
  }
  return lines;
}

// Right answers in the room, from the first of the day until now, as one rising line of steps.
function drawChart(times) {
  const chart = part("#chart"), seconds = times.map((each) => Date.parse(each) / 1000).sort((a, b) => a - b);
  const now = Date.now() / 1000, first = Math.max(seconds[0] ?? now, now - 10 * 3600);
  const today = seconds.filter((each) => each >= first), span = Math.max(60, now - first);
  const x = (each) => 20 + (560 * (each - first)) / span, y = (count) => 75 - (60 * count) / Math.max(1, today.length);
  const path = today.map((each, index) => `H${x(each).toFixed(1)}V${y(index + 1).toFixed(1)}`).join("");
  const name = (kind) => document.createElementNS("http://www.w3.org/2000/svg", kind);
  const line = name("path"), label = name("text");
  line.setAttribute("d", `M20 75${path}H580`);
  label.setAttribute("x", "20");
  label.setAttribute("y", "88");
  label.textContent = `${today.length} right answers in ${Math.round(span / 60)} minutes`;
  chart.replaceChildren(line, label);
}

function stuckLine(exercise, stuck) {
  const tries = stuck.tries === 1 ? "1 try" : `${stuck.tries} tries`;
  return make("li", `${stuck.seat}: ${exercise.number} ${exercise.title}, ${tries} in ${stuck.minutes} minutes, last ${stuck.verdict}`);
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
    `${serving.length} of ${seats.length} learners are here; ${mean} of ${room.core} core exercises of the plan right on average.`;
  drawChart(room.times);
  const stuck = room.exercises.flatMap((exercise) => exercise.stuck.map((each) => ({ exercise, each })));
  stuck.sort((one, other) => other.each.minutes - one.each.minutes);
  fill("#stuck ul", stuck.map(({ exercise, each }) => stuckLine(exercise, each)), "Nobody, as far as the checks tell.");
  const mistaken = room.exercises.filter((exercise) => Object.keys(exercise.mistakes).length);
  fill("#mistakes ul", mistaken.map((exercise) =>
    make("li", `${exercise.number}: ${inOrder(exercise.mistakes)}`)), "None yet (×2: two learners have made it).");
  fill("#gpu ul", gpuLines(data), "Nobody measures.");
  const inPlan = (exercise) => !data.plan.length || data.plan.includes(exercise.number.slice(0, 2));
  fill("#exercises", rowsOf(room.exercises.filter(inPlan), seats.length));
  fill("#others", rowsOf(room.exercises.filter((exercise) => !inPlan(exercise)), seats.length));
  fill("#seats", seats.map((seat) => {
    const short = data.short_of_memory[seat] ? `, out of memory ×${data.short_of_memory[seat]}` : "";
    const damaged = room.unreadable.includes(seat) ? ", progress unreadable" : "";
    const here = serving.includes(seat);
    const line = here
      ? withButton(`${seat}: ${room.right[seat]}${short}${damaged}`, "restart", "restart", { seat },
        `End ${seat}'s server? What is saved stays; its learner starts it again.`)
      : make("li", `${seat}: ${room.right[seat]}${damaged}`, "away");
    line.append(withButton("", "new code", "unlock", { seat }, `Give ${seat} a new code? The old one no longer works.`).lastChild);
    return line;
  }));
}

draw();
setInterval(draw, EVERY_MS);

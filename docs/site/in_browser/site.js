// Cells that run here: each can be edited, and gets buttons. Nothing is loaded before Run is pressed.
(() => {
  const SERVE = "A page that was opened as a file may not start Python. In the folder of this site run" +
    " python3 -m http.server and open http://localhost:8000.";
  const TOO_OLD = "This browser has no WebAssembly, which runs Python in a page. The page reads as before.";
  const FIRST = "This cell runs here, in your browser: change it and press Run. The first time this loads" +
    " 10 MB, which takes about ten seconds. Nothing is installed and nothing is sent anywhere. It is" +
    " Triton's interpreter: it shows whether a kernel is right, and not how fast it is.";
  const LOADING = "Loading Python: 10 MB the first time";
  const script = /** @type {HTMLScriptElement} */ (document.currentScript);

  /**
   * @typedef {{text: string, html: string, error: string}} Shown
   * @typedef {{stage?: string, ready?: boolean, failed?: string, cell?: string, shown?: Shown, ms?: number}} Told
   */

  class Cell {
    /** @param {HTMLElement} root @param {number} place */
    constructor(root, place) {
      this.root = root;
      this.name = String(place + 1);
      this.code = /** @type {HTMLElement} */ (root.querySelector(".cell_input pre"));
      this.original = this.source;
      this.recorded = [.../** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll(":scope > :not(.cell_input)"))];
      /** @type {string | null} */
      this.ran = null; // the source with which it ran in this worker
      this.bar = document.createElement("div");
      this.bar.className = "runs-here";
      this.run = this.button(this.original.startsWith("check(") ? "Check" : "Run", () => runUpTo(this));
      this.stop = this.button("Stop", () => stop("Stopped. The next Run starts anew and runs the cells above first."));
      this.reset = this.button("Undo changes", () => this.restore());
      this.state = document.createElement("span");
      this.state.setAttribute("role", "status");
      this.output = document.createElement("div");
      this.output.className = "cell_output runs-here-output";
      this.bar.append(this.run, this.stop, this.reset, this.state);
      this.code.closest(".cell_input")?.after(this.bar, this.output);
      this.stop.hidden = this.reset.hidden = this.output.hidden = true;
      this.edit();
    }

    get source() {
      return this.code.innerText.replace(/\n$/, "");
    }

    /** @param {string} text @param {() => void} pressed */
    button(text, pressed) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.addEventListener("click", pressed);
      return button;
    }

    edit() {
      this.code.contentEditable = "true";
      try {
        this.code.contentEditable = "plaintext-only";
      } catch { /* an older browser: it pastes with styles, of which only the text is read */ }
      this.code.spellcheck = false;
      for (const [name, value] of Object.entries({ role: "textbox", "aria-multiline": "true", "aria-label": `Cell ${this.name}, to be changed` })) {
        this.code.setAttribute(name, value);
      }
      this.code.addEventListener("input", () => (this.reset.hidden = this.source === this.original));
      this.code.addEventListener("keydown", (event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        if (event.shiftKey || event.ctrlKey) return void this.run.click(); // as in a notebook
        const line = before(this.code).split("\n").pop() ?? "";
        const indent = (/^ */.exec(line)?.[0] ?? "") + (line.trimEnd().endsWith(":") ? "    " : "");
        document.execCommand("insertText", false, `\n${indent}`);
      });
    }

    restore() {
      this.code.textContent = `${this.original}\n`;
      this.reset.hidden = true;
    }

    /** @param {string} text */
    say(text) {
      this.state.textContent = text;
    }

    /** @param {Shown} shown @param {number} ms */
    show({ text, html, error }, ms) {
      for (const each of this.recorded) each.hidden = true;
      this.output.replaceChildren();
      this.output.hidden = !(text || html || error);
      for (const [content, kind] of [[text, "stream"], [error, "error"]]) {
        if (!content) continue;
        const pre = document.createElement("pre");
        pre.className = kind;
        pre.textContent = content;
        this.output.append(pre);
      }
      const made = document.createElement("div");
      made.className = "output text_html";
      made.innerHTML = html;
      this.output.append(made);
      /** @type {any} */ (globalThis).courseWidgets?.wake(made);
      this.say(`${error ? "Failed" : "Run"} here in ${ms < 950 ? `${Math.ceil(ms)} ms` : `${(ms / 1000).toFixed(1)} s`}`);
    }
  }

  /** The text of an element before the cursor. @param {HTMLElement} element */
  function before(element) {
    const cursor = getSelection();
    if (!cursor?.rangeCount) return "";
    const range = document.createRange();
    range.setStart(element, 0);
    range.setEnd(cursor.getRangeAt(0).startContainer, cursor.getRangeAt(0).startOffset);
    return range.toString();
  }

  /** @type {Worker | null} */
  let worker = null;
  /** @type {Cell[]} */
  let waiting = []; // the cells to run, in order
  /** @type {Cell | null} */
  let asked = null; // the last of them, whose button was pressed

  function reasonNot() {
    if (location.protocol === "file:") return SERVE;
    return typeof WebAssembly === "object" && typeof Worker === "function" ? "" : TOO_OLD;
  }

  /** @param {Cell} cell */
  function runUpTo(cell) {
    const reason = reasonNot();
    if (reason || asked) return cell.say(reason || "Another cell is running.");
    const above = cells.slice(0, cells.indexOf(cell)).filter((each) => each.ran !== each.source);
    [waiting, asked] = [[...above, cell], cell];
    for (const each of cells) each.run.disabled = true;
    cell.stop.hidden = false;
    if (!worker) start();
    next();
  }

  function start() {
    asked?.say(LOADING);
    worker = new Worker(new URL("in_browser/worker.js", script.src), { type: "module" });
    worker.onmessage = heard;
    worker.onerror = () => stop("Python could not be started. Press Run to try again.");
  }

  function next() {
    const [cell] = waiting;
    if (!cell) return rest();
    cell.ran = cell.source;
    worker?.postMessage({ cell: cell.name, source: cell.source });
  }

  /** @param {MessageEvent<Told>} message */
  function heard({ data }) {
    if (data.stage) asked?.say(data.stage);
    if (data.ready) asked?.say("Running");
    if (data.failed) stop(`Python has ended: ${data.failed}. Press Run to try again.`);
    if (!data.shown) return;
    waiting.shift()?.show(data.shown, data.ms ?? 0);
    next();
  }

  function rest() {
    if (asked) asked.stop.hidden = true;
    asked = null;
    for (const each of cells) each.run.disabled = false;
  }

  /** @param {string} reason */
  function stop(reason) {
    worker?.terminate();
    worker = null;
    waiting = [];
    for (const each of cells) each.ran = null;
    asked?.say(reason);
    rest();
  }

  const roots = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".cell.tag_runs-here"));
  const cells = [...roots].map((root, place) => new Cell(root, place));
  cells[0]?.say(FIRST);
})();

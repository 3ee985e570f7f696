// Behind the widgets' script. A page that was opened as a file may not fetch another one, so there
// the search says of each page what it is about.
const isFile = location.protocol === "file:";
// @ts-ignore: a constant of the script that Sphinx writes
if (isFile) DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
if (isFile && document.getElementById("search-results")) {
  const script = document.createElement("script");
  script.src = "_static/descriptions.js";
  script.onload = () => describeResults();
  document.head.append(script);
}

function describeResults() {
  // @ts-ignore: descriptions.js
  const said = globalThis.pageDescriptions;
  for (const link of said ? all("#search-results li:not(:has(.context)) > a") : []) {
    const text = said[link.getAttribute("href").split(/[?#]/)[0]];
    if (!text) continue;
    const context = document.createElement("p");
    context.className = "context";
    context.textContent = text;
    link.after(context);
  }
}

// Elsewhere an excerpt is of the article, and not of the contents beside it.
// @ts-ignore: Sphinx's own search, on its page alone
if (typeof Search === "object") {
  // @ts-ignore: the same
  Search.htmlToText = (text) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    for (const each of page.querySelectorAll("script, style, .headerlink, .one-click")) each.remove();
    return page.querySelector(".bd-article")?.textContent ?? "";
  };
}

const all = (selector, within = document) => [...within.querySelectorAll(selector)];

/** Let the keyboard reach what scrolls, and say that there is more where it ends. */
function showScrolling() {
  const wide = ".cell_output, .cell_output div, pre, table, .code, .pst-scrollable-table-container";
  for (const box of all(`.bd-article :is(${wide})`)) {
    const style = getComputedStyle(box);
    const scrolls = (size, whole, way) => whole > size + 1 && /auto|scroll/.test(way);
    const aside = scrolls(box.clientWidth, box.scrollWidth, style.overflowX);
    if (aside || scrolls(box.clientHeight, box.scrollHeight, style.overflowY)) box.tabIndex = 0;
    if (!aside || !box.querySelector("img, svg")) continue;
    const atEnd = box.onscroll = () => box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 8);
    atEnd();
  }
}

/** What the theme and the widgets leave to be said to a screen reader. */
function nameParts() {
  document.getElementById("jb-print-docs-body")?.remove(); // a second title
  const side = document.querySelector(".bd-sidebar-primary");
  side?.setAttribute("role", "navigation");
  side?.setAttribute("aria-label", "The course");
  for (const head of all("th")) if (!head.textContent?.trim()) head.replaceWith(document.createElement("td"));
  for (const title of all(".course-widget h4")) title.setAttribute("role", "presentation");
}

/** A button that lets an explorer fill the screen. */
function addFullScreen() {
  if (!document.fullscreenEnabled) return;
  for (const bar of all(".course-explorer .bar:not(:has(.full-screen))")) {
    const button = document.createElement("button");
    button.className = "full-screen";
    button.textContent = "full screen";
    button.addEventListener("click", () => {
      if (document.fullscreenElement) document.exitFullscreen();
      else bar.closest(".course-explorer")?.requestFullscreen();
    });
    bar.append(button);
  }
}

// Questions whose answer needs no kernel: judged as course/exercises/kinds/values.py does.
const SCALES = [
  { b: 1, byte: 1, kb: 1e3, kilobyte: 1e3, mb: 1e6, megabyte: 1e6, gb: 1e9, gigabyte: 1e9, kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30 },
  { s: 1, second: 1, ms: 1e-3, millisecond: 1e-3, us: 1e-6, microsecond: 1e-6, ns: 1e-9, nanosecond: 1e-9 },
];
const TYPED = /^(?:about|around|~|≈)?\s*([-+]?(?:\d{1,3}(?:,\d{3})+|\d+|(?=\.\d))(?:\.\d*)?(?:e[-+]?\d+)?)\s*((?![\d,.]).*)?$/i;
const plain = (text) => text.trim().replace(/\.+$/, "").replace(/[,;]|\band\b/g, " ").replace(/\s+/g, "").replace(/^['"`]+|['"`]+$/g, "").toLowerCase();
const units = (text) => (text.toLowerCase().replace(/[µμ]/g, "u").match(/[a-z]+|%/g) ?? [])
  .map((word) => word === "%" ? "percent" : /^([um]?s|ns)$/.test(word) ? word : word.replace(/s+$/, ""));

function numberIn(unit, typed) {
  const match = TYPED.exec(typed.trim().replace(/\.+$/, ""));
  if (!match) return null;
  const number = Number(match[1].replaceAll(",", "")), wanted = units(unit);
  const given = units(match[2] ?? "")[0] ?? "";
  if (!given || wanted.includes(given)) return number;
  const scale = SCALES.find((each) => given in each && wanted[0] in each);
  return scale ? number * scale[given] / scale[wanted[0]] : null;
}

const judges = {
  choice(asked, typed) {
    const letter = /^[\s(]*([a-z])\s*(?:$|[).:,;=-])/.exec(typed.toLowerCase())?.[1] ?? "";
    const letters = Object.keys(asked.why).map((each) => `'${each}'`).join(", ");
    if (!(letter in asked.why)) return ["no answer", `It must be one of ${letters}.`];
    return [letter === asked.right ? "right" : "wrong", asked.why[letter]];
  },
  text(asked, typed) {
    const is = (text) => plain(text) === plain(typed);
    if (asked.accepts.some(is)) return ["right", asked.because];
    return ["wrong", (asked.slips ?? []).find(([text]) => is(text))?.[1] ?? `It is not '${typed.trim()}'.`];
  },
  names(asked, typed) {
    let text = typed.toLowerCase();
    for (const [other, name] of Object.entries(asked.synonyms ?? {})) text = text.replace(RegExp(`\\b${other}\\b`, "g"), name);
    const names = text.replace(/\band\b/g, " ").match(/[\w-]+/g) ?? [];
    const is = (right) => right.join() === names.join();
    if (is(asked.right)) return ["right", asked.because];
    const known = [...new Set(asked.right)].sort(), other = names.find((name) => !known.includes(name));
    if (other) return ["wrong", `'${other}' is none of the ${asked.of}: those are ${known.join(", ")}.`];
    const there = `${names.length} name${names.length === 1 ? "" : "s"}`;
    if (names.length !== asked.right.length) return ["wrong", `It has ${there}, and must have ${asked.right.length}, one for each line, in order.`];
    const placed = names.filter((name, at) => name === asked.right[at]).length;
    return ["wrong", (asked.slips ?? []).find(([slip]) => is(slip))?.[1] ?? `${placed} of the ${names.length} stand in the right place.`];
  },
  number(asked, typed) {
    const number = numberIn(asked.unit, typed), near = asked.relative ?? 0.02;
    if (number === null) return ["no answer", `It must be a number, in ${asked.unit}, as 12.5; this is '${typed}'.`];
    const is = (right) => Math.abs(number - right) <= near * Math.max(Math.abs(number), Math.abs(right));
    if (is(asked.right)) return ["right", asked.because];
    const slip = (asked.slips ?? []).find(([wrong]) => is(wrong));
    if (slip) return ["wrong", slip[1]];
    if (!(number > 0 && number < Infinity)) return ["wrong", `It must be above zero and finite, in ${asked.unit}.`];
    const power = Math.round(Math.log10(number) - Math.log10(asked.right));
    if (power && is(asked.right * 10 ** power)) return ["wrong", `The digits are right and the power of ten is not: it must be in ${asked.unit}.`];
    return ["wrong", `It is too ${number > asked.right ? "large" : "small"}. The unit is ${asked.unit}.`];
  },
};

/** The verdict of what was typed as the answer to a question, and what is said. */
const judge = (asked, typed) => judges[asked.kind](asked, typed);

function openQuestions() {
  for (const form of all("form[data-question]")) {
    const asked = JSON.parse(form.dataset.question), says = form.querySelector("output");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const typed = form.querySelector("input").value;
      const [verdict, because] = typed.trim() ? judge(asked, typed) : ["to do", "Type your answer first."];
      says.dataset.verdict = verdict;
      says.textContent = `${verdict}: ${because}`;
    });
  }
}

Object.assign(globalThis, { courseQuestions: { judge } });

/** What is done for the page, and again where a widget or an output has come. */
function tend() {
  describeResults();
  nameParts();
  addFullScreen();
  showScrolling();
}

addEventListener("load", () => {
  openQuestions();
  tend();
  let soon = 0;
  const later = () => {
    clearTimeout(soon);
    soon = setTimeout(tend, 200);
  };
  addEventListener("resize", later);
  const article = document.querySelector(".bd-article");
  if (article) new MutationObserver(later).observe(article, { childList: true, subtree: true });
});

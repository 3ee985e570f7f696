// What the widgets share. Texts become text nodes alone: a kernel's strings reach what is shown unescaped.

/**
 * An element with what it holds, texts and elements, and its attributes; those that begin with "on" are called.
 * @param {string} tag
 * @param {string} [className]
 * @param {string | Node | (string | Node)[]} [held]
 * @param {Record<string, any>} [attributes]
 * @returns {any} an HTMLElement of that tag
 */
function element(tag, className = "", held = [], attributes = {}) {
  const created = document.createElement(tag);
  if (className) created.className = className;
  created.append(...[held].flat());
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) created[name] = value;
    else created.setAttribute(name, value);
  }
  return created;
}

// A line of code from its tokens, class and text in turn, with its number.
function codeLine(parts, row) {
  const line = element("div", "line", [], { "data-row": row });
  for (let i = 0; i < parts.length; i += 2) line.append(element("span", parts[i], parts[i + 1]));
  if (!parts.length) line.append("\n");
  return line;
}

// A number as a text, with commas.
function many(value) {
  return value.toLocaleString("en");
}

function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

// The bytes that Python has compressed with zlib and written in base64.
async function inflate(text) {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

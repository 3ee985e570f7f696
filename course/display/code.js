// What the widgets share. Text is set by textContent alone: a kernel's strings reach what is shown unescaped.

function element(tag, className, text) {
  const created = document.createElement(tag);
  if (className) created.className = className;
  if (text !== undefined) created.textContent = text;
  return created;
}

// A line of code from its tokens, class and text in turn, with its number.
function codeLine(parts, row) {
  const line = element("div", "line");
  line.dataset.row = row;
  for (let i = 0; i < parts.length; i += 2) line.append(element("span", parts[i], parts[i + 1]));
  if (!parts.length) line.append("\n");
  return line;
}


function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

// The bytes that Python has compressed with zlib and written in base64.
async function inflate(text) {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

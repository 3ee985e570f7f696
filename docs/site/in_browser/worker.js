// Runs Python in a thread of its own, so that the page stays alive and a loop without end can be ended.
// @ts-check

/** @typedef {{base: string, packages: string, numpy: string, files: Record<string, string>}} Runtime */
/** @typedef {{text: string, html: string, error: string}} Shown */

const here = new URL(".", import.meta.url);
const plainFetch = self.fetch.bind(self);
/** @type {Runtime} */
let runtime = { base: "", packages: "", numpy: "", files: {} };
let base = here;

/** @param {Promise<Response>} asked */
async function whole(asked) {
  const response = await asked;
  if (!response.ok) throw new Error(`${response.url} answers ${response.status}`);
  return response;
}

// What is pinned is only taken with its hash, also where Pyodide asks for it.
/** @type {typeof fetch} */
self.fetch = (asked, options) => {
  const url = asked instanceof Request ? asked.url : String(asked);
  const integrity = runtime.files[url.slice(url.lastIndexOf("/") + 1)];
  return plainFetch(asked, integrity ? { ...options, integrity } : options);
};

/** @param {string} name */
const bytesOf = async (name, from = base) =>
  new Uint8Array(await (await whole(fetch(new URL(name, from)))).arrayBuffer());

/** @param {string} name */
async function imported(name) {
  const url = URL.createObjectURL(new Blob([await bytesOf(name)], { type: "text/javascript" }));
  try {
    return await import(url);
  } finally {
    URL.revokeObjectURL(url);
  }
}

async function started() {
  runtime = await (await whole(plainFetch(new URL("runtime.json", here)))).json();
  base = new URL(runtime.base, here);
  const packages = new URL(runtime.packages, here);
  const archives = Promise.all([bytesOf(runtime.numpy, packages), bytesOf("page.zip", here)]);
  archives.catch(() => {}); // it is awaited below
  const [{ loadPyodide }] = await Promise.all([imported("pyodide.mjs"), imported("pyodide.asm.js")]);
  const python = await loadPyodide({ indexURL: base.href });
  postMessage({ stage: "Unpacking NumPy and the course" });
  const [numpy, page] = await archives;
  python.unpackArchive(numpy, "whl");
  python.unpackArchive(page, "zip", { extractDir: python.runPython("__import__('sysconfig').get_path('purelib')") });
  postMessage({ stage: "Starting Triton's interpreter" });
  const run = python.runPython("import in_page, numpy, torch, triton.language; in_page.run");
  postMessage({ ready: true });
  return /** @param {string} cell @param {string} source @returns {Shown} */ (cell, source) => {
    const shown = run(cell, source);
    try {
      return shown.toJs({ dict_converter: Object.fromEntries });
    } finally {
      shown.destroy();
    }
  };
}

const ready = started();
ready.catch((error) => postMessage({ failed: error instanceof Error ? error.message : String(error) }));

/** @param {MessageEvent<{cell: string, source: string}>} message */
self.onmessage = async ({ data: { cell, source } }) => {
  const run = await ready;
  const begin = performance.now();
  try {
    postMessage({ cell, shown: run(cell, source), ms: performance.now() - begin });
  } catch (error) { // Pyodide itself has ended: the memory is full, for one
    postMessage({ failed: error instanceof Error ? error.message : String(error) });
  }
};

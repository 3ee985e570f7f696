// Brings to life the widgets that a page holds as saved text, with the state of each beside it.
// `widgets` gives each kind's script by its name.

async function stateOf(saved) {
  const state = JSON.parse(new TextDecoder().decode(await inflate(saved.dataset.state)));
  if (saved.dataset.courseWidget === "slide") { // its pictures stand in the page, and are not kept twice
    const images = [...saved.querySelectorAll("img")];
    state.frames = images.map((image, at) => [state.values[at], image.src, image.alt, image.getAttribute("width")]);
  }
  return state;
}

async function wake(root) {
  for (const saved of root.querySelectorAll("[data-course-widget][data-state]")) {
    const { render } = widgets[saved.dataset.courseWidget] ?? {};
    if (!render) continue;
    const el = document.createElement("div");
    try {
      const state = await stateOf(saved);
      const model = { get: (name) => state[name], on: () => {}, off: () => {}, send: () => {} };
      saved.replaceWith(el); // before it is drawn: a replay measures itself
      render({ model, el });
    } catch (error) {
      el.replaceWith(saved);
      console.warn(`A saved ${saved.dataset.courseWidget} stays as text: ${error}`);
    }
  }
}

Object.assign(globalThis, { courseWidgets: { wake } });
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => wake(document));
else wake(document);

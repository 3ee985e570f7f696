// A slider over pictures that are drawn already.

const NARROWEST = 600;  // as course/display/picture.py has it: on a phone a picture scrolls

function render({ model, el }) {
  const frames = model.get("frames");
  const label = document.createElement("label");
  const shown = document.createElement("output");
  const input = document.createElement("input");
  const image = document.createElement("img");
  Object.assign(input, { type: "range", min: 0, max: frames.length - 1, step: 1, value: 0 });
  image.style.maxWidth = "100%";
  image.style.display = "block";
  const show = () => {
    const [value, source, alt, width] = frames[Number(input.value)];
    shown.textContent = ` ${value}`;
    input.setAttribute("aria-valuetext", value);
    Object.assign(image, { src: source, alt, width });
    image.style.minWidth = `${Math.min(width, NARROWEST)}px`;
  };
  input.addEventListener("input", show);
  label.append(`${model.get("name")} `, input, shown);
  const paper = document.createElement("div");
  paper.style.overflowX = "auto";
  paper.append(image);
  el.append(label, paper);
  show();
}

export default { render };

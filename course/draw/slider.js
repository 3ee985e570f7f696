// A slider over pictures that are drawn already.

const NARROWEST = 600;  // as course/display/picture.py has it: on a phone a picture scrolls

function render({ model, el }) {
  const frames = model.get("frames");
  const shown = element("output");
  const image = element("img", "", [], { style: "display: block; max-width: 100%" });
  const show = () => {
    const [value, source, alt, width] = frames[Number(input.value)];
    shown.textContent = ` ${value}`;
    input.setAttribute("aria-valuetext", value);
    Object.assign(image, { src: source, alt, width });
    image.style.minWidth = `${Math.min(width, NARROWEST)}px`;
  };
  const input = element("input", "", [], { type: "range", min: 0, max: frames.length - 1, value: 0, oninput: show });
  el.append(
    element("label", "", [`${model.get("name")} `, input, shown]),
    element("div", "", image, { style: "overflow-x: auto" }),
  );
  show();
}

export default { render };

// Frames sent ahead: a press shows the one it leads to at once. What is not here comes from the kernel as ever.
const PREFIX = "IPY_MODEL_".length;

function initialize({ model }) {
  const frames = new Map();
  const named = (reference) => model.widget_manager.get_model(reference.slice(PREFIX));
  const stands = (control) => control.get("index") ?? control.get("value");
  let show = () => {};

  model.on("msg:custom", ({ at, drop }, [png]) => {
    if (at === null) return frames.clear();
    if (drop !== null) frames.delete(JSON.stringify(drop));
    const value = new DataView(png.buffer.slice(png.byteOffset, png.byteOffset + png.byteLength));
    const decoded = new Image();
    decoded.src = new TextDecoder().decode(value);
    decoded.decode();
    frames.set(JSON.stringify(at), { value, decoded });
    show();
  });

  Promise.all([model.get("image"), ...model.get("controls")].map(named)).then(([image, ...controls]) => {
    show = () => {
      const frame = frames.get(JSON.stringify(controls.map(stands)));
      if (frame) image.set("value", frame.value);
    };
    for (const control of controls) control.on("change:index change:value", show);
    // An answer to an earlier press may come late. To set a model inside its own change would lose the change.
    image.on("change:value", () => queueMicrotask(show));
    model.send({ ready: true });
  });
}

export default { initialize };

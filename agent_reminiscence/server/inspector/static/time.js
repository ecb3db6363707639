// Two sliders over the moments at which something changed.
(() => {
  const form = document.getElementById("times");
  if (!form) return;
  const shown = (iso) => (iso ? new Date(iso).toISOString().replace("T", " ").slice(0, 19) : "now");
  for (const slider of form.querySelectorAll("input[type=range]")) {
    const moments = JSON.parse(slider.dataset.moments);
    const field = form.elements[slider.dataset.field];
    const output = form.querySelector(`output[for="${slider.id}"]`);
    const tell = () => {
      const moment = moments[Number(slider.value)] ?? "";
      field.value = moment;
      output.textContent = shown(moment);
      slider.setAttribute("aria-valuetext", shown(moment));
    };
    slider.closest(".slider").hidden = false;
    slider.setAttribute("aria-valuetext", output.textContent.trim());
    slider.addEventListener("input", tell);
    field.addEventListener("change", () => {
      const at = Date.parse(field.value);
      let place = moments.length;
      if (!Number.isNaN(at)) place = Math.max(moments.findLastIndex((moment) => Date.parse(moment) <= at), 0);
      slider.value = String(place);
      output.textContent = field.value ? shown(moments[place]) : "now";
    });
  }
})();

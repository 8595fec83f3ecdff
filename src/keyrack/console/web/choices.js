// Small links between fields of a form: a choice that acts at once, and a field that a check box disables.
import { whenever } from "./arrivals.js";

// [data-submit]: choosing sends the form
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
});

// [data-unless="id of a check box"]: disabled while the box is ticked
function weigh(field) {
  const box = document.getElementById(field.dataset.unless);
  if (box) field.disabled = box.checked;
}

whenever("[data-unless]", weigh);
// After morphing, the element is the same with the server's attributes
for (const name of ["change", "htmx:after:swap"]) {
  document.addEventListener(name, () => document.querySelectorAll("[data-unless]").forEach(weigh));
}

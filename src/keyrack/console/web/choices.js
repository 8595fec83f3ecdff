// Small ties between the fields of a form: a choice that acts at once, a field that does not count while a box is ticked.
import { whenever } from "./arrivals.js";

// [data-submit]: choosing sends the form
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
});

// [data-unless="id of a box"]: not to be filled in while the box is ticked
function weigh(field) {
  const box = document.getElementById(field.dataset.unless);
  if (box) field.disabled = box.checked;
}

whenever("[data-unless]", weigh);
// What is swapped in by morphing is the element that was there, as the server draws it
for (const name of ["change", "htmx:after:swap"]) {
  document.addEventListener(name, () => document.querySelectorAll("[data-unless]").forEach(weigh));
}

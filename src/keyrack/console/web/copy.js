// [data-copy="id"]: a button that copies the text of another element. data-copied: the announcement.
import { announce } from "./announce.js";

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  const source = button && document.getElementById(button.dataset.copy);
  if (!source) return;
  const text = source.value ?? source.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // There is no clipboard without https: the text is selected, so that the browser's keys copy it
    getSelection().selectAllChildren(source);
    return;
  }
  announce(button.dataset.copied);
  button.dataset.done = "";
  setTimeout(() => delete button.dataset.done, 2000);
});
